"""The algebra of layouts: coalesce and composition.

Each function gives a layout that has the property its docstring states, or raises LayoutError; none gives a layout
that has it almost. Sources: Cecka, arXiv 2603.02298, sections 3.2 and 3.3; CUTLASS,
media/docs/cpp/cute/02_layout_algebra.md.
"""

from __future__ import annotations

from typing import Any, NoReturn

from nvdsl.errors import layout_error
from nvdsl.layout import core
from nvdsl.layout.core import Layout, Tiler, from_modes
from nvdsl.layout.fit import fit, fit_bits
from nvdsl.layout.given import takes_layouts
from nvdsl.layout.make import make_layout
from nvdsl.layout.nested import is_nested, is_one, is_static
from nvdsl.layout.strides import E, X, carryless, is_power, is_zero, plus, times, value

POINTWISE = 1 << 14
"""Elements of a composition that are evaluated one by one where the rules of divisibility don't decide."""

Modes = list[tuple[Any, Any]]


# --- coalesce --------------------------------------------------------------------------------------------------------


@takes_layouts
def coalesce(a: Layout, profile: Tiler = None) -> Layout:
    """The same function of integers with as few modes as possible. ``profile``: a tuple, to coalesce mode by mode.

    >>> str(coalesce(Layout((2, (1, 6)), (1, (6, 2)))))
    '12:1'
    >>> str(coalesce(Layout((2, (1, 6)), (1, (6, 2))), (None, None)))
    '(2,6):(1,2)'
    """
    if is_nested(profile):
        modes = [coalesce(m, p) for m, p in zip(a, profile, strict=False)]
        return make_layout(*modes, *list(a)[len(profile) :])
    return from_modes(_merged([(s, d) for s, d in a.leaves() if not is_one(s)]), a.zero)


def _merged(modes: Modes) -> Modes:
    out: Modes = []
    for size, stride in modes:
        if out and _continues(*out[-1], stride):
            out[-1] = (times(out[-1][0], size), out[-1][1])
        else:
            out.append((size, stride))
    return out


def _continues(size: Any, stride: Any, following: Any) -> bool:
    """Whether ``following`` is the stride that ``size`` steps of ``stride`` come to."""
    if not (is_static(size) and is_static(stride) and is_static(following)):
        return False
    if isinstance(stride, X) or isinstance(following, X):  # a power of two: its multiples and what is below don't carry
        return is_power(size) and isinstance(stride, X) and bool(times(size, stride) == following)
    return bool(times(size, stride) == following)


def _simplified(a: Layout) -> Modes:
    """Like coalesce, but the last leaf stays even if its size is one: past its end the layout goes on with its stride.
    (CuTe's coalesce_x.)"""
    leaves = a.leaves()
    return _merged([(s, d) for s, d in leaves[:-1] if not is_one(s)] + leaves[-1:])


# --- composition -----------------------------------------------------------------------------------------------------


@takes_layouts
def composition(a: Layout, b: Tiler) -> Layout:
    """The layout R of b's shape with ``R(c) == a(b(c))`` for all c. ``a @ b`` is the same.

    ``b``: a layout of integers; of coordinates, as many as ``a`` has modes; of bits; or a tuple of tilers, which is
    applied mode by mode. A size of ``a`` that is traced may be reached only in its last leaf.

    >>> str(composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))))
    '((2,2),3):((24,2),8)'

    Raises LayoutError where no layout is the composition. Divisibility is necessary for a mode of ``b`` alone, but does
    not suffice for several: their sums may carry from one mode of ``a`` into the next. What these rules leave open is
    decided by evaluating every element, up to `POINTWISE` of them.
    """
    if b is None:
        return a
    if is_nested(b):
        check_tiler(a, b)
        return make_layout(*(composition(m, t) for m, t in zip(a, b, strict=False)), *list(a)[len(b) :])
    b = Layout(b) if not isinstance(b, Layout) else b
    _check_axes(a, b)
    found, why = _by_rule(a, b)
    return found if found is not None else _pointwise(a, b, why)


def check_tiler(a: Layout, b: tuple[Any, ...]) -> None:
    if len(b) > len(a):
        raise layout_error(
            f"a tiler of {len(b)} modes for {a}",
            rule="a tuple of tilers is applied mode by mode, and has at most as many as the layout",
            fix=f"give {len(a)} tilers, or one layout for all modes together",
        )


def _check_axes(a: Layout, b: Layout) -> None:
    axes = b.axes
    if axes and axes != len(a):
        raise layout_error(
            f"{a} o {b}: coordinates of {axes} axes for a layout of {len(a)} modes",
            rule="b's coordinates are a's: one entry for each mode",
            fix="group a's modes as b's axes",
        )


