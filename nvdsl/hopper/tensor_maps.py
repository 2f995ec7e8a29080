"""Tensor maps: the parameters of cuTensorMapEncodeTiled, and every rule they must keep.

Shapes, strides and boxes are given as MLIR and NumPy give them, outermost dimension first, in elements;
the driver takes them innermost first, strides in bytes. Nothing here imports CUDA or MLIR.

Rules: CUDA driver API, cuTensorMapEncodeTiled; PTX ISA 9.0, "Tensors", 5.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.values.elements import ELEMENTS

SWIZZLE_BYTES = {f"swizzle_{size}b": size for size in arch.SWIZZLES if size}
SWIZZLES = ("none", *SWIZZLE_BYTES)
L2_PROMOTIONS = ("none", "l2promo_64b", "l2promo_128b", "l2promo_256b")
OOB_FILLS = ("zero", "nan")
INTERLEAVES = ("none", "interleave_16b", "interleave_32b")

# CUtensorMapDataType by MLIR's name of the element. TMA copies bytes, so that signless integers and 8-bit
# floats take the unsigned type of their size; signs matter to its 32- and 64-bit min/max reductions alone.
DATA_TYPES = {
    "i1": 0,
    "i8": 0,
    "f8E4M3FN": 0,
    "f8E5M2": 0,
    "i16": 1,
    "i32": 3,
    "i64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 8,
    "bf16": 9,
    "tf32": 11,
}


class Problem(NamedTuple):
    """A rule that is broken, with the value, and what to do about it."""

    what: str
    fix: str


def listed(problems: Sequence[Problem], between: str) -> tuple[str, str]:
    """What is wrong, and the fixes, each once."""
    return between.join(p.what for p in problems), "; ".join(dict.fromkeys(p.fix for p in problems))


@dataclass(frozen=True)
class TensorMap:
    """What a tensor map says about a tensor, all but its address.

    ``element`` is an MLIR type name; ``shape``, ``strides`` and ``box`` are in elements, outermost
    dimension first; the four modes are spelled as in nvgpu's attributes.
    """

    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str = "none"
    l2promo: str = "none"
    oob: str = "zero"
    interleave: str = "none"

    @property
    def dims(self) -> tuple[int, ...]:
        """globalDim: elements, innermost first."""
        return self.shape[::-1]

    @property
    def stride_bytes(self) -> tuple[int, ...]:
        """globalStrides: bytes, innermost first, without the innermost dimension's own.

        A dimension of one element is never stepped over, so that its stride may be anything: it is given
        as the bytes that the dimensions inside it span, rounded up to what the driver accepts."""
        size, unit = ELEMENTS[self.element].bytes, _stride_unit(self.interleave)
        span, strides = size, []
        for dim, stride in zip(self.shape[::-1], self.strides[::-1], strict=True):
            step = stride * size if dim > 1 else -(-span // unit) * unit
            strides.append(step)
            span = max(span, dim * step)
        return tuple(strides[1:])

    @property
    def past_end(self) -> int:
        """Bytes behind the tensor's end that a store or reduction writes where its box hangs over it.

        They clip rows at whole 16 bytes (measured on an H200: docs/hardware.md). 0 where rows lie so far apart that
        those bytes are the last row's padding; of a single row nothing is known but its end.
        """
        row = self.shape[-1] * ELEMENTS[self.element].bytes
        past = -row % arch.TMA_STORE_UNIT
        pitches = [step for dim, step in zip(self.dims[1:], self.stride_bytes, strict=True) if dim > 1]
        return past if row + past > min(pitches, default=0) else 0

    @property
    def box_dims(self) -> tuple[int, ...]:
        """boxDim: elements, innermost first."""
        return self.box[::-1]

    @property
    def modes(self) -> tuple[int, int, int, int, int]:
        """The driver's enum values: data type, interleave, swizzle, L2 promotion, out-of-bounds fill."""
        return (
            DATA_TYPES[self.element],
            INTERLEAVES.index(self.interleave),
            SWIZZLES.index(self.swizzle),
            L2_PROMOTIONS.index(self.l2promo),
            OOB_FILLS.index(self.oob),
        )

    def check(self, address: int | None = None) -> list[Problem]:
        """Every rule that this tensor map breaks, with the value; [] when it is legal.

        ``address``: the tensor's global address, checked too when it is known."""
        if self.element not in DATA_TYPES:
            what = f"element type {self.element}: TMA copies {', '.join(DATA_TYPES)}"
            return [Problem(what, "make the map of integers of the same width")]
        problems = self._check_modes()
        if not 1 <= len(self.shape) <= arch.TMA_MAX_RANK:
            what = f"rank {len(self.shape)}: 1 to {arch.TMA_MAX_RANK} dimensions are possible"
            return [*problems, Problem(what, "reshape the array")]
        if len(self.strides) != len(self.shape) or len(self.box) != len(self.shape):
            what = f"{len(self.box)} box sizes and {len(self.strides)} strides for {len(self.shape)} dimensions"
            return [*problems, Problem(what, "give a size for each axis")]
        return problems + self._check_tensor(address) + self._check_box()

    def _check_modes(self) -> list[Problem]:
        problems = [
            Problem(f"{what} {value!r}: one of {', '.join(known)}", "choose one of these")
            for what, value, known in (
                ("swizzle", self.swizzle, SWIZZLES),
                ("l2promo", self.l2promo, L2_PROMOTIONS),
                ("oob", self.oob, OOB_FILLS),
                ("interleave", self.interleave, INTERLEAVES),
            )
            if value not in known
        ]
        element = ELEMENTS[self.element]
        if self.oob == "nan" and (not element.is_float or element.bytes == 1):
            what = f"oob nan with {self.element}: NaN fill needs f16, bf16, tf32, f32 or f64 (fp8 travels as u8)"
            problems.append(Problem(what, "fill with zeros"))
        if self.interleave != "none" and len(self.shape) < 3:
            what = f"rank {len(self.shape)} with {self.interleave}: it needs rank 3 to 5"
            problems.append(Problem(what, "leave the interleaving out"))
        if self.interleave == "interleave_32b" and self.swizzle != "swizzle_32b":
            what = f"swizzle {self.swizzle} with interleave_32b: it needs swizzle_32b"
            problems.append(Problem(what, "take swizzle_32b"))
        return problems

    def _check_tensor(self, address: int | None) -> list[Problem]:
        problems = []
        unit, last, size = _stride_unit(self.interleave), len(self.shape) - 1, ELEMENTS[self.element].bytes
        if address is not None and address % unit:
            what = (
                f"address {address:#x} is {address % unit} bytes past a multiple of {unit}: "
                f"the global address must be {unit}-byte aligned"
            )
            problems.append(Problem(what, f"pass an array, or a part, that starts at a multiple of {unit} bytes"))
        problems += [
            Problem(
                f"axis {i} has {dim} elements: 1 to 2^32 are allowed",
                "ask before the call whether there is anything to do" if dim < 1 else "pass parts of the array",
            )
            for i, dim in enumerate(self.shape)
            if not 1 <= dim <= arch.TMA_MAX_DIM
        ]
        if self.shape[last] > 1 and self.strides[last] != 1:
            what = f"axis {last} (the innermost) has a stride of {self.strides[last]} elements: "
            turned = 1 in self.strides
            fix = "pass the transpose, whose rows are contiguous, and multiply by tile.T" if turned else "pass a copy"
            problems.append(Problem(what + "TMA needs it contiguous, stride 1", fix))
        for i, stride in zip(range(last - 1, -1, -1), self.stride_bytes, strict=True):
            if stride % unit:
                what = (
                    f"axis {i} has a stride of {stride} bytes ({self.strides[i]} elements of "
                    f"{self.element}): it must be a multiple of {unit} bytes"
                )
                padded, part = -(-stride // unit) * unit // size, f"x[..., :{self.shape[-1]}]"
                fix = f"let it be {padded} elements: a part {part} of a wider array; or use nv.copy"
                problems.append(Problem(what, fix))
            if not 0 <= stride < arch.TMA_MAX_STRIDE:
                what = f"axis {i} has a stride of {stride} bytes: 0 to 2^40 - 1 are allowed"
                problems.append(Problem(what, "pass a copy"))
        return problems

    def _check_box(self) -> list[Problem]:
        problems = [
            Problem(
                f"axis {i} of the box has {size} elements: 1 to {arch.TMA_MAX_BOX} are allowed",
                f"take at most {arch.TMA_MAX_BOX} along axis {i}, and a copy for each part",
            )
            for i, size in enumerate(self.box)
            if not 1 <= size <= arch.TMA_MAX_BOX
        ]
        if self.interleave != "none":
            return problems
        size = ELEMENTS[self.element].bytes
        row = self.box[-1] * size
        what = f"the box row is {row} bytes ({self.box[-1]} elements of {self.element})"
        if row % arch.TMA_BOX_ROW_MULTIPLE:
            fix = f"take a multiple of {arch.TMA_BOX_ROW_MULTIPLE // size} elements along the last axis"
            problems.append(Problem(f"{what}: it must be a multiple of {arch.TMA_BOX_ROW_MULTIPLE} bytes", fix))
        limit = SWIZZLE_BYTES.get(self.swizzle)
        if limit is not None and row > limit:
            rule = f"{what}: {self.swizzle} allows at most {limit} bytes ({limit // size} elements)"
            problems.append(Problem(rule, f"make boxes of {limit // size} columns, a copy for each"))
        return problems


def _stride_unit(interleave: str) -> int:
    return 32 if interleave == "interleave_32b" else arch.TMA_STRIDE_MULTIPLE
