"""Constants are told apart by type and bits; those that are alike share a compilation."""

from __future__ import annotations

import enum
import functools
import math
import struct
from collections import namedtuple
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.call.signature import constants
from nvdsl.call.specialize import Constant
from nvdsl.trace.tokens import token
from nvdsl.tune.space import Config
from tests.unit.kernels import array


@dataclass(frozen=True)
class F:
    x: Any


@dataclass(frozen=True)
class Uncompared:
    x: Any = field(compare=False)


class Equal:
    """Lenient, as many classes are."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, Equal) and self.x == other.x

    def __hash__(self):
        return hash(self.x)


class Slotted(Equal):
    __slots__ = ("y",)

    def __init__(self, y):
        super().__init__(1)
        self.y = y


Pair = namedtuple("Pair", "a b")
Other = namedtuple("Other", "a b")


class Mode(enum.IntEnum):
    ONE = 1


class Kind(enum.Enum):
    ONE = 1


def scaled(by, default=1.0):
    def scale(x, y=default):
        return x * by * y

    return scale


def lambdas(by):
    return lambda x: x * by


def nan(payload):
    return struct.unpack("d", struct.pack("Q", 0x7FF8000000000000 | payload))[0]


DIFFERENT = [
    [1, 1.0, True, np.int32(1), np.int64(1), np.float32(1), np.float64(1), Mode.ONE, Kind.ONE, Fraction(1), 1 + 0j],
    [0.0, -0.0, 0, False, np.float32(0.0), np.float32(-0.0), complex(0.0, -0.0), 0j],
    [nan(0), nan(1), math.inf, np.float32(math.nan)],
    [F(2), F(2.0), F(np.float32(2)), 2, (2,)],
    [F(0.0), F(-0.0)],
    [F((1, F(0.0))), F((1, F(-0.0))), F((True, F(0.0)))],
    [Uncompared(1), Uncompared(2)],
    [Equal(1), Equal(1.0), Equal(True)],
    [Slotted(0.0), Slotted(-0.0)],
    [(1, 2), (1.0, 2), Pair(1, 2), Other(1, 2), Pair(1, 2.0)],
    [frozenset((1,)), frozenset((1.0,)), frozenset((0.0,)), frozenset((-0.0,))],
    [np.dtype("<f4"), np.dtype(">f4"), np.float32, nv.f32],
    [range(3), range(0, 3, 2), (0, 1, 2)],
    [slice(1), slice(1.0)],
    [scaled(1), scaled(1.0), scaled(1, 2.0), lambdas(1), lambdas(1.0)],
    [functools.partial(scaled, 1), functools.partial(scaled, 1.0), functools.partial(scaled, by=1)],
    ["1", b"1", 1],
]


@pytest.mark.parametrize("values", DIFFERENT, ids=lambda v: repr(v[0])[:30])
def test_constants_that_differ_in_type_or_bits_are_different(values):
    assert len({token(v) for v in values}) == len(values)
    assert len({Constant(v) for v in values}) == len(values)
    assert len({constants({"x": v}) for v in values}) == len(values)


ALIKE = {
    "NaN": lambda: float("nan"),
    "a NaN in a tuple": lambda: (1, float("nan")),
    "a NaN in a dataclass": lambda: F(float("nan")),
    "float32": lambda: np.float32(math.nan),
    "dataclass": lambda: F((1, 2.0)),
    "namedtuple": lambda: Pair(1, 2.0),
    "frozenset": lambda: frozenset((1, 2.0)),
    "equal objects": lambda: Equal(1.5),
    "lambda": lambda: lambdas(2.0),
    "function": lambda: scaled(2.0),
    "function of a module": lambda: lambdas,
    "partial": lambda: functools.partial(lambdas(3), 2.0),
    "function in a dataclass": lambda: F(lambdas(2.0)),
    "enum": lambda: Mode(1),
    "large int": lambda: int("123456789012345"),
    "dtype": lambda: np.dtype("float16"),
}


@pytest.mark.parametrize("make", ALIKE.values(), ids=ALIKE)
def test_constants_that_are_alike_are_one(make):
    assert token(make()) == token(make()) and hash(token(make())) == hash(token(make()))
    assert constants({"x": make()}) == constants({"x": make()})


def test_a_function_that_its_own_closure_holds():
    def made():
        def recursive(n):
            return recursive(n - 1)

        return recursive

    one = made()
    assert token(one) == token(one) and isinstance(hash(token(one)), int)


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1, [2]), F([1]), {1}], ids=repr)
def test_what_python_can_not_hash_has_no_token(value):
    assert constants({"x": value}) is None


def test_a_closure_over_a_list_is_found_by_the_list_itself():
    x, y = [1], [1]
    assert token(lambdas(x)) == token(lambdas(x)) != token(lambdas(y))


def test_a_loop_of_nans_and_lambdas_compiles_once():
    traces = []

    @nv.jit
    def function(x, *, c):
        traces.append(c)

    for _ in range(20):
        function.compile(array(nv.f32, 64), c=float("nan"))
        function.compile(array(nv.f32, 64), c=lambdas(2.0))
    assert len(function._compiled) == 2 and len(traces) == 2


def test_what_a_trace_sees_is_the_constant_of_this_call():
    seen = []

    @nv.jit
    def function(x, *, c):
        seen.append(c.x if isinstance(c, F) else c)

    given = [F(2), F(2.0), F(0.0), F(-0.0), np.float32(-0.0), np.float32(0.0)]
    for c in given * 2:
        function.compile(array(nv.f32, 64), c=c)
    assert [repr(x) for x in seen] == [repr(c.x if isinstance(c, F) else c) for c in given]


def test_configurations_of_a_space():
    configs = [Config({"a": v}) for v in (1, 1.0, True, 0.0, -0.0, F(1), F(1.0), (1, 2), (1, 2.0))]
    assert len(set(configs)) == len(configs)
