"""A case: a small kernel as plain data, its call, and when two results of it agree.

A case is a frozen dataclass of numbers, texts and tuples, so that one machine can write it down as JSON and another
can run it. `Case.call` makes the kernel, its arguments (a function of the case alone) and what to read afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

import nvdsl as nv

KINDS: dict[str, type[Case]] = {}


@dataclass(frozen=True)
class Result:
    """One array that a call leaves. ``tolerance``: None where the bits must agree (any NaN agrees with any), else
    (relative, absolute) bounds of the difference from the simulator's, for the GPU's approximations."""

    name: str
    array: np.ndarray
    tolerance: tuple[float, float] | None = None


@dataclass(frozen=True)
class Call:
    """``function(*arguments, **constants)``, then ``results()``."""

    function: Any
    arguments: list[Any]
    results: Callable[[], list[Result]]
    constants: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Subclasses are registered in `KINDS` under their ``kind``."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls

    def call(self) -> Call:
        raise NotImplementedError

    def run(self, target: str) -> list[Result]:
        """The results of a call on ``target``, "sim" or "gpu"."""
        call = self.call()
        call.function(*call.arguments, target=target, **call.constants)
        return call.results()

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **dataclasses.asdict(self)}


def from_json(data: dict[str, Any]) -> Case:
    fields = {name: _tuples(value) for name, value in data.items() if name != "kind"}
    return KINDS[data["kind"]](**fields)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def dtype(name: str) -> nv.DType:
    return getattr(nv, name)


def from_bits(words: np.ndarray, name: str) -> np.ndarray:
    """uint64 words, each with the bits of one element of dtype ``name`` lowest, as an array of that dtype."""
    if name == "bool_":
        return words != 0
    t = dtype(name)
    return words.astype(f"u{t.bytes}").view(t.numpy)


# --- agreement -----------------------------------------------------------------------------------


def canonical(x: np.ndarray) -> np.ndarray:
    """A copy whose NaNs all have one pattern of bits (IEEE 754 and PTX leave it open)."""
    if not is_float(x):
        return x.copy()
    out = np.ascontiguousarray(x).copy()
    with np.errstate(invalid="ignore"):  # signalling NaNs
        nan = np.isnan(x)
    out.view(f"u{x.itemsize}")[nan] = (1 << (8 * x.itemsize - 1)) - 1
    return out


def is_float(x: np.ndarray) -> bool:
    return x.dtype.kind == "f" or x.dtype in map(np.dtype, (
        ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))  # fmt: skip


def differing(mine: Result, theirs: np.ndarray) -> np.ndarray:
    """A mask of the elements in which two runs of one case disagree."""
    x = mine.array
    if mine.tolerance is None:
        a, b = (np.ascontiguousarray(canonical(y)).view(np.uint8).reshape(*y.shape, y.itemsize) for y in (x, theirs))
        return (a != b).any(-1)
    relative, absolute = mine.tolerance
    a, b = x.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(invalid="ignore"):
        close = np.abs(a - b) <= absolute + relative * np.abs(a)
    return ~(close | (a == b) | (np.isnan(a) & np.isnan(b)))
