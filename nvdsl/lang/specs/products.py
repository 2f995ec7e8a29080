"""Products: ``acc + a @ b`` by wgmma, by mma.sync, or by a fused multiply-add of each thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nvdsl.errors import TraceError, trace_error
from nvdsl.errors.records import dataclass
from nvdsl.lang.accumulator import Accumulator, Fragment
from nvdsl.lang.array import Array
from nvdsl.lang.atoms import Atom, Plan, Unfit
from nvdsl.lang.part import Part, of
from nvdsl.lang.specs.registers import Registers
from nvdsl.lang.specs.spec import Spec, shares
from nvdsl.lang.threads import Threads
from nvdsl.lang.tile import Tile
from nvdsl.lang.warp_accumulator import WarpAccumulator
from nvdsl.lang.warp_fragment import WarpFragment, load_a, load_b
from nvdsl.layout import mma_a, mma_b, wgmma_a
from nvdsl.ops import mma as instruction
from nvdsl.ops import wgmma
from nvdsl.ops.warp import WARP_GROUP_SIZE, WARP_SIZE
from nvdsl.values import dtypes, math
from nvdsl.values.dtypes import DType

Operand = Tile | Array | Part | Registers | WarpFragment | Fragment
Sums = Accumulator | WarpAccumulator | Registers


def mma(acc: Sums, a: Operand, b: Operand, threads: Threads) -> Mma:
    """The specification of ``acc + a @ b`` by a group of threads; its call gives the new sums.

    ``acc``: sums in registers: an `nv.accumulator` of a warpgroup, an `nv.warp_accumulator` of a warp, or `Registers`
    of any layout. ``a``: ``m x k``, ``b``: ``k x n``: tiles, arrays and parts of them, or registers. wgmma is
    asynchronous: `nv.wgmma_wait` follows.
    """
    ends = [of(x) if isinstance(x, Tile | Array | Part) else x for x in (a, b)]
    (_, k), (other, _) = ends[0].shape, ends[1].shape
    if k != other:
        raise trace_error(
            f"a product of {tuple(ends[0].shape)} and {tuple(ends[1].shape)}",
            rule="shapes match as in matrix multiplication: (M, K) @ (K, N) -> (M, N)",
            fix="tile.T is the transposed view of a tile",
        )
    return Mma(acc, ends[0], ends[1], threads)


@dataclass(frozen=True)
class Mma(Spec):
    """See `mma`."""

    acc: Any
    a: Any
    b: Any
    threads: Threads

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]

    @property
    def atoms(self) -> Sequence[Atom]:
        """The instructions that may carry it out: of tensor cores, and of threads."""
        return ATOMS

    def tile(self, shape: Sequence[int], groups: Threads) -> Iterator[Mma]:
        """The products of parts of ``shape`` (rows and columns of the result) that this thread's group has to do.

        ``acc`` is a group's own, of that shape. Raises TraceError where a group has more than one part, and for
        operands in registers.
        """
        m, n, k = self.shape
        if not isinstance(self.a, Part) or not isinstance(self.b, Part):
            raise trace_error(
                f"{self} in parts", rule="operands in registers are one piece", fix="give the operands in memory"
            )
        parts = list(shares((m, n), shape, groups, "a product"))
        if len(parts) > 1:
            raise trace_error(
                f"{self} in {m * n // (shape[0] * shape[1])} parts for {groups.count} groups",
                rule="a group's sums are those of one part",
                fix="choose parts as large as a group's accumulator",
            )
        for row, col in parts:
            yield Mma(self.acc, self.a.at(row, 0, (shape[0], k)), self.b.at(0, col, (k, shape[1])), groups)

    def __str__(self) -> str:
        return f"{self.acc!r} + {_shown(self.a)} @ {_shown(self.b)} by {self.threads}"


def _shown(x: Any) -> str:
    return f"({x})" if isinstance(x, Part) else repr(x)


def _fits(spec: Mma) -> None:
    m, n, _ = spec.shape
    if tuple(spec.acc.shape) != (m, n):
        raise Unfit(f"the sums are {spec.acc.shape[0]}x{spec.acc.shape[1]}, and the product is {m}x{n}")


def _checked(check: Any) -> None:
    try:
        check()
    except TraceError as error:
        raise Unfit(error.message) from None


def _tensor_type(dtype: DType) -> DType:
    return dtypes.tf32 if dtype is dtypes.f32 else dtype


def _wgmma(spec: Mma) -> Plan:
    if not isinstance(spec.acc, Accumulator):
        raise Unfit("the sums are not those of a warpgroup (nv.accumulator)")
    if not spec.threads.are_warps or spec.threads.size != WARP_GROUP_SIZE:
        raise Unfit(f"a warpgroup executes it, 128 threads in their order, not {spec.threads}")
    _fits(spec)
    whole = [isinstance(x, Part) and isinstance(x.memory, Tile) and x.shape == x.memory.shape for x in (spec.a, spec.b)]
    held = isinstance(spec.a, Registers)
    if held and (spec.a.shape[0] != 64 or spec.a.layout != wgmma_a(spec.a.dtype.bytes)):
        raise Unfit(f"A's registers are not those of layout.wgmma_a: {spec.a.layout}")
    if not whole[1] or not (whole[0] or held or isinstance(spec.a, Fragment)):
        raise Unfit("B is a whole tile in shared memory, A such a tile or registers of a warpgroup")
    a, b = (x.memory if isinstance(x, Part) else x for x in (spec.a, spec.b))
    if any(isinstance(x, Tile) and x.swizzle == 0 for x in (a, b)):
        raise Unfit("a tile of it has the layout of a swizzle (16, 32, 64 or 128), not a dense one")
    types = _tensor_type(a.dtype), _tensor_type(b.dtype)
    _checked(lambda: wgmma.check_types(*types, spec.acc.dtype, spec.acc.n))
    m, _, k = spec.shape
    if k * a.dtype.bytes % 32:
        raise Unfit(f"K is a multiple of {32 // a.dtype.bytes} for {a.dtype.name}, not {k}")

    def emit() -> Accumulator:
        left = Fragment(m, k, a.dtype, [[spec.a.words]]) if held else a
        return spec.acc.mma(left, b)

    return Plan(emit, m // 64 * k * a.dtype.bytes // 32)


def _mma_sync(spec: Mma) -> Plan:
    if not isinstance(spec.acc, WarpAccumulator):
        raise Unfit("the sums are not those of a warp (nv.warp_accumulator)")
    if not spec.threads.are_warps or spec.threads.size != WARP_SIZE:
        raise Unfit(f"a warp executes it, 32 lanes in their order, not {spec.threads}")
    _fits(spec)
    m, n, k = spec.shape
    types = [_tensor_type(x.dtype) for x in (spec.a, spec.b)]
    for x, role, values in ((spec.a, "a", mma_a), (spec.b, "b", mma_b)):
        if isinstance(x, Registers) and x.layout != values(x.dtype.bytes, k, m if role == "a" else n):
            raise Unfit(f"{role.upper()}'s registers are not those of layout.mma_{role}: {x.layout}")
        if isinstance(x, WarpFragment) and x.role != role or isinstance(x, Fragment):
            raise Unfit(f"{role.upper()} is no fragment of that operand of a warp")
    rows = min(m, 16)
    shapes = instruction.TYPES.get((types[0].name, types[1].name), ((), ()))[1]
    step = max((step for of_m, step in shapes if of_m == rows and k % step == 0), default=k)
    _checked(lambda: instruction.check_types(types[0], types[1], spec.acc.dtype, rows, step))

    def emit() -> WarpAccumulator:
        return spec.acc.mma(_operand("a", spec.a), _operand("b", spec.b))

    return Plan(emit, max(m // 16, 1) * (n // 8) * (k // step))


def _operand(role: str, x: Any) -> WarpFragment:
    if isinstance(x, Part):
        return (load_a if role == "a" else load_b)(x.memory, x.start, x.shape)
    if isinstance(x, Registers):
        return WarpFragment(role, x.shape, _tensor_type(x.dtype), x.words)
    found: WarpFragment = x
    return found


def _fma(spec: Mma) -> Plan:
    if not isinstance(spec.acc, Registers):
        raise Unfit("the sums are those of a tensor core; a thread's own are nv.spec.Registers")
    if not isinstance(spec.a, Part) or not isinstance(spec.b, Part):
        raise Unfit("each thread reads A and B from memory")
    _fits(spec)
    layout, k = spec.acc.layout, spec.shape[2]

    def emit() -> Registers:
        row0, col0 = layout[0](spec.threads.number)
        places = [layout(0, i) for i in range(layout[1].size)]
        sums = spec.acc.values
        for i in range(k):
            left = {row: spec.a.load(row0 + row, i, 1) for row in sorted({p[0] for p in places})}
            right = {col: spec.b.load(i, col0 + col, 1) for col in sorted({p[1] for p in places})}
            t = spec.acc.dtype
            sums = [_multiply_add(t(left[p[0]]), t(right[p[1]]), x) for p, x in zip(places, sums, strict=True)]
        return spec.acc.with_values(sums)

    return Plan(emit, layout[1].size * k)


def _multiply_add(a: Any, b: Any, c: Any) -> Any:
    return math.fma(a, b, c) if c.dtype.is_float else a * b + c


ATOMS = (
    Atom("wgmma", "wgmma.mma_async of a warpgroup", _wgmma),
    Atom("mma.sync", "mma.sync of a warp, its operands loaded where they lie in memory", _mma_sync),
    Atom("fma", "a fused multiply-add of each thread", _fma),
)
"""Products, the best first."""
