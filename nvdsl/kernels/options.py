"""The arguments of a finished kernel's public function that are no arrays: switches, numbers, names, functions.

Each function returns the value as the call uses it, and raises ArgumentError for what is none.
"""

from __future__ import annotations

import inspect
import math
import numbers
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.errors import ArgumentError, NvdslError
from nvdsl.errors.frames import KERNELS
from nvdsl.values import dtypes


def switch(name: str, given: Any) -> bool:
    """True or False, also as 1 or 0."""
    if isinstance(given, np.bool_) or isinstance(given, int | np.integer) and given in (0, 1):
        return bool(given)
    raise ArgumentError(f"{name}={reprlib.repr(given)}", rule=f"{name} is True or False")


def is_whole(given: Any) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool)


def whole(name: str, given: Any, bits: int = 64) -> int:
    """An integer of so many bits, with a sign: a float is none, though it may have no fraction."""
    if is_whole(given) and -(1 << bits - 1) <= int(given) < 1 << bits - 1:
        return int(given)
    raise ArgumentError(f"{name}={reprlib.repr(given)}", rule=f"{name} is an integer of {bits} bits")


def real(name: str, given: Any, fix: str = "") -> float:
    """A number: int, float or one of NumPy's."""
    if isinstance(given, numbers.Real) and not isinstance(given, bool):
        try:
            return float(given)
        except OverflowError:
            pass
    raise ArgumentError(
        f"{name}={reprlib.repr(given)}", rule=f"{name} is a real number: int, float or a NumPy scalar", fix=fix
    )


MOST_OF_F32 = 2.0**128 - 2.0**104
"""The greatest number that an argument of a kernel holds: a float is passed as f32."""


def finite(name: str, given: Any, least: float = -math.inf, fix: str = "") -> float:
    """A number that is ``least`` or more, and finite in f32."""
    value = real(name, given, fix)
    if not abs(value) <= MOST_OF_F32 or value < least:
        bound = "" if least == -math.inf else f", {least:g} or more"
        raise ArgumentError(f"{name}={given!r}", rule=f"{name} is a finite number of f32{bound}", fix=fix)
    return value


def choice(name: str, given: Any, known: Sequence[str]) -> str:
    """One of some names."""
    if isinstance(given, str) and given in known:
        return given
    raise ArgumentError(f"{name}={reprlib.repr(given)}", rule=f"{name} is one of {', '.join(known)}")


def dtype(name: str, x: Any) -> nv.DType | None:
    """A type, one of torch's, or what NumPy takes for one. Raises ArgumentError for what is none."""
    if x is None or isinstance(x, nv.DType):
        return x
    try:
        return dtypes.from_numpy(str(x).removeprefix("torch.") if type(x).__module__ == "torch" else x)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{name}={reprlib.repr(x)}",
            rule="a type is one of nvdsl's, of NumPy's or of torch's",
            fix=f"{name}=nv.f32, say",
        ) from None


def takes(name: str, function: Callable[..., Any], parameters: Sequence[str]) -> None:
    """Raises ArgumentError for a function that can't be called with ``parameters``, which are called so."""
    try:
        inspect.signature(function).bind(*parameters)
    except ValueError:  # it doesn't say what it takes
        return
    except TypeError as error:
        raise ArgumentError(
            f"{name}: {error}",
            rule=f"it is called with {len(parameters)} argument{'s' * (len(parameters) > 1)}: {', '.join(parameters)}",
            fix=f"{name}=lambda {', '.join(parameters)}: ...",
        ) from None


def called(name: str, function: Callable[..., Any], *values: Any) -> Any:
    """What the caller's ``function`` of traced numbers returns: a number, traced or not.

    Raises ArgumentError for another result. An error that has no line of the caller's, for ``function`` is one of
    Python's or NumPy's, gets that of the call.
    """
    try:
        result = function(*values)
    except NvdslError as error:
        if error.where is not None and error.where.file.startswith(KERNELS):
            error.where = None
        raise
    except (TypeError, ValueError) as error:
        if not _is_builtin(function):
            raise
        raise ArgumentError(
            f"{name}: {error}", rule=f"{name} is a function of traced numbers, and returns one"
        ) from error
    if isinstance(result, bool) or not isinstance(result, int | float | nv.Value):
        raise ArgumentError(
            f"{name} returned {reprlib.repr(result)}",
            rule=f"{name} is a function of traced numbers, and returns one",
            fix="return what it computes",
        )
    return result


def _is_builtin(function: Any) -> bool:
    return not hasattr(function, "__code__") and not hasattr(type(function).__call__, "__code__")
