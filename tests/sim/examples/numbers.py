"""Examples of what computes: math, conversions, operators, each on all types."""

from __future__ import annotations

import importlib
import itertools

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.values import arith, casts, dtypes, traced
from tests.sim.examples import example, pair

select = importlib.import_module("nvdsl.values.select")  # nvdsl.select is the function

# --- math

FLOATS = (nv.f16, nv.bf16, nv.f32, nv.f64)


def functions_of(name, k):
    """A function of nvdsl.math of every float type that it takes, and of a vector."""
    found = []
    for dtype in FLOATS:
        x = nv.f32(k.t) * 0.01 + 0.3
        arguments = [dtype(x)] if dtype.bits > 32 else [dtype(x), pair(x, dtype)]
        for argument in arguments:
            try:
                found.append(getattr(nv.math, name)(*[argument] * (3 if name == "fma" else 1)))
            except nv.TraceError:
                assert dtype is nv.f64, name
    return found


for _name in [n for n, f in vars(nv.math).items() if callable(f) and getattr(f, "__module__", "") == "nvdsl.values.math"
              and not n.startswith("_")]:  # fmt: skip
    example(f"math.{_name}")(lambda k, name=_name: functions_of(name, k))


# --- casts, arith, values, select


@example("casts.convert", "traced.cast", "traced.wrap", "traced.as_value")
def _casts(k):
    """From every type to every other: numbers, and vectors."""
    found = []
    for source, target in itertools.product(dtypes.ALL, dtypes.ALL):
        if dtypes.tf32 is source:
            continue
        found.append(target(source(k.i)))
        if source not in (dtypes.index, dtypes.bool_) and target not in (dtypes.index, dtypes.bool_):
            found.append(casts.convert(pair(k.f, source), source, target))
    return [traced.Value(x) for x in found if "f8" not in str(x.type)]


@example("casts.reinterpret", "traced.bitcast")
def _bits(k):
    fixed = [t for t in dtypes.ALL if t.kind in ("int", "float") and t is not dtypes.tf32]
    made = [traced.bitcast(a(k.i), b) for a, b in itertools.product(fixed, fixed) if a.bits == b.bits]
    return [x for x in made if "f8" not in str(x.type)]


@example("bits.popc", "bits.clz", "bits.brev")
def _counts(k):
    integers = [t for t in dtypes.ALL if t.kind == "int"]
    return [f(t(k.i)) for f, t in itertools.product((nv.popc, nv.clz, nv.brev), integers)]


@example("traced.const")
def _constants(k):
    return [traced.const(x) for x in (1, 2.0, True)] + [traced.const(3, t) for t in dtypes.ALL if t.arithmetic]


OPERANDS = [t for t in dtypes.ALL if t.arithmetic]


@example("arith.binary", "arith.emit")
def _binary(k):
    """Every operator on every type that it has, on numbers and on vectors."""
    found = []
    for op, t in itertools.product(arith.OPS, OPERANDS):
        if not arith.exists(op, t) or t is dtypes.bool_ and op not in ("&", "|", "^"):
            continue
        found.append(arith.binary(op, t, t(k.i), t(k.i % 4 + 1)))  # no divisor of 0, no shift beyond the width
        if t not in (dtypes.index, dtypes.bool_):
            found.append(arith.binary(op, t, pair(k.f, t), pair(k.f, t)))
    return found


@example("arith.compare")
def _compare(k):
    found = []
    for op, t in itertools.product(arith.PREDICATES, OPERANDS):
        if op != "unordered" or t.is_float:
            found.append(nv.i32(arith.compare(op, t, t(k.i), t(k.i))))
    return found


@example("arith.floor_divide", "arith.floor_modulo")
def _floored(k):
    found = []
    for t in OPERANDS:
        if not t.is_float and t is not dtypes.bool_:
            x, y = t(k.i), t(k.i + 1)
            found += [x // y, x % y, x // 3, x % 4, x // -3 if t.signed else 0]
    return found


@example("arith.negate", "arith.absolute", "arith.power", "select.abs")
def _signs(k):
    return [y for t in OPERANDS if t is not dtypes.bool_ for x in [t(k.i)] for y in (-x, abs(x), x**3)]


@example("arith.select", "select.select", "select.min", "select.max", "select.clamp", "select.minimum",
         "select.maximum", "select.where")  # fmt: skip
def _selects(k):
    found = []
    for t in OPERANDS:
        x, y = t(k.i), t(k.i + 1)
        found += [select.select(k.first, x, y), select.where(k.first, y, x)]
        if t is not dtypes.bool_:
            found += [select.minimum(x, y), select.maximum(x, y), select.clamp(x, t(1), t(5))]
    return found


@example("arith.fma", "arith.intrinsic", "arith.per_element", "arith.extract", "arith.pack")
def _fma(k):
    return [nv.math.fma(v, v, v) for t in FLOATS for v in (t(k.f), pair(k.f, t))]


@example("arith.constant")
def _splats(k):
    return [arith.constant(ir.VectorType.get([2], t.ir), 3) for t in OPERANDS if t is not dtypes.index]


@example("operators.Operators.__getitem__", "arith.shuffle")
def _vector_elements(k):
    v = k.x.load_vector((k.t // 128 * 4,), 4)
    return [v[0], v[-1], v[k.t % 4], *v, v[1:3], v[::-1]]


@example("vector.vector", "traced.Value.to", "traced.Value.sum", "traced.Value.max", "traced.Value.min")
def _vectors_of_registers(k):
    found = []
    for t in OPERANDS:
        v = nv.vector([k.i, k.i + 1, 3], t)
        found += [v.to(nv.f32), v.sum(), v.max(), v.min()]
    return found
