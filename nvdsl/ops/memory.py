"""Global memory that blocks tell each other about: loads that acquire, stores that release. And what is read soon.

PTX ISA, ``ld.acquire``, ``st.release``, "Memory Consistency Model"; ``prefetch``, ``cp.async.bulk.prefetch``. What a
thread wrote before a release is known to who reads the released value with an acquire; within a block, barriers hand
that on to the other threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, nvvm
from nvdsl.ops.pointer import GLOBAL, element_address, i32
from nvdsl.values.traced import Value, stored, wrap
from nvdsl.values.typing import Coords, Int, Number, Pointer

if TYPE_CHECKING:
    from nvdsl.lang.array import Array

SCOPES = {"cta": "block", "cluster": "cluster", "gpu": "device", "sys": ""}
"""PTX's names of scopes -> LLVM's for NVPTX."""


def load_acquire(array: Array, key: Int, *, scope: str = "gpu") -> Value:
    """``array[key]`` of a 1-D array in global memory (``ld.acquire.<scope>.global``).

    Later accesses of this thread see what was written before the `store_release` that wrote the value. 32- and 64-bit
    elements. ``scope``: "cta", "cluster", "gpu" or "sys".
    """
    _check(array, "load_acquire", scope)
    found = llvm.LoadOp(
        array.dtype.ir,
        _element(array, key),
        alignment=array.dtype.bytes,
        ordering=llvm.AtomicOrdering.acquire,
        syncscope=SCOPES[scope],
    ).result
    return wrap(found, array.dtype)


def store_release(array: Array, key: Int, value: Number, *, scope: str = "gpu") -> None:
    """``array[key] = value`` of a 1-D array in global memory (``st.release.<scope>.global``).

    Who reads it with `load_acquire` sees what this thread wrote before, and what it knows of by barriers.
    """
    _check(array, "store_release", scope)
    llvm.StoreOp(
        stored(value, array.dtype),
        _element(array, key),
        alignment=array.dtype.bytes,
        ordering=llvm.AtomicOrdering.release,
        syncscope=SCOPES[scope],
    )


def prefetch(array: Array, key: Coords) -> None:
    """Bring the line of ``array[key]``, in global memory, into L2 (``prefetch.global.L2``). Nothing waits for it."""
    nvvm.prefetch(element_address(array, key, array.strides, GLOBAL), cache_level=nvvm.PrefetchCacheLevel.L2)


def bulk_prefetch(array: Array, key: Coords, bytes: Int) -> None:
    """Bring ``bytes`` bytes, from ``array[key]`` in global memory on, into L2 (``cp.async.bulk.prefetch.L2``), for each
    thread that comes here. Nothing waits for it. Number and address are multiples of 16, and all lies in the array."""
    nvvm.cp_async_bulk_prefetch(element_address(array, key, array.strides, GLOBAL), i32(bytes))


def _element(array: Array, key: Int) -> Pointer:
    return element_address(array, (key,), (1,), GLOBAL)


def _check(array: Array, what: str, scope: str) -> None:
    ty = ir.MemRefType(array.type)
    packed = ty.get_strides_and_offset()[0] == [1]
    if ty.rank != 1 or not packed or array.dtype.bits not in (32, 64) or "workgroup" in str(ty):
        raise trace_error(
            f"{what} of {array!r}",
            rule="a contiguous 1-D array of 32- or 64-bit elements in global memory (PTX ISA, ld.acquire, st.release)",
            fix="keep flags in an array of nv.i32",
        )
    if scope not in SCOPES:
        raise trace_error(f"{what} with scope={scope!r}", rule=f"the scope is one of {list(SCOPES)}")
