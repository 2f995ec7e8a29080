"""What a wgmma leaves in a warp's registers, and how it is computed when they are asked for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import matrix
from nvdsl.sim.registers import ROWS, Struct, d_fragment, pack_halves
from nvdsl.sim.report import error
from nvdsl.sim.undefined import Undefined


class Kind:
    """The static facts of a wgmma: ``n``, element types, majors, signs. ``sources``: a `descriptors.Source` of A's
    descriptor (None where A is in registers), and of B's."""

    sources: tuple[Any, Any]

    def __init__(
        self, n: int, a_type: str, b_type: str, d_type: str, majors: tuple[str, str], scales: tuple[int, int],
        at: Where | None,
    ) -> None:  # fmt: skip
        self.n, self.a_type, self.b_type, self.d_type = n, a_type, b_type, d_type
        self.a_major, self.b_major = majors
        self.sign = scales[0] * scales[1]
        self.at = at
        self.shape = f"m64n{n}k{matrix.K_BYTES // np.dtype(matrix.ELEMENTS[b_type]).itemsize}"


class Accumulator:
    """What one wgmma leaves in a warp's registers. ``value``: [16, n], None while it is in flight."""

    __slots__ = ("_registers", "a", "b", "before", "fences", "kind", "read_at", "undefined", "value", "warp")

    def __init__(self, warp: Any, kind: Kind, a: Any, b: int, before: Any) -> None:
        self.warp, self.kind, self.a, self.b, self.before = warp, kind, a, b, before
        self.value: Any = None
        self._registers: Any = None
        self.read_at = -1
        self.fences = warp.mma.fences  # executed before it
        self.undefined: Undefined | None = None

    def compute(self) -> None:
        if self.value is not None:
            return
        kind, warp = self.kind, self.warp
        if warp.machine.checks:
            self._check_layouts()
        if self.a.__class__ is int:
            first = ROWS * (warp.index % 4)
            a = operand(warp.block, self.a, 64, kind.a_type, kind.a_major)[first : first + ROWS]
        else:
            a = self.a
        b = operand(warp.block, self.b, kind.n, kind.b_type, kind.b_major)
        before = self.before
        if before is not None and before.value is None:
            before.compute()
        self.value = matrix.mma(
            a,
            b,
            None if before is None else before.value,
            scale_a=kind.sign,
            d_dtype=kind.d_type,
            exact=(kind.a_type, kind.b_type) if warp.machine.options.exact else None,
        )
        self.before = self.a = None

    def _check_layouts(self) -> None:
        kind, warp = self.kind, self.warp
        check, (a_source, b_source) = warp.block.layouts.check, kind.sources
        if self.a.__class__ is int:
            made = functools.partial(a_source.made, warp.frame, self.a)
            check(self.a, 64, kind.a_major, f"A of the wgmma by {warp.name}", kind.at, made)
        made = functools.partial(b_source.made, warp.frame, self.b)
        check(self.b, kind.n, kind.b_major, f"B of the wgmma by {warp.name}", kind.at, made)

    def registers(self, at: Where | None = None) -> Any:
        """The registers as a `Struct`; an error while they are in flight."""
        state = self.warp.mma
        if self in state.in_flight:
            raise error(
                "accumulator-in-flight",
                f"{self.warp.name} reads an accumulator of the wgmma at {self.kind.at} while it is in flight",
                at,
                "the registers of a wgmma are its own until wgmma.wait_group says that its group is done (PTX ISA)",
                "nv.wgmma_wait(0) before the accumulator is read",
            )
        self.compute()
        self.read_at = state.fences
        if self._registers is None:
            rows, columns = d_fragment(self.kind.n)
            values = self.value[rows, columns]
            if self.kind.d_type == "f16":
                values = pack_halves(values)
            self._registers = Struct(values)
        return self._registers


def operand(block: Any, descriptor: int, rows: int, dtype: str, major: str) -> Any:
    """[rows, k] out of shared memory, kept until shared memory changes."""
    cache = block.__dict__.setdefault("operands", {})
    key = (descriptor, rows, dtype, major)
    found = cache.get(key)
    if found is None or found[0] != block.smem.version:
        found = (block.smem.version, matrix.read_operand(block.smem.data, descriptor, rows, dtype, major))
        cache[key] = found
    return found[1]


def read_warp_registers(x: Any, at: Where | None) -> Any:
    """A struct's registers; those of a wgmma must not be in flight."""
    return x.registers(at) if x.__class__ is Accumulator else x
