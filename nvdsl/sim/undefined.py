"""Values that are undefined: sums that a wgmma made of shared memory that nothing had written, and what a shuffle
reads from a lane that does not execute it.

Rows of A that nothing wrote make undefined rows of D, columns of B undefined columns; the others are as they should be.
Tiles with such rows are in order as long as nothing becomes of them. So an accumulator knows which of its rows and
columns are undefined, and a store to global memory follows its value back to the accumulators that it is made of:
through arithmetic, conversions, selects and branches, in the lanes that store. What goes to shared memory counts as not
written there. What a loop carries or another lane gives is noted when that happens (`moved`); vectors of several
elements are not followed there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nvdsl.errors import SimError, Where
from nvdsl.ir.operands import integers, string
from nvdsl.ir.walk import defining, identity, yielded
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.sim import matrix, shadow
from nvdsl.sim.registers import ROWS, d_fragment
from nvdsl.sim.report import Access, error
from nvdsl.sim.values import LANES

Mask = Callable[[list[Any]], Any]
"""Of the frame: in which of the 32 lanes a value is undefined."""


class Undefined(NamedTuple):
    """Of one warp's part of an accumulator: its undefined rows [16] and columns [n], and which wgmma read what."""

    rows: Any
    columns: Any
    reader: Access
    what: str

    def lanes(self, register: int, packed: bool) -> Any:
        """Of the elements in a register. ``packed``: two f16."""
        rows, columns = d_fragment(len(self.columns))
        which = slice(2 * register, 2 * register + 2) if packed else slice(register, register + 1)
        return (self.rows[rows[which]] | self.columns[columns[which]]).any(0)

    def joined(self, other: Undefined | None) -> Undefined:
        if other is None:
            return self
        return Undefined(self.rows | other.rows, self.columns | other.columns, self.reader, self.what)

    def reported(self, w: Any, lanes: Any, at: Where | None) -> SimError:
        """The error where these lanes store what is made of it."""
        return error(
            "uninitialized",
            f"{w.name} lane {int(np.flatnonzero(lanes)[0])} stores a sum that is made of what the {self.reader} read "
            f"from {self.what}, which nothing had written",
            at,
            "shared memory holds arbitrary bytes when a block starts; an unwritten row of A makes a row of D "
            "undefined, an unwritten column of B a column",
            "load or zero the whole tile, or store only the rows and columns that were loaded",
        )


class Absent(NamedTuple):
    """A shuffle by which ``lane`` reads another one that does not execute it: lane ``source``."""

    lane: int
    source: int
    at: Where | None

    def reported(self, w: Any, lanes: Any, at: Where | None) -> SimError:
        """The error where these lanes store what is made of it."""
        return error(
            "divergent-collective",
            f"shfl.sync in {w.name}: lane {self.lane} reads lane {self.source}, which does not execute it, and what "
            f"becomes of that is stored by lane {int(np.flatnonzero(lanes)[0])} at {at}",
            self.at,
            "the value of a lane that is inactive or not in the mask is undefined (PTX ISA, shfl.sync)",
            "read lanes of the mask: nv.shuffle_xor within a power of two, or use the result in the lower lanes alone",
        )


def of_operands(w: Any, kind: Any, a: Any, b: int, readers: tuple[Access, Access]) -> Undefined | None:
    """What a wgmma makes undefined by what it reads now. ``a``: a descriptor, or registers; ``readers``: of A, of B."""
    tracker = w.block.shadow
    first = ROWS * (w.index % 4)
    columns = _unwritten(w, b, kind.n, kind.b_major)
    rows = _unwritten(w, a, 64, kind.a_major)[first : first + ROWS] if a.__class__ is int else np.zeros(ROWS, bool)
    if not rows.any() and not columns.any():
        return None
    descriptor, count, major = (b, kind.n, kind.b_major) if columns.any() else (a, 64, kind.a_major)
    span = shadow.intervals(matrix.operand_footprint(descriptor, count, major), tracker.shift)
    return Undefined(rows, columns, readers[bool(columns.any())], tracker.describe(span[0] & ~tracker.written))


