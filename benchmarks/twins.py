"""One host function twice: compiled for each shape, and for all of them."""

from __future__ import annotations

import types
from typing import Any

import nvdsl as nv


def twin(function: nv.Jit[...], **annotations: Any) -> nv.Jit[...]:
    """The same function with other annotations: ``twin(gemm, a=nv.Array["m", "k"])`` has named extents, ``twin(gemm)``
    none."""
    old: Any = function.__wrapped__
    new = types.FunctionType(old.__code__, old.__globals__, old.__name__, old.__defaults__, old.__closure__)
    new.__kwdefaults__, new.__annotations__ = old.__kwdefaults__, annotations
    new.__module__, new.__qualname__ = old.__module__, old.__qualname__
    return nv.jit(new)


def products() -> dict[str, Any]:
    """The annotations of a product, ``d = a @ b``."""
    array = nv.Array
    return {"a": array["m", "k % 8"], "b": array["k % 8", "n % 8"], "d": array["m", "n % 8"]}
