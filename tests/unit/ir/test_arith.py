"""One meaning of arith for the host program, the simulator and the verifier: the three agree on random operands of each
operation and type, edge values among them, and so does what MLIR makes of constants."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from nvdsl.driver.host import arith as host_arith
from nvdsl.driver.host.builder import Builder
from nvdsl.errors import ArgumentError
from nvdsl.ir.arith import CASTS, DIVISIONS, FLOATS, INTEGERS, OF_LLVM, PREDICATES, SHIFTS
from nvdsl.ir.operands import constant_value
from nvdsl.ir.walk import find
from nvdsl.mlir import ir, passmanager
from nvdsl.sim import dialects  # noqa: F401  registers the operations
from nvdsl.sim.decode import HANDLERS, Decoder
from nvdsl.sim.values import LANES, element, scalar
from nvdsl.values.elements import ELEMENTS, bit_pattern, from_bits
from nvdsl.verify.evaluate import compute, fit

WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
FLOAT_TYPES = ("f16", "bf16", "f32", "f64")
COMPARED = ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
            "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true")  # fmt: skip
CONTEXT = ir.Context()


@dataclass(frozen=True)
class Case:
    """``name``: the operation. ``types``: of its operands. ``predicate``: of a comparison."""

    name: str
    types: tuple[str, ...]
    result: str
    predicate: int | None = None

    def __str__(self):
        chosen = "" if self.predicate is None else f"-{self.predicate}"
        return f"{self.name.removeprefix('arith.')}{chosen}-{'-'.join(dict.fromkeys((*self.types, self.result)))}"

    def text(self, operands):
        attribute = "" if self.predicate is None else f"{{predicate = {self.predicate} : i64}}"
        return f'"{self.name}"({operands}) {attribute} : ({", ".join(self.types)}) -> {self.result}'

    def is_defined(self, operands):
        """Whether the language reference defines the result."""
        bits = WIDTHS.get(self.types[0])
        if self.name in DIVISIONS:
            x, y = operands
            least = -1 if bits == 1 else -(1 << (bits - 1))
            x, y = (-x, -y) if bits == 1 else (x, y)
            return y != 0 and (self.name.endswith("ui") or (x, y) != (least, -1))
        if self.name in SHIFTS:
            return 0 <= operands[1] < bits
        if self.name in ("arith.fptosi", "arith.fptoui"):
            low, high = (0, 2 ** WIDTHS[self.result]) if self.name.endswith("ui") else (
                -(2 ** (WIDTHS[self.result] - 1)), 2 ** (WIDTHS[self.result] - 1))  # fmt: skip
            return np.isfinite(operands[0]) and low <= int(operands[0]) < high
        return True


def _cast_types(name, cast):
    if cast.source == cast.target == "float":
        pairs = [(a, b) for a in FLOAT_TYPES for b in FLOAT_TYPES]
        wider = [(a, b) for a, b in pairs if ELEMENTS[a].bits < ELEMENTS[b].bits]
        return wider if name == "arith.extf" else [(b, a) for a, b in wider]
    integers = [t for t in WIDTHS if t != "index"]
    if cast.source == cast.target == "integer":
        if "index" in name:
            return [(t, "index") for t in integers] + [("index", t) for t in integers]
        wider = [(a, b) for a in integers for b in integers if WIDTHS[a] < WIDTHS[b]]
        return [(b, a) for a, b in wider] if name == "arith.trunci" else wider
    pairs = [(i, f) for i in integers for f in FLOAT_TYPES]
    return pairs if cast.source == "integer" else [(f, i) for i, f in pairs if i != "i1"]


INTEGER_CASES = [
    *(Case(name, (t, t), t) for name in INTEGERS for t in WIDTHS),
    *(Case("arith.cmpi", (t, t), "i1", number) for number in range(len(PREDICATES)) for t in WIDTHS),
    *(Case("arith.select", ("i1", t, t), t) for t in WIDTHS),
    *(Case(name, (a,), b) for name, cast in CASTS.items() if cast.source == cast.target == "integer"
      for a, b in _cast_types(name, cast)),
]  # fmt: skip
FLOAT_CASES = [
    *(Case(name, (t, t), t) for name in FLOATS for t in FLOAT_TYPES),
    *(Case("arith.cmpf", (t, t), "i1", number) for number in range(len(COMPARED)) for t in FLOAT_TYPES),
    *(Case("arith.negf", (t,), t) for t in FLOAT_TYPES),
    *(Case(name, (a,), b) for name, cast in CASTS.items() if "float" in (cast.source, cast.target)
      for a, b in _cast_types(name, cast)),
]  # fmt: skip
CASES = INTEGER_CASES + FLOAT_CASES


def number(kind, chooser):
    """A random number of a type: edges as often as others. Floats are exact in their type, as Python floats."""
    if kind in WIDTHS:
        bits = WIDTHS[kind]
        if bits == 1:
            return chooser.getrandbits(1)
        edges = (0, 1, -1, 2, 7, bits - 1, bits, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        drawn = chooser.getrandbits(chooser.choice((4, bits // 2, bits)))
        drawn = chooser.choice((*edges, drawn, drawn, -drawn, -drawn)) & ((1 << bits) - 1)
        return drawn - (1 << bits) if drawn >> (bits - 1) else drawn
    edges = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, float("inf"), -float("inf"), float("nan"), 100.0, -77.0)
    if chooser.random() < 0.5:
        return chooser.choice(edges)
    drawn = from_bits(ELEMENTS[kind])(chooser.getrandbits(ELEMENTS[kind].bits))
    return drawn if drawn == drawn else float("nan")  # no signaling NaN: MLIR's folding lets it win in maxnumf


@cache
def rows(case, count=LANES):
    """Operands whose result is defined."""
    chooser, found = random.Random(str(case)), []
    while len(found) < count:
        operands = tuple(number(kind, chooser) for kind in case.types)
        found += [operands] if case.is_defined(operands) else []
    return found


@cache
def operation(case):
    """(module, operation): the function's arguments are its operands."""
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(case.types))
    names = ", ".join(f"%a{i}" for i in range(len(case.types)))
    with CONTEXT, ir.Location.unknown():
        text = f"func.func @f({arguments}) -> {case.result} {{ %r = {case.text(names)}\nreturn %r : {case.result} }}"
        module = ir.Module.parse(text)
    return module, find(module, case.name)[0]


