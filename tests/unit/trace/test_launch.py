"""nv.kernel: the sizes of a launch, and the gpu.launch that it becomes."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.ir.walk import constant, find
from nvdsl.values import scope
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import array, host, refused, smem_bytes, trace


def sizes(module):
    """grid and block (and cluster) of the only launch, as far as they are constants."""
    (launch,) = find(module, "gpu.launch")
    operands = list(launch.operands)[:-1]  # the last is the size of shared memory
    found = [constant(x) for x in operands]
    return [tuple(found[i : i + 3]) for i in range(0, len(found), 3)]


def nothing():
    pass


@pytest.mark.parametrize(
    ("grid", "block", "expected"),
    [
        (5, 32, [(5, 1, 1), (32, 1, 1)]),
        ((5, 6), (8, 4), [(5, 6, 1), (8, 4, 1)]),
        ((2, 3, 4), (4, 2, 64), [(2, 3, 4), (4, 2, 64)]),
        (np.int64(7), np.int32(128), [(7, 1, 1), (128, 1, 1)]),
        (np.array([7, 2]), np.array(128), [(7, 2, 1), (128, 1, 1)]),
        ([3, 2], [16, 16], [(3, 2, 1), (16, 16, 1)]),
        ((2**31 - 1, 65535, 65535), 1024, [(2**31 - 1, 65535, 65535), (1024, 1, 1)]),
    ],
)
def test_sizes(grid, block, expected):
    assert sizes(trace(nothing, grid=grid, block=block)) == expected


def test_clusters():
    grid, block, cluster = sizes(trace(nothing, grid=(8, 6), block=64, cluster=(4, 2)))
    assert sorted([grid, block, cluster]) == sorted([(8, 6, 1), (64, 1, 1), (4, 2, 1)])


def test_a_cluster_of_one_block_is_none():
    assert len(sizes(trace(nothing, cluster=1))) == 2


def test_the_grid_may_be_computed_when_it_is_launched():
    def function(x, n):
        @nv.kernel(grid=(n // 128, 2), block=128)
        def kernel():
            x[0] = 1.0

        kernel()

    assert sizes(nv.jit(function).trace(array(nv.f32, 4), 3)) == [(None, 2, 1), (128, 1, 1)]


REFUSED = {
    "a negative grid along x": ({"grid": -1}, "0 to 2,147,483,647 blocks"),
    "a negative grid": ({"grid": (4, -1)}, "blocks along y"),
    "a grid that is too high": ({"grid": (1, 65536)}, "65,535"),
    "a grid that is no integer": ({"grid": 2.0}, "an int"),
    "four extents": ({"grid": (1, 1, 1, 1)}, "one to three"),
    "no extent": ({"block": ()}, "one to three"),
    "a block of nothing": ({"block": 0}, "positive Python ints"),
    "a block that is no integer": ({"block": 32.0}, "positive Python ints"),
    "1025 threads": ({"block": 1025}, "1024 threads"),
    "1056 threads": ({"block": (32, 33)}, "1024 threads"),
    "65 threads along z": ({"block": (1, 1, 65)}, "64 along z"),
    "a cluster of nothing": ({"cluster": 0}, "positive Python ints"),
    "a cluster of 16": ({"grid": 16, "cluster": 16}, "at most 8 blocks"),
    "a cluster that does not divide the grid": ({"grid": (4, 3), "cluster": (2, 2)}, "whole number of clusters"),
}


def test_a_grid_that_is_too_long_belongs_on_x():
    error = refused(lambda: host(nothing, grid=(1, 70_000)).trace(), host)
    assert error.message == "a grid of 70000 blocks along y"
    assert "0 to 65,535 blocks along y" in error.rule
    assert "along x" in error.fix and "2,147,483,647" in error.fix and "nv.block_id.x //" in error.fix


@pytest.mark.parametrize(("launch", "rule"), REFUSED.values(), ids=list(REFUSED))
def test_launches_that_are_refused(launch, rule):
    error = refused(lambda: host(nothing, **launch).trace(), host)
    assert isinstance(error, nv.TraceError)
    assert rule in error.rule
    assert error.fix


def test_more_than_eight_blocks_of_a_cluster_are_asked_for():
    def function(x, *, size):
        nv.kernel(grid=size, block=32, cluster=size, non_portable=True)(nothing)()

    assert sizes(nv.jit(function).trace(array(nv.f32, 4), size=16))[0][0] == 16
    error = refused(lambda: nv.jit(function).trace(array(nv.f32, 4), size=17), function)
    assert "at most 16 blocks with non_portable=True" in error.rule


def test_a_grid_of_a_traced_float_is_refused():
    def function(x, n):
        nv.kernel(grid=n, block=32)(nothing)()

    error = refused(lambda: nv.jit(function).trace(array(nv.f32, 4), 2.5), function)
    assert "a traced integer" in error.rule


def test_a_traced_block_is_refused():
    def function(x, n):
        nv.kernel(grid=1, block=n)(nothing)()

    error = refused(lambda: nv.jit(function).trace(array(nv.f32, 4), 3), function)
    assert "keyword" in error.fix


def test_a_kernel_takes_arguments_and_sees_the_hosts_variables():
    def function(x, y, n):
        scale = 2

        @nv.kernel(grid=1, block=32)
        def kernel(source, count, *, target):
            target[nv.thread_id.x] = source[count] * scale

        kernel(x, n, target=y)

    module = nv.jit(function).trace(array(nv.f32, 32), array(nv.f32, 32), 3)
    x, y, _ = module.body.operations[0].regions[0].blocks[0].arguments
    assert find(module, "memref.load")[0].operands[0] == x
    assert find(module, "memref.store")[0].operands[1] == y


def test_a_host_function_may_launch_several_kernels_several_times():
    def function(x):
        def store(value):
            @nv.kernel(grid=1, block=32)
            def kernel():
                nv.smem((value,), nv.u8)
                x[0] = value

            return kernel

        first, second = store(1), store(2)
        first()
        second()
        first()

    result = nv.jit(function).compile(array(nv.f32, 4))
    assert [k.user_smem_bytes for k in result.kernels.values()] == [1, 2, 1]


@pytest.mark.parametrize("name", ["<lambda>", "ké", "kernel"])
def test_any_name_that_python_allows_reaches_ptx(name):
    def body(x):
        x[0] = 1.0

    body.__name__ = name
    (kernel,) = host(body).compile(array(nv.f32, 4)).kernels.values()
    assert kernel.name.isascii() and kernel.name.isidentifier()
    assert f".entry {kernel.name}(" in kernel.ptx


def test_a_kernel_may_have_its_host_functions_name():
    @nv.jit
    def saxpy(x):
        @nv.kernel(grid=1, block=32)
        def saxpy():
            x[0] = 1.0

        saxpy()

    assert len(saxpy.compile(array(nv.f32, 4)).kernels) == 1


def test_shared_memory_is_what_the_body_allocates():
    def body():
        nv.smem((100,), nv.f32)

    assert smem_bytes(trace(body)) == 400
    assert smem_bytes(trace(nothing)) == 0


def test_the_kernel_is_current_in_its_body_alone():
    seen = []

    def body():
        seen.append(scope.current())

    trace(body, grid=(4, 2), block=(32, 2), cluster=2)
    (kernel,) = seen
    assert (kernel.name, kernel.grid, kernel.block, kernel.cluster) == ("body", (4, 2, 1), (32, 2, 1), (2, 1, 1))
    with pytest.raises(nv.TraceError):
        scope.current()


def test_a_launch_inside_of_a_kernel_is_refused():
    def body():
        nv.kernel(grid=1, block=32)(nothing)()

    error = refused(lambda: trace(body), body)
    assert "host function" in error.fix


def test_ids_count_from_the_launch():
    found = []

    def body():
        found.extend([nv.thread_id.x, nv.block_id.x + nv.thread_id.x])

    trace(body)
    thread, mixed = found
    assert evaluate(thread, 17) == 17
    assert evaluate(mixed, 17) is None, "blocks are not told apart"


def test_lambdas_of_a_comprehension():
    """Each is compiled anew; Python calls the function around them ``<listcomp>``, which is no name."""

    @nv.jit
    def host(out):
        @nv.kernel(grid=1, block=32)
        def kernel():
            steps = [lambda v, i=i: v * 2.0 if v > i else v + 1.0 for i in range(3)]
            v = nv.f32(nv.thread_id.x)
            for step in steps:
                v = step(v)
            out[nv.thread_id.x] = v

        kernel()

    out, want = np.zeros(32, np.float32), np.arange(32, dtype=np.float32)
    host(out, target="sim")
    for i in range(3):
        want = np.where(want > i, want * 2, want + 1)
    assert (out == want).all()
