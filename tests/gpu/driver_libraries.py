"""Arrays of every library as arguments of one kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from nvdsl.driver.arrays import describe
from nvdsl.errors import ArgumentError
from tests.gpu import driver_kernels as kernels


class DLPack:
    """An array with ``__dlpack__`` alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class CudaArrayInterface:
    """An array with ``__cuda_array_interface__`` alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> Any:
        return {**self.array.__cuda_array_interface__, "version": 3, "stream": None}


def _cupy() -> Any:
    import cupy

    return cupy.ones((4, 6), "float32")


def _jax() -> Any:
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # by default it takes most of the GPU's memory
    import jax.numpy

    return jax.numpy.ones((4, 6), "float32")


def other_libraries() -> str:
    import torch

    run, used = kernels.scale(), []
    ones, d = torch.ones(4, 6, device="cuda"), torch.zeros(4, 6, device="cuda")
    makers: dict[str, Callable[[], Any]] = {
        "DLPack": lambda: DLPack(ones),
        "CUDA array interface": lambda: CudaArrayInterface(ones),
        "CuPy": _cupy,
        "JAX": _jax,
    }
    for factor, (name, make) in enumerate(makers.items(), 2):
        try:
            array = make()
        except ImportError:
            continue
        run.call(array, d, float(factor), 24, 1)
        torch.cuda.synchronize()
        assert (d == factor).all(), name
        used.append(f"{name} ({'GPU' if describe(array)[1][1].device >= 0 else 'CPU'})")
        if name == "JAX":
            kernels.expect(ArgumentError, "JAX arrays are immutable", lambda x=array: run.call(ones, x, 1.0, 24, 1))
        else:
            run.call(ones, array, 1.0, 24, 1)
    return ", ".join(used)


def torch_dtypes() -> str:
    import torch

    names = []
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float64", "uint8", "int64", "bool"):
        x = torch.zeros(4, 6, device="cuda").to(getattr(torch, name))
        spec, (address, place, _) = describe(x)
        assert (spec.shape, spec.strides, address, place.device) == ((4, 6), (6, 1), x.data_ptr(), 0)
        _, (_, place, array) = describe(x.cpu())
        assert place.library.host_view(array).nbytes == 24 * x.element_size()
        names.append(spec.dtype.name)
    return " ".join(names)