def same(kind, one, other):
    """Two results of a type: bit by bit, but for a NaN's bits."""
    if kind in WIDTHS:
        return int(one) == int(other)
    one, other = float(one), float(other)
    return one != one and other != other or bit_pattern(ELEMENTS[kind])(one) == bit_pattern(ELEMENTS[kind])(other)


# --- the three


def on_host(case):
    """The function of operands that the host program makes of the operation."""
    _, op = operation(case)
    builder = Builder(host_arith.HANDLERS, frozenset())
    slots = [builder.define(x) for x in op.operands]
    step = builder.op(op)
    result = builder.slot(op.results[0])

    def call(operands):
        frame = list(builder.template)
        for slot, x in zip(slots, operands, strict=True):
            frame[slot] = x
        step(frame)
        return frame[result]

    return call


def in_simulator(case):
    """The same of the simulator. Operands are arrays of lanes, or what it keeps where all lanes agree."""
    _, op = operation(case)
    decoder = Decoder(0, lambda d, op, step: step)
    slots = [decoder.define(x) for x in op.operands]
    step = decoder.decode(op)
    result = decoder.slot(op.results[0])

    def call(operands):
        frame = list(decoder.template)
        frame[0] = SimpleNamespace(machine=SimpleNamespace(checks=False))
        for slot, x in zip(slots, operands, strict=True):
            frame[slot] = x
        with np.errstate(all="ignore"):
            step(frame)
        return frame[result]

    return call


def lanes(kind, numbers):
    e = element(kind)
    return np.array(numbers, np.float64 if e.is_float else np.int64).astype(e.dtype)


def uniform(kind, x):
    e = element(kind)
    if e.is_float:
        return e.dtype.type(x)
    return bool(x) if e.bits == 1 else x


# --- they agree


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_host_program_and_the_simulator_agree(case):
    operands = rows(case)
    expected = [on_host(case)(row) for row in operands]
    simulate = in_simulator(case)
    columns = list(zip(*operands, strict=True))
    arrays = [lanes(kind, column) for kind, column in zip(case.types, columns, strict=True)]
    varying = np.broadcast_to(simulate(arrays), (LANES,))
    assert varying.dtype == element(case.result).dtype
    for i, row in enumerate(operands):
        alike = simulate([uniform(kind, x) for kind, x in zip(case.types, row, strict=True)])
        assert same(case.result, alike, expected[i]), (row, alike, expected[i])
        lane = scalar(varying[i : i + 1], element(case.result))
        assert same(case.result, lane, expected[i]), (row, lane, expected[i])
    if len(case.types) == 2:  # one operand that all lanes agree on, the other not
        first = uniform(case.types[0], operands[0][0])
        pairs = [(operands[0][0], row[1]) for row in operands]
        mixed = np.broadcast_to(simulate([first, arrays[1]]), (LANES,))
        for pair, one in zip(pairs, mixed, strict=True):
            if case.is_defined(pair):
                assert same(case.result, one, on_host(case)(pair)), (pair, one)


