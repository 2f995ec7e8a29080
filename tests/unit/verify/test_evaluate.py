"""The evaluator against Python's integers, and against the bits of C where types have ends."""

from queue import SimpleQueue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.ir.walk import find
from nvdsl.mlir import ir
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import array, trace

THREADS = (0, 1, 5, 31, 32, 127, 128, 200, 255, 256, 383)


def values(build, *arguments):
    """What ``build()`` is in each of THREADS."""
    found = []

    def body(*traced):
        found.append(build(*traced))

    trace(body, *arguments, block=384)
    return [evaluate(found[0], t) for t in THREADS]


def in_python(function):
    return [function(t) for t in THREADS]


@given(st.integers(-300, 300), st.integers(1, 70), st.integers(0, 6), st.integers(-9, 9).filter(bool))
@settings(max_examples=30)
def test_arithmetic_is_pythons(a, b, shift, factor):
    def compute(t):
        x = (t - a) * factor
        return [x // b, x % b, x >> shift, x << shift, x & b, x | b, x ^ b]

    found = []

    def body():
        found.extend(compute(nv.thread_id.x))

    trace(body, block=384)
    for t in THREADS:
        assert [evaluate(x, t) for x in found] == compute(t)


COMPARISONS = {
    "==": lambda t: t == 128,
    "!=": lambda t: t != 128,
    "<": lambda t: t < 128,
    "<=": lambda t: t <= 128,
    ">": lambda t: t > 128,
    ">=": lambda t: t >= 128,
    "negative": lambda t: t - 200 < -72,
}


@pytest.mark.parametrize("compare", COMPARISONS.values(), ids=list(COMPARISONS))
def test_comparisons(compare):
    assert values(lambda: compare(nv.thread_id.x)) == [int(x) for x in in_python(compare)]


def between():
    return 100 <= nv.thread_id.x < 250


def neither():
    return not (nv.thread_id.x < 128 or nv.warp_id() == 6)


def chosen():
    return nv.warpgroup_id() if nv.thread_id.x > 3 else 7


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (between, lambda t: int(100 <= t < 250)),
        (neither, lambda t: int(not (t < 128 or t // 32 == 6))),
        (chosen, lambda t: t // 128 if t > 3 else 7),
    ],
)
def test_logic(build, expected):
    def build_traced():
        return build()

    assert values(build_traced) == in_python(expected)


def test_ids():
    assert values(lambda: nv.thread_id.x) == list(THREADS)
    assert values(lambda: nv.thread_id.y) == [0] * len(THREADS), "of a block along x"
    assert values(nv.lane_id) == [t % 32 for t in THREADS]
    assert values(nv.warp_id) == [t // 32 for t in THREADS], "through a shuffle"
    assert values(nv.warpgroup_id) == [t // 128 for t in THREADS]
    assert values(nv.warpgroup_thread) == [t % 128 for t in THREADS]


def signed(x, bits):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


WRAPPING = {
    "trunc": (lambda t: nv.i8(t), lambda t: signed(t, 8)),
    "product": (lambda t: t * (1 << 24), lambda t: signed(t << 24, 32)),
    "unsigned difference": (lambda t: nv.u32(t) - 200 < 60, lambda t: int((t - 200) % 2**32 < 60)),
    "unsigned extension": (lambda t: nv.i64(nv.u32(t) - 200), lambda t: (t - 200) % 2**32),
    "signed extension": (lambda t: nv.i64(t - 200), lambda t: t - 200),
    "unsigned quotient": (lambda t: (nv.u32(t) - 200) // 3, lambda t: signed((t - 200) % 2**32 // 3, 32)),
    "unsigned remainder": (lambda t: (nv.u32(t) - 200) % 7, lambda t: (t - 200) % 2**32 % 7),
    "unsigned shift": (lambda t: (nv.u32(t) - 200) >> 30, lambda t: (t - 200) % 2**32 >> 30),
    "a condition as a number": (lambda t: nv.i32(t < 128), lambda t: int(t < 128)),
    "a number as a condition": (lambda t: nv.bool_(t % 2), lambda t: t % 2),
    "index": (lambda t: nv.index(t) * 3 - 1, lambda t: 3 * t - 1),
}


@pytest.mark.parametrize(("build", "expected"), WRAPPING.values(), ids=list(WRAPPING))
def test_types_end_where_they_end(build, expected):
    """A range check by one unsigned comparison is common in kernels: a wrong value would refuse a right program."""
    assert values(lambda: build(nv.thread_id.x)) == in_python(expected)


UNKNOWN = {
    "an argument": lambda x, n: n + 1,
    "a float": lambda x, n: nv.f32(1.0),
    "what memory holds": lambda x, n: x[0],
    "the block": lambda x, n: nv.block_id.x,
    "an elected lane": lambda x, n: nv.elect(),
    "an unknown part": lambda x, n: nv.thread_id.x * n,
    "a vote": lambda x, n: nv.ballot(n > 3),
    "division by zero": lambda x, n: nv.u32(nv.thread_id.x) // nv.u32(nv.thread_id.x - nv.thread_id.x),
    "a shift by too much": lambda x, n: nv.i32(1) << (nv.thread_id.x + 32),
    "a shift by a negative number": lambda x, n: nv.i32(1) << (-1 - nv.thread_id.x),
}


@pytest.mark.parametrize("build", UNKNOWN.values(), ids=list(UNKNOWN))
def test_what_the_module_does_not_determine_is_unknown(build):
    assert values(build, array(nv.i32, 4), 3) == [None] * len(THREADS)


def test_a_loops_variable_is_unknown():
    found = SimpleQueue()  # a list would be state that the loop changes

    def body(n):
        for i in nv.range(n):
            found.put(i)

    trace(body, 3)
    assert evaluate(found.get(), 0) is None


OPS = {
    "arith.divsi": lambda a, b: int(a / b),
    "arith.remsi": lambda a, b: a - int(a / b) * b,
    "arith.floordivsi": lambda a, b: a // b,
    "arith.divui": lambda a, b: a % 2**32 // (b % 2**32),
    "arith.remui": lambda a, b: a % 2**32 % (b % 2**32),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3)])
def test_divisions_round_as_mlir_says(name, a, b):
    """Programs may build these themselves: divsi and remsi go toward zero."""
    value = result(
        name,
        f"""
        %a = arith.constant {a} : i32
        %b = arith.constant {b} : i32
        %r = {name} %a, %b : i32""",
    )
    assert evaluate(value, 0) == signed(OPS[name](a, b), 32)


@pytest.mark.parametrize(("name", "expected"), [("arith.extsi", -1), ("arith.extui", 1)])
def test_a_true_condition_is_minus_one_when_its_sign_is_extended(name, expected):
    value = result(name, f"%t = arith.constant true %r = {name} %t : i1 to i32")
    assert evaluate(value, 0) == expected


def result(name, text):
    """The result of the op ``name`` in these ops."""
    with ir.Context():
        module = ir.Module.parse(f"func.func @f() {{ {text} return }}")
    modules.append(module)
    return find(module, name)[0].results[0]


modules = []  # values do not keep their module
