"""New arrays for results, of the library and on the device that the inputs are of."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nvdsl.driver.array_libraries import CuPy, Jax, NumPy, Torch
from nvdsl.driver.array_spec import Memory, spec_of
from nvdsl.driver.view import View
from nvdsl.errors import ArgumentError
from nvdsl.values.dtypes import DType

Made = tuple[Any, Callable[[], Any]]
"""What a kernel that writes the array is given, and, called after the kernel, the array itself."""


def empty_like(memory: Memory, shape: tuple[int, ...], dtype: DType) -> Made:
    """A new C-contiguous array beside ``memory``, not initialized.

    Raises ArgumentError for a library in which nvdsl can't make arrays.
    """
    _, place, owner = memory
    if isinstance(place.library, NumPy):
        return _same(np.empty(shape, dtype.numpy))
    if isinstance(place.library, Torch | CuPy):
        return _same(maker(memory, shape, dtype)()[0])
    if isinstance(place.library, Jax):
        return _jax(memory, shape, dtype)
    raise ArgumentError(
        f"a result for a {type(owner).__qualname__}",
        rule="nvdsl makes NumPy, torch, CuPy and JAX arrays",
        fix="pass out=, an array to write to",
    )


def maker(memory: Memory, shape: tuple[int, ...], dtype: DType) -> Callable[[], tuple[Any, int]]:
    """A function that makes such arrays, of torch or CuPy, and says where each lies."""
    _, place, owner = memory
    if isinstance(place.library, Torch):
        torch, kind = sys.modules["torch"], np.dtype(dtype.numpy).name  # torch calls it the same
        # One like another is made in 3.5 us, one of a shape, a dtype and a device in 5.7. The other keeps no memory: it
        # may come from the pool of a CUDA graph, in which torch.compile wants to know of all that stays.
        # One like an expanded array of no elements would have its strides, 0.
        like, one = torch.empty_like, shape if 0 in shape else ()
        pattern = torch.empty(one, dtype=getattr(torch, kind), device=owner.device).expand(shape)
        pattern.untyped_storage().resize_(0)

        def in_torch() -> tuple[Any, int]:
            made = like(pattern)
            return made, made.data_ptr()

        return in_torch

    cupy = sys.modules["cupy"]

    def in_cupy() -> tuple[Any, int]:
        with cupy.cuda.Device(place.device):
            made = cupy.empty(shape, dtype.numpy)
        return made, made.data.ptr

    return in_cupy


def _same(array: Any) -> Made:
    return array, lambda: array


def _jax(memory: Memory, shape: tuple[int, ...], dtype: DType) -> Made:
    """JAX's arrays are immutable to all but the call that makes them."""
    _, place, owner = memory
    jax, device = sys.modules["jax"], next(iter(owner.devices()))
    host = np.empty(shape, dtype.numpy)
    if place.device < 0:
        return host, lambda: jax.device_put(host, device)
    array = jax.device_put(host, device).block_until_ready()
    writable = replace(place, readonly=False)
    return View(spec_of(shape, dtype), (array.unsafe_buffer_pointer(), writable, array)), lambda: array