def _by_rule(a: Layout, b: Layout) -> tuple[Layout | None, str]:
    """The composition where b's modes select from a's without a carry; or None and what is in the way."""
    parts = [_simplified(m) for m in a] if b.is_coordinates else [_simplified(a)]
    used: dict[tuple[int, int], list[tuple[Any, Any]]] = {}
    strides: list[Modes] = []
    for size, stride in b.leaves():
        if isinstance(stride, X):
            return None, f"{b} steps by bits"
        entries = enumerate(stride) if isinstance(stride, E) else [(0, stride)]
        steps = [(axis, step) for axis, step in entries if not is_zero(step)]
        if not steps:
            strides.append([(size, a.zero)])
            continue
        choices = []
        for axis, step in steps:
            chosen, why = _select(parts[axis], size, step)
            if chosen is None:
                return None, why
            for j, n, e in chosen:
                used.setdefault((axis, j), []).append((n, e))
            choices.append([(n, times(e, parts[axis][j][1]), e) for j, n, e in chosen])
        if len(choices) > 1 and any(len(c) > 1 for c in choices):
            return None, f"the diagonal {size}:{stride!r} crosses modes"
        total: Any = 0
        for c in choices:
            total = plus(total, c[0][1])
        strides.append([(n, d) for n, d, _ in choices[0]] if len(choices) == 1 else [(size, total)])
    for (axis, j), taken in used.items():
        size, stride = parts[axis][j]
        if not isinstance(stride, X) and j == len(parts[axis]) - 1:
            continue  # unbounded, nothing carries
        if not is_static(tuple(taken)):
            return None, "a dynamic extent shares a mode with another one"
        if j < len(parts[axis]) - 1 and sum((n - 1) * e for n, e in taken) >= size:
            return None, f"b's modes together step past the end of {size}:{stride} and carry into the next mode of a"
        if isinstance(stride, X) and not _disjoint(taken):
            return None, f"b's modes together carry within the bits of {size}:{stride}"
    return _rebuilt(b, strides), ""


def _select(modes: Modes, size: Any, step: Any) -> tuple[list[tuple[int, Any, Any]] | None, str]:
    """Which of a's modes ``size`` steps of ``step`` walk through: (number of the mode, how many, how far each)."""
    out: list[tuple[int, Any, Any]] = []
    last = len(modes) - 1
    for j, (extent, stride) in enumerate(modes[:-1]):
        if is_one(size):
            break
        if not (isinstance(extent, int) and isinstance(step, int) and step > 0):
            return None, f"the mode {_said(extent)}:{stride} is not the last, and it or the step is dynamic or negative"
        if step % extent == 0:
            step //= extent
            continue
        if isinstance(size, int) and (size - 1) * step < extent:
            return [*out, (j, size, step)], ""
        if extent % step:
            return None, f"the step {step} and the mode {extent}:{stride} of a don't divide each other"
        count = extent // step
        if not isinstance(size, int) or size % count:
            return None, f"{_said(size)} elements are no multiple of the {count} of the mode {extent}:{stride} of a"
        out.append((j, count, step))
        size, step = size // count, 1
    if not is_one(size) or not out:
        out.append((last, size, step))
    return out, ""


def _said(size: Any) -> Any:
    return size if isinstance(size, int) else "a dynamic number of"


def _disjoint(taken: list[tuple[int, int]]) -> bool:
    """Whether counting n steps of e, for all (n, e) at once, never carries from one bit into another."""
    seen = 0
    for count, step in taken:
        if not (is_power(step) or count <= 2):
            return False
        mask = carryless((1 << (count - 1).bit_length()) - 1, step)
        if seen & mask:
            return False
        seen |= mask
    return True


def _rebuilt(b: Layout, leaves: list[Modes]) -> Layout:
    """A layout of b's profile with each leaf replaced by its modes."""
    following = iter(leaves)

    def build(shape: Any) -> tuple[Any, Any]:
        if is_nested(shape):
            shapes, strides = zip(*map(build, shape), strict=True)
            return shapes, strides
        inner = from_modes(next(following))
        return inner.shape, inner.stride

    return Layout(*build(b.shape))


def _pointwise(a: Layout, b: Layout, why: str) -> Layout:
    if not (a.is_static and b.is_static):
        _refuse(a, b, why)
    if b.size > POINTWISE:
        _refuse(a, b, f"{why}; and {b.size:,} elements are too many to try each")
    as_bits = a.has_bits or b.has_bits
    leaves: list[Modes] = []
    for size, stride in b.leaves():
        values = [a.element(value(times(k, stride))) for k in range(size)]
        modes = fit_bits([X(0) + x if a.has_bits else X(x) for x in values]) if as_bits else fit(values)
        if modes is None:
            _refuse(a, b, why)
        leaves.append(modes or [(1, a.zero)])
    found = _rebuilt(b, [_merged(m) for m in leaves])
    for i in range(b.size):
        if found(i) != a(b(i)):
            _refuse(a, b, f"{why}: element {i} lies at {a(b(i))}, not at {found(i)}")
    return found


def _refuse(a: Layout, b: Layout, why: str) -> NoReturn:
    raise layout_error(
        f"{a} o {b} is no layout: {why}",
        rule="each mode of b steps through a by constant strides, and together they don't carry "
        "(CuTe, composition: divisibility)",
        fix="choose sizes and steps that divide a's modes, or tile a mode by mode: composition(a, (tile0, tile1))",
    )


core.below["composition"] = composition
