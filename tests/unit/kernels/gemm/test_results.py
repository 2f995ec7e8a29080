"""Results that ``nv.matmul`` makes: arrays of the operands' library, on their device. CuPy and JAX are stand-ins."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver.array_spec import Place
from nvdsl.driver.new_arrays import empty_like
from nvdsl.kernels import Config

SMALL = Config(64, 64, stages=2, consumers=1)
A, B = 0x10000, 0x20000


def on_cupy(cupy, address, device, dtype="float16"):
    return cupy.ndarray(dtype, (64, 64), (64 * np.dtype(dtype).itemsize, np.dtype(dtype).itemsize), device, address)


@pytest.mark.parametrize("device", [0, 1])
def test_cupy_makes_it_on_the_operands_device(gpu, cupy, device):
    made = []
    for _ in range(3):
        a, b = (on_cupy(cupy, at, device) for at in (A, B))
        result = nv.matmul(a, b, out_dtype=nv.f32, config=SMALL, target="gpu")
        assert isinstance(result, cupy.ndarray) and result.data.device_id == device
        assert (result.dtype, result.shape, result.strides) == (np.float32, (64, 64), (256, 4))
        assert {A, B, result.data.ptr} <= set(gpu.launches[-1].given)
        made.append(result.data.ptr)
    assert len(set(made)) == len(gpu.launches) == 3 and cupy.on == [0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_jax_on_a_cpu_gets_the_product(jax, dtype):
    kind = getattr(ml_dtypes, dtype, dtype)
    hosts = [np.arange(96).reshape(s).astype(kind) % 5 for s in ((8, 12), (12, 8))]
    a, b = (jax.Array(dtype, x.shape, platform="cpu", host=x) for x in (x.astype(kind) for x in hosts))
    result = nv.matmul(a, b, target="sim")
    assert isinstance(result, jax.Array) and result.devices() == a.devices() and result.dtype == kind
    expected = np.matmul(*(x.astype(np.float32) for x in hosts)).astype(kind)
    np.testing.assert_array_equal(np.asarray(result).astype(np.float32), expected.astype(np.float32))


def test_jax_on_a_gpu_gets_an_array_that_was_written_in_place(gpu, jax):
    a, b = (jax.Array("float16", (64, 64), at) for at in (A, B))
    results = [nv.matmul(a, b, config=SMALL, target="gpu") for _ in range(3)]
    assert all(isinstance(x, jax.Array) and x.waited and x.devices() == a.devices() for x in results)
    for result, launched in zip(results, gpu.launches, strict=True):
        assert {A, B, result.unsafe_buffer_pointer()} <= set(launched.given)


def test_other_libraries_need_an_out():
    with pytest.raises(nv.ArgumentError, match="a result for a SimpleNamespace") as caught:
        empty_like((A, Place(None, 0), SimpleNamespace()), (4, 4), nv.f16)
    assert "pass out=" in caught.value.fix