@pytest.mark.parametrize("case", INTEGER_CASES, ids=str)
def test_the_verifier_agrees(case):
    _, op = operation(case)
    operands, host = rows(case), on_host(case)
    expected = [host(row) for row in operands]
    columns = [np.array(column, np.int64) for column in zip(*operands, strict=True)]
    found = compute(op, columns)
    assert found is not None
    assert fit(np.broadcast_to(found, (LANES,)), op.results[0]).tolist() == expected
    assert [fit(compute(op, list(row)), op.results[0]) for row in operands] == expected


@pytest.mark.parametrize("case", [c for c in INTEGER_CASES if c.name in DIVISIONS + SHIFTS], ids=str)
def test_what_is_undefined_is_unknown_to_the_verifier_and_refused_or_any_number_elsewhere(case):
    _, op = operation(case)
    bits = WIDTHS[case.types[0]]
    x = 1 if bits == 1 else -(1 << (bits - 1))
    y = 0 if case.name in DIVISIONS else bits if bits > 8 else 1 if bits == 1 else -1
    if case.name in DIVISIONS:
        with pytest.raises((ArgumentError, ZeroDivisionError)):
            on_host(case)((x, y))
        if INTEGERS[case.name].signed and bits > 1:
            assert compute(op, [x, -1]) is None
    else:
        assert isinstance(on_host(case)((x, y)), int)
    assert compute(op, [x, y]) is None and compute(op, [np.array([x, x]), np.array([y, y])]) is None
    in_simulator(case)([uniform(case.types[0], x), uniform(case.types[0], y)])


def test_who_knows_which_operation():
    """The verifier computes integers alone; the simulator also reads llvm's names."""
    for case in FLOAT_CASES:
        assert compute(operation(case)[1], [1] * len(case.types)) is None
    names = {case.name for case in CASES}
    assert names == {*INTEGERS, *FLOATS, *CASTS, "arith.cmpi", "arith.cmpf", "arith.select", "arith.negf"}
    assert names <= set(host_arith.HANDLERS) and names <= set(HANDLERS)
    assert set(OF_LLVM) <= set(HANDLERS) and set(OF_LLVM.values()) <= names


# --- MLIR's own folding


def literal(kind, x):
    if kind == "i1":
        return "true" if x else "false"
    if kind in WIDTHS:
        return f"{x} : {kind}"
    return f"{bit_pattern(ELEMENTS[kind])(x):#0{2 + ELEMENTS[kind].bits // 4}x} : {kind}"


def folded(case):
    """What MLIR makes of the operation on constants, by the number of the row; nothing where it does not fold."""
    lines, results = [], []
    for i, row in enumerate(rows(case)):
        for j, (kind, x) in enumerate(zip(case.types, row, strict=True)):
            lines.append(f"%a{i}_{j} = arith.constant {literal(kind, x)}")
        lines.append(f"%r{i} = {case.text(', '.join(f'%a{i}_{j}' for j in range(len(case.types))))}")
        results.append(f"%r{i}")
    types = ", ".join([case.result] * len(results))
    text = f"func.func @f() -> ({types}) {{\n" + "\n".join(lines) + f"\nreturn {', '.join(results)} : {types} }}"
    with CONTEXT, ir.Location.unknown():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        (returned,) = find(module, "func.return")
        found = {}
        for i, value in enumerate(returned.operands):
            made = None if isinstance(value.owner, ir.Block) else value.owner
            if made is not None and made.name == "arith.constant":
                attribute = made.attributes["value"]
                known = attribute.value if isinstance(attribute, ir.FloatAttr) else constant_value(made)
                found[i] = abs(known) if case.result == "i1" else known
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_mlir_folds_to_the_same(case):
    found, host = folded(case), on_host(case)
    assert len(found) > LANES // 4  # it leaves what a narrower type can't hold exactly
    for i, known in found.items():
        row = rows(case)[i]
        assert same(case.result, host(row), known), (row, host(row), known)
