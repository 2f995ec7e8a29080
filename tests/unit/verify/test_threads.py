"""What is known of a value in all threads of a cluster at once."""

from queue import SimpleQueue

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.ir.walk import find
from nvdsl.verify.expressions import Expressions
from nvdsl.verify.program import Program
from nvdsl.verify.reach import Reaches
from nvdsl.verify.rounds import values
from nvdsl.verify.threads import of_launch, ranges
from tests.unit.kernels import array, trace


def analyzed(build, *arguments, block=128, cluster=1):
    """(threads, the value that ``build`` makes in a kernel)."""
    found = []
    module = trace(lambda *a: found.append(build(*a)), *arguments, block=block, cluster=cluster, grid=cluster)
    (launch,) = find(module, "gpu.launch")
    return of_launch(launch), found[0]


def known(build, *arguments, **launch):
    threads, value = analyzed(build, *arguments, **launch)
    result = threads.of(value)
    return result if result is None or isinstance(result, int) else result.tolist()


ALL = range(128)
EXPRESSIONS = {
    "a constant": (lambda: nv.i32(7) * 3, 21),
    "thread": (lambda: nv.thread_id.x * 2 + 1, [2 * t + 1 for t in ALL]),
    "warp": (nv.warp_id, [t // 32 for t in ALL]),
    "a lane's value in all": (lambda: nv.shuffle(nv.thread_id.x, 5), [t // 32 * 32 + 5 for t in ALL]),
    "elected": (lambda: nv.elect(), [int(t % 32 == 0) for t in ALL]),
    "chosen": (lambda: nv.thread_id.x if nv.thread_id.x > 9 else nv.i32(3), [t if t > 9 else 3 for t in ALL]),
    "the same everywhere": (lambda: nv.thread_id.x // 128, 0),
    "divided": (lambda: (nv.thread_id.x - 64) // 3, [(t - 64) // 3 for t in ALL]),
    "remainder": (lambda: (nv.thread_id.x - 64) % 3, [(t - 64) % 3 for t in ALL]),
    "unsigned": (lambda: nv.u32(nv.thread_id.x) - 1 < 10, [int((t - 1) % 2**32 < 10) for t in ALL]),
    "wrapped": (lambda: nv.i8(nv.thread_id.x * 2), [(2 * t + 128) % 256 - 128 for t in ALL]),
    "least": (lambda: nv.min(nv.thread_id.x, 5), [min(t, 5) for t in ALL]),
    "dimension": (lambda: nv.block_dim.x, 128),
    "the block": (lambda: nv.block_id.x, None),
}


@pytest.mark.parametrize(("build", "expected"), EXPRESSIONS.values(), ids=list(EXPRESSIONS))
def test_values_in_all_threads(build, expected):
    def traced():
        return build()

    assert known(traced) == expected


def test_threads_of_blocks_with_several_axes():
    assert known(lambda: nv.thread_id.y, block=(4, 3, 2)) == [t // 4 % 3 for t in range(24)]
    assert known(lambda: nv.thread_id.z, block=(4, 3, 2)) == [t // 12 for t in range(24)]


def test_threads_of_all_blocks_of_a_cluster():
    assert known(lambda: nv.cluster_rank(), block=32, cluster=(2, 2, 1)) == [t // 32 for t in range(128)]
    assert known(lambda: nv.cluster_block_id.y, block=32, cluster=(2, 2, 1)) == [t // 64 for t in range(128)]


def test_conditions_that_are_known_in_part():
    threads, value = analyzed(lambda n: nv.thread_id.x < 64 and n > 3, 1)
    may, may_not = threads.truth(value)
    assert may.tolist() == [t < 64 for t in ALL] and may_not.all()
    threads, value = analyzed(lambda n: nv.thread_id.x < 64 or n > 3, 1)
    may, may_not = threads.truth(value)
    assert may.all() and may_not.tolist() == [t >= 64 for t in ALL]


UNIFORM = {
    "an argument": (lambda x, n: n + 1, True),
    "the block": (lambda x, n: nv.block_id.x * 3, True),
    "the thread": (lambda x, n: nv.thread_id.x + n, False),
    "memory": (lambda x, n: x[0], False),
    "under an argument": (lambda x, n: nv.i32(1) if n > 3 else nv.i32(2), True),
    "under the thread": (lambda x, n: n if nv.thread_id.x > 3 else n + 1, False),
}


@pytest.mark.parametrize(("build", "expected"), UNIFORM.values(), ids=list(UNIFORM))
def test_what_is_one_for_a_block(build, expected):
    def traced(x, n):
        return build(x, n)

    threads, value = analyzed(traced, array(nv.i32, 4), 3)
    assert Expressions(threads).uniform(value) is expected


def test_blocks_of_a_cluster_have_numbers_of_their_own():
    threads, value = analyzed(lambda: nv.cluster_rank(), cluster=2)
    assert Expressions(threads).uniform(value), "one for each block is what a block's barrier needs"


def loops(build):
    """The values that ``build(i, carried)`` makes in each of two loops with a carried value."""
    found = SimpleQueue()  # a list would be state that the loop changes

    def body(n):
        for start in (0, 0, 1):
            carried = nv.i32(start)
            for i in nv.range(n):
                found.put(build(i, carried))
                carried = (carried + 1) % 3

    module = trace(body, 8)
    (launch,) = find(module, "gpu.launch")
    return of_launch(launch), [found.get() for _ in range(3)], find(module, "scf.for")


def test_equal_loops_have_equal_variables():
    threads, found, _ = loops(lambda i, carried: carried * 2 + i)
    first, second, other = map(Expressions(threads).key, found)
    assert first == second
    assert first != other, "it starts elsewhere"
    assert Expressions(threads).varies(found[0])


def test_values_round_by_round():
    threads, found, ops = loops(lambda i, carried: carried * 10 + i)
    assert values(threads, found[0], ops[0], 7) == ([0, 11, 22, 3, 14, 25, 6], False)
    assert values(threads, found[2], ops[2], 3) == ([10, 21, 2], False)


def test_a_short_loop_ends():
    found = SimpleQueue()

    def body():
        for i in nv.range(3, 9, 2):
            found.put(i * i)

    module = trace(body)
    (launch,) = find(module, "gpu.launch")
    assert values(of_launch(launch), found.get(), find(module, "scf.for")[0], 9) == ([9, 25, 49], True)


def reach_of(body, *arguments, name="gpu.barrier", **launch):
    module = trace(body, *arguments, **launch)
    program = Program(module)
    (kernel,) = program.kernels
    (node,) = kernel.find(name)
    return Reaches(kernel, kernel.threads, Expressions(kernel.threads)).of(node)


def test_reach():
    def body(n):
        for _ in nv.range(4):
            if n > 3:
                nv.sync_threads()

    reach = reach_of(body, 1)
    assert reach.lanes.all() and reach.uniform and reach.trips == (4,) and len(reach.conditions) == 1

    def late(n):
        for _ in nv.range(n):
            if nv.warp_id() > 1 and n > 3:
                nv.named_barrier_sync(1, 64)

    reach = reach_of(late, 1, name="nvvm.barrier")
    assert ranges(reach.lanes) == "64-127" and reach.uniform and reach.trips == (None,) and len(reach.branches) == 1


def test_ranges_in_words():
    lanes = np.zeros(256, bool)
    lanes[[0, 1, 2, 7, 64, 65]] = True
    assert ranges(lanes) == "0-2, 7, 64-65"
    assert ranges(np.arange(256) % 2 == 0) == "0, 2, 4, 6, ..."
