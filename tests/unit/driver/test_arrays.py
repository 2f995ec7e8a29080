"""describe(): specs and addresses of NumPy arrays and of stand-ins for torch, CuPy and JAX arrays."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from nvdsl.driver import arrays, device
from nvdsl.driver.array_spec import canonical_strides, packed_strides, spec_of
from nvdsl.errors import ArgumentError
from nvdsl.values import dtypes
from tests.unit.driver import libraries


@pytest.mark.parametrize("dtype", [t for t in dtypes.ALL if t.name not in ("tf32", "index")], ids=repr)
def test_numpy_dtypes(dtype):
    spec, (address, place, _) = arrays.describe(np.zeros((2, 3), dtype.numpy))
    assert spec == spec_of((2, 3), dtype)
    assert (address, place.device, place.readonly) == (0, -1, False)


def test_the_spec_of_a_host_array_is_packed_whatever_its_strides():
    x = np.zeros((8, 6), np.float32)
    for view in (x.T, x[::2, ::2], x[::-1]):
        spec, _ = arrays.describe(view)
        assert spec == spec_of(view.shape, dtypes.f32)


def test_readonly_numpy():
    x = np.zeros(3)
    x.flags.writeable = False
    _, (_, place, array) = arrays.describe(x)
    assert place.readonly
    assert array is x


def test_specs_are_equal_and_hash_alike_by_content():
    one, other = spec_of([2, 3], dtypes.f16), spec_of((2, 3), dtypes.f16, (3, 1))
    assert one == other
    assert hash(one) == hash(other)
    assert one != spec_of((2, 3), dtypes.bf16)
    assert one != spec_of((2, 3), dtypes.f16, (4, 1))


def test_strides_of_single_elements_mean_nothing():
    assert canonical_strides((1, 4, 1), (99, 1, 77)) == (4, 1, 1)
    assert canonical_strides((0, 8), (0, 0)) == packed_strides((0, 8))
    assert spec_of((1, 4), dtypes.f16, (1, 1)) == spec_of((1, 4), dtypes.f16)
    assert packed_strides(()) == ()


@pytest.mark.parametrize("value", [3, 2.5, True, None, "x", (1, 2), np.float32(1)])
def test_what_is_no_array(value):
    assert arrays.describe(value) is None


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros(2, np.complex64), "dtype complex64"),
        (np.zeros(2, ">f4"), "bytes are swapped"),
        (np.zeros(2, object), "dtype object"),
        (np.zeros(2, ml_dtypes.float8_e4m3fnuz), "dtype float8_e4m3fnuz"),
    ],
)
def test_dtypes_that_no_kernel_takes(array, text):
    with pytest.raises(ArgumentError, match=text):
        arrays.describe(array)


@pytest.fixture
def torch(monkeypatch):
    return libraries.install_torch(monkeypatch)


def test_torch_device_tensor(torch):
    x = torch.Tensor("bfloat16", (4, 8), (8, 1), 1, address=0x5000)
    spec, (address, place, array) = arrays.describe(x)
    assert spec == spec_of((4, 8), dtypes.bf16)
    assert (address, place.device, place.readonly, place.stream_ordered) == (0x5000, 1, False, True)
    assert array is x


def test_torch_strides_are_kept_and_the_second_look_is_the_same_spec(torch):
    first, _ = arrays.describe(torch.Tensor("float8_e4m3fn", (4, 8), (1, 4)))
    again, _ = arrays.describe(torch.Tensor("float8_e4m3fn", (4, 8), (1, 4), address=0x9000))
    assert first is again
    assert first == spec_of((4, 8), dtypes.e4m3, (1, 4))


@pytest.mark.parametrize(("setting", "simulated", "lies"), [("", True, 1), ("", False, 0), ("host", True, 0)])
def test_torch_host_tensor(torch, monkeypatch, setting, simulated, lies):
    """In the simulator it stands for the CUDA tensor that it would be."""
    monkeypatch.setenv("NVDSL_SIM_ARRAYS", setting)
    monkeypatch.setattr(device, "simulated", lambda: simulated)
    spec, (address, place, _) = arrays.describe(torch.Tensor("float32", (4, 2), (1, 4), -1, address=0x5000))
    assert (address, place.device, place.stands_in) == (0x5000 if lies else 0, -1, lies)
    assert spec.strides == ((1, 4) if lies else (2, 1))


def test_torch_tensors_without_memory(torch):
    x = torch.Tensor("float32", (4,), (1,))
    x.stride = libraries.raising(RuntimeError("Sparse tensors have no strides"))
    with pytest.raises(ArgumentError, match="without plain memory.*Sparse"):
        arrays.describe(x)
    with pytest.raises(ArgumentError, match="on device 'meta'"):
        arrays.describe(torch.Tensor("float32", (5,), (1,), -1, kind="meta"))


def test_torch_parameter_is_a_tensor(torch):
    class Parameter(torch.Tensor):
        pass

    assert arrays.describe(Parameter("float16", (4,), (1,)))[0] == spec_of((4,), dtypes.f16)


def test_cupy(monkeypatch):
    cupy = libraries.install_cupy(monkeypatch)
    x = cupy.ndarray("uint16", (4, 8), (32, 2), device=1, address=0x6000)
    spec, (address, place, _) = arrays.describe(x)
    assert spec == spec_of((4, 8), dtypes.u16, (16, 1))
    assert (address, place.device) == (0x6000, 1)
    with pytest.raises(ArgumentError, match="whole elements"):
        arrays.describe(cupy.ndarray("float32", (4,), (6,)))


def test_jax(monkeypatch):
    jax = libraries.install_jax(monkeypatch)
    x = jax.Array("bfloat16", (4, 8), address=0x7000)
    spec, (address, place, _) = arrays.describe(x)
    assert spec == spec_of((4, 8), dtypes.bf16)
    assert (address, place.device, place.readonly, place.stream_ordered) == (0x7000, 0, True, False)
    assert x.waited
    with pytest.raises(ArgumentError, match="spread over 2 devices"):
        arrays.describe(jax.Array("float32", (4,), devices=2))
    with pytest.raises(ArgumentError, match="outside of jax.jit"):
        arrays.describe(jax.core.Tracer())


def test_jax_on_the_cpu_is_a_host_array(monkeypatch):
    jax = libraries.install_jax(monkeypatch)
    _, (address, place, _) = arrays.describe(jax.Array("float32", (4,), platform="cpu"))
    assert (address, place.device, place.readonly) == (0, -1, True)


class Exported:
    """An array of a library that nobody knows, with DLPack alone."""

    def __init__(self, array, device=None):
        self._array, self._device = array, device

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)  # NumPy's refuses streams

    def __dlpack_device__(self):
        return self._device or self._array.__dlpack_device__()


@pytest.mark.parametrize("writeable", [True, False])
def test_dlpack_host_array(writeable):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    x.flags.writeable = writeable
    spec, (address, place, array) = arrays.describe(Exported(x))
    assert spec == spec_of((2, 3), dtypes.f32)
    assert (address, place.device, place.readonly) == (0, -1, not writeable)
    assert np.shares_memory(place.library.host_view(array), x)


def test_what_dlpack_can_not_hand_out_is_said():
    for array in (Exported(np.zeros(3, "M8[s]")), Exported(SimpleNamespace(__dlpack__=lambda **options: 3), (1, 0))):
        with pytest.raises(ArgumentError, match="Exported whose memory can't be read: .*\\n *fix:.*NumPy"):
            arrays.describe(array)


def test_interchange_device_array(monkeypatch):
    view = SimpleNamespace(
        dtype=np.dtype("float16"),
        shape=(2, 4),
        strides=(8, 1),
        ptr=0x8000,
        device_id=1,
        readonly=True,
        is_device_accessible=True,
    )
    monkeypatch.setattr(arrays._INTERCHANGE, "_view", lambda array: view)
    spec, (address, place, _) = arrays.describe(Exported(np.zeros(1), device=(2, 1)))
    assert spec == spec_of((2, 4), dtypes.f16, (8, 1))
    assert (address, place.device, place.readonly, place.stream_ordered) == (0x8000, 1, True, False)


def test_no_library_is_imported():
    """Describing an array loads no array library and no CUDA."""
    import subprocess

    code = (
        "import sys, numpy; from nvdsl.driver import executable, device; from nvdsl.driver.arrays import describe;"
        "describe(numpy.zeros(3)); describe(3);"
        "print({'torch', 'cupy', 'jax', 'cuda.core', 'cuda.bindings.driver'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
