"""``nv.attention`` of CuPy and JAX arrays (stand-ins): results of their library, on their device, and its stream."""

from __future__ import annotations

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver.array_spec import packed_strides
from nvdsl.errors import ArgumentError
from nvdsl.kernels.attention import attention as module
from tests.exhaustive import sample
from tests.unit.kernels.attending import compare, expected
from tests.unit.kernels.attention import test_attention as sixteen

SHAPE = (1, 64, 2, 64)
PLACES = [0x1000000 * (i + 1) for i in range(3)]


@pytest.fixture(autouse=True)
def afresh():
    module._CALLS._launches.clear()


def of_cupy(cupy, address, device, shape=SHAPE):
    return cupy.ndarray("float16", shape, [2 * n for n in packed_strides(shape)], device, address)


@pytest.mark.parametrize("device", sample([1, 0], 1))
def test_cupy(gpu, cupy, device):
    for turn in range(3):
        q, k, v = (of_cupy(cupy, place + 0x1000 * turn, device) for place in PLACES)
        out, lse = nv.attention(q, k, v, return_lse=True, target="gpu")
        assert isinstance(out, cupy.ndarray) and (out.dtype, out.shape) == (np.float16, SHAPE)
        assert (lse.dtype, lse.shape) == (np.float32, (1, 2, 64))
        assert out.data.device_id == lse.data.device_id == device
        launch = gpu.launches[-1]
        assert {x.data.ptr for x in (q, k, v, out, lse)} <= set(launch.given)
        assert launch.stream == (0x61, 0x62)[device]
        assert len(gpu.launches) == turn + 1
    with pytest.raises(ArgumentError, match="device"):
        nv.attention(q, k, of_cupy(cupy, PLACES[2], 1 - device), target="gpu")


def test_jax_on_a_gpu(gpu, jax):
    q, k, v = given = [jax.Array("float16", SHAPE, place) for place in PLACES]
    for _ in range(3):
        out, lse = nv.attention(q, k, v, return_lse=True, target="gpu")
        assert all(isinstance(x, jax.Array) and x.devices() == q.devices() for x in (out, lse))
        assert all(x.waited for x in (*given, out, lse))
        assert {x.unsafe_buffer_pointer() for x in (*given, out, lse)} <= set(gpu.launches[-1].given)
    with pytest.raises(ArgumentError, match="out is read-only"):
        nv.attention(q, k, v, out, target="gpu")


@pytest.mark.exhaustive
def test_jax_on_a_cpu(jax):
    hosts = sixteen.heads(1, 1, 20)
    q, k, v = (jax.Array("float16", x.shape, platform="cpu", host=x) for x in hosts)
    out, lse = nv.attention(q, k, v, causal=True, return_lse=True, target="sim")
    assert all(isinstance(x, jax.Array) and x.devices() == q.devices() for x in (out, lse))
    compare((np.asarray(out), np.asarray(lse)), expected(*hosts, causal=True))


class Exported:
    """Of another library, which has DLPack alone."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.exhaustive
def test_another_library_through_dlpack():
    hosts = sixteen.heads(2, 5, 20)
    q, k, v, out = map(Exported, (*hosts, np.zeros((2, 5, 2, 64), np.float16)))
    assert nv.attention(q, k, v, out, target="sim") is out
    compare((out._array, np.zeros(1)), (expected(*hosts)[0], np.zeros(1)))
    with pytest.raises(ArgumentError, match="pass out="):
        nv.attention(q, k, v, target="sim")