def _unwritten(w: Any, descriptor: int, rows: int, major: str) -> Any:
    """Which rows of A, or columns of B, hold an element that nothing had written."""
    tracker = w.block.shadow
    units = matrix._units(descriptor, rows, major)
    per = matrix.UNIT >> tracker.shift
    written = _bits(tracker.written, (w.block.smem.size >> tracker.shift) + per)
    there = written[units[..., None] * per + np.arange(per)]
    if major == "k":
        return ~there.all((1, 2))
    each = there.all(0)  # [units along M or N, parts of a unit], of 8 elements
    elements = np.repeat(each, 8 // per, 1) if per <= 8 else each.reshape(len(each), 8, -1).all(-1)
    return ~elements.reshape(-1)[:rows]


def _bits(mask: int, count: int) -> Any:
    size = -(-count // 8)
    return np.unpackbits(np.frombuffer(mask.to_bytes(size, "little"), np.uint8), bitorder="little").astype(bool)


# --- values that are made of them


class Values:
    """The undefined lanes of the values of one decoded kernel. Before masks are asked for, the warp's ``now`` is
    cleared: values have changed."""

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder
        self._known: dict[int, Mask | None] = {}
        self._depth = 0

    def of(self, value: Any) -> Mask | None:
        """None: defined in any case, or made in too many steps to be followed."""
        key = identity(value)
        if key not in self._known:
            if self._depth > _MOST_STEPS:
                return None
            self._depth += 1
            found = self._find(value)
            self._depth -= 1
            self._known[key] = None if found is None else self._once(key, found)
        return self._known[key]

    def _once(self, key: int, mask: Mask) -> Mask:
        """A value that is used several times is looked at once."""

        def remembered(v: list[Any]) -> Any:
            now = v[0].now
            if key not in now:
                now[key] = mask(v)
            return now[key]

        return remembered

    def _find(self, value: Any) -> Mask | None:
        op = defining(value)
        if op is None or op.name in _MOVING:
            return self._noted(self.decoder.find(value))
        if op.name == "llvm.extractvalue":
            (*_, register) = integers(op, "position")
            return self.register(op.operands[0], register)
        if op.name == "arith.select":
            return self._either(op.operands[0], self.of(op.operands[1]), self.of(op.operands[2]))
        if op.name == "scf.if":
            return self._either(op.operands[0], *(self.of(x) for x in _yielded(op, value)))
        if op.name == "vector.extract":
            elements = defining(op.operands[0])
            position = integers(op, "static_position")
            if elements is not None and elements.name == "vector.from_elements" and len(position) == 1:
                return self.of(elements.operands[position[0]]) if position[0] >= 0 else None
        if op.name.startswith(_ELEMENTWISE) and op.name not in _NOT:
            return self._union([self.of(x) for x in op.operands])
        return None

    def register(self, struct: Any, register: int) -> Mask | None:
        """Of one register of a struct."""
        slot, at = self.decoder.find(struct), defining(struct)
        while at is not None and at.name == "llvm.insertvalue":
            if integers(at, "position") == [register]:
                return self.of(at.operands[1])
            struct = at.operands[0]
            slot, at = self.decoder.find(struct), defining(struct)
        if at is not None and at.name == "llvm.inline_asm" and not string(at, "asm_string"):
            whole = isinstance(at.operands[0].type, llvm.StructType)  # inline PTX that changes nothing
            otherwise = self.register(at.operands[0], register) if whole else self.of(at.operands[register])
        elif at is not None and at.name == "scf.if":
            otherwise = self._either(at.operands[0], *(self.register(x, register) for x in _yielded(at, struct)))
        else:
            otherwise = self._noted((slot, register))
        if slot is None:
            return otherwise

        def mask(v: list[Any]) -> Any:
            found = v[slot]
            if hasattr(found, "undefined"):  # an accumulator
                return None if found.undefined is None else found.undefined.lanes(register, found.kind.d_type == "f16")
            return None if otherwise is None else otherwise(v)

        return mask

    def _noted(self, key: Any) -> Mask:
        """What `moved` noted."""
        return lambda v: v[0].moved.get(key)

    def _either(self, condition: Any, one: Mask | None, other: Mask | None) -> Mask | None:
        slot = self.decoder.find(condition)
        if slot is None or one is None and other is None:
            return None

        def mask(v: list[Any]) -> Any:
            a, b = (None if x is None else x(v) for x in (one, other))
            if a is None and b is None:
                return None
            return np.where(v[slot], False if a is None else a, False if b is None else b)

        return mask

    def _union(self, masks: list[Mask | None]) -> Mask | None:
        known = [mask for mask in masks if mask is not None]

        def union(v: list[Any]) -> Any:
            found = None
            for mask in known:
                one = mask(v)
                if one is not None:
                    found = one if found is None else found | one
            return found

        return union if known else None


def _yielded(op: Any, result: Any) -> list[Any]:
    """What the branches of an ``scf.if`` yield as one of its results."""
    number = ir.OpResult(result).result_number
    return [yielded(region)[number] for region in op.regions]


_MOST_STEPS = 150
_MOVING = ("scf.for", "scf.while", "scf.index_switch", "gpu.shuffle", "nvvm.shfl.sync", "nvvm.redux.sync")
_ELEMENTWISE = (
    "arith.", "math.", "vector.", "llvm.bitcast", "llvm.freeze", "llvm.intr.", "llvm.call_intrinsic", "nvvm.convert.",
    "nvvm.ex2", "nvvm.log2", "nvvm.sin", "nvvm.cos", "nvvm.rcp.",
)  # fmt: skip
_NOT = ("arith.constant", "vector.load", "vector.transfer_read")


class Stored:
    """What an op stores. `lanes`: of those that store something undefined now."""

    def __init__(self, decoder: Any, value: Any, at: Where | None) -> None:
        self.decoder, self.value, self.at = decoder, value, at
        self._mask: Any = _UNKNOWN

    def lanes(self, v: list[Any]) -> Any:
        if self._mask is _UNKNOWN:  # the first time that a warp has such values
            self._mask = self.decoder.undefined.of(self.value)
        v[0].now.clear()
        mask = None if self._mask is None else self._mask(v)
        found = None if mask is None else mask & v[0].mask
        return found if found is not None and found.any() else None

    def check(self, v: list[Any], access: Any, address: Any) -> None:
        """After the store: an error where it is to global memory; in shared memory the bytes count as unwritten."""
        w = v[0]
        lanes = self.lanes(v) if w.machine.checks else None
        if lanes is None:
            return
        outer = w.mask
        w.set_mask(lanes)
        _, block, offsets = access.locate(w, address, "store")
        if block is None:
            raise w.undefined.reported(w, lanes, self.at)
        tracker = block.shadow
        tracker.written &= ~access.touch(w, offsets, tracker.shift, "store")[0][0]
        w.set_mask(outer)


_UNKNOWN = object()


class Given:
    """Registers that a wgmma is given: those of A's fragment, or of an accumulator. ``rows``: of each register, the
    rows of its lanes. ``masks``: made when they are asked for."""

    def __init__(self, values: Values, masks: Callable[[], list[Mask | None]], rows: Any) -> None:
        self._values, self._make, self._rows = values, masks, rows
        self._masks: list[Mask | None] | None = None

    def undefined(self, v: list[Any]) -> Any:
        """The rows of them that are undefined, None where none are."""
        if self._masks is None:
            self._masks = self._make()
        v[0].now.clear()
        bad = np.zeros(ROWS, bool)
        for mask, rows in zip(self._masks, self._rows, strict=False):
            lanes = None if mask is None else mask(v)
            if lanes is not None:
                bad[rows[lanes]] = True
        return bad if bad.any() else None


def of_struct(values: Values, struct: Any, kind: Any) -> Given:
    """An accumulator that a wgmma adds to."""
    rows, _ = d_fragment(kind.n)
    packed = kind.d_type == "f16"
    each = rows[::2] if packed else rows
    return Given(values, lambda: [values.register(struct, i) for i in range(len(each))], each)


def of_fragment(values: Values, registers: list[Any]) -> Given:
    """A's four registers."""
    lane = np.arange(LANES)
    rows = [lane // 4 + 8 * (i % 2) for i in range(4)]
    return Given(values, lambda: [values.of(x) for x in registers], rows)
