"""The lowest bits of values that the module doesn't determine."""

import itertools

import pytest

import nvdsl as nv
from nvdsl.verify import residues
from nvdsl.verify.program import Program
from nvdsl.verify.residues import BITS, Residues
from tests.unit.kernels import array, trace

CASES = [
    (lambda n: n, 0, 0),
    (lambda n: n * 64 + 8, 6, 8),
    (lambda n: 8 - n * 4, 2, 0),
    (lambda n: (n << 3) + 13, 3, 5),
    (lambda n: n * 12 * (n * 2), 3, 0),
    (lambda n: (n & ~7) + 3, 3, 3),
    (lambda n: (n * 4 + 3) & 5, 2, 1),
    (lambda n: (n * 4 + 3) & 6, 2, 2),
    (lambda n: n * 0 + 5, BITS, 5),
    (lambda n: n * 1024, BITS, 0),
    (lambda n: nv.select(n > 3, n * 8 + 1, n * 16 + 5), 2, 1),
    (lambda n: nv.select(n > 3, n * 8 + 1, n * 16 + 4), 0, 0),
    (lambda n: nv.i64(n * 16 + 2), 4, 2),
    (lambda n: n // 3, 0, 0),
    (lambda n: n // 8 * 8 + 1, 3, 1),
    (lambda n: n ^ 1, 0, 0),
]


def residue_of_the_store(body, *arguments):
    """Of the index of the kernel's only store, and its bits that are known."""
    program = Program(trace(body, *arguments, block=32))
    (kernel,) = program.kernels
    (store,) = kernel.find("memref.store")
    bits, low = Residues(kernel.threads).of(store.op.operands[2])
    return bits, low & (1 << bits) - 1


@pytest.mark.parametrize(("compute", "bits", "low"), CASES)
def test_what_is_known_of_a_value(compute, bits, low):
    def body(x):
        x[compute(nv.block_id.x)] = 1.0

    assert residue_of_the_store(body, array(nv.f32, 64)) == (bits, low)


def test_a_loops_variable_is_its_first_value_and_some_steps():
    def body(x):
        for i in nv.range(nv.block_id.x * 8 + 4, nv.grid_dim.x, 16):
            x[i + 3] = 1.0

    assert residue_of_the_store(body, array(nv.f32, 64)) == (3, 7)


def test_a_value_that_a_loop_carries_is_not_known():
    def body(x):
        at = nv.i32(8)
        for _ in nv.range(nv.grid_dim.x):
            at = at * 3
        x[at] = 1.0

    assert residue_of_the_store(body, array(nv.f32, 64)) == (0, 0)


def test_threads_may_each_have_other_bits():
    def body(x):
        x[nv.block_id.x * 64 + nv.thread_id.x] = 1.0

    bits, low = residue_of_the_store(body, array(nv.f32, 64))
    assert bits == 6 and low.tolist() == list(range(32))


@pytest.mark.parametrize("name", ["addi", "subi", "muli", "andi", "shli"])
def test_whatever_the_unknown_bits_are_the_known_ones_hold(name):
    def exact(a, b):
        return {"addi": a + b, "subi": a - b, "muli": a * b, "andi": a & b, "shli": a << b}[name]

    for bits, others in itertools.product(range(4), (BITS,) if name == "shli" else range(4)):
        for a, b in itertools.product(range(1 << bits), range(5) if name == "shli" else range(1 << others)):
            known, low = residues._COMPUTE[f"arith.{name}"]((bits, a), (others, b))
            for more, rest in itertools.product(range(4), (0,) if name == "shli" else range(4)):
                value = exact(a + (more << bits), b + (rest << others))
                assert value % (1 << known) == low % (1 << known), (bits, a, others, b, more, rest)


def test_a_narrow_integer_has_no_more_bits_than_its_type():
    def body(x):
        x[nv.i32(nv.u8(nv.block_id.x * 4 + 1) < 7)] = 1.0

    assert residue_of_the_store(body, array(nv.f32, 64))[0] <= 1
