"""Host arrays that stand for device arrays: kernels see their strides, their gaps and where they begin."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import ArgumentError, SimError


@pytest.fixture(autouse=True)
def as_on_a_device(monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_ARRAYS", "device")
    monkeypatch.setattr("nvdsl.driver.device.simulated", lambda: True)


def lying(count, start=0, dtype=np.float32):
    """So many elements from ``start`` bytes behind a multiple of 128 on."""
    memory = np.zeros(count * np.dtype(dtype).itemsize + 256, np.uint8)
    first = -memory.ctypes.data % 128 + start
    array = memory[first : first + count * np.dtype(dtype).itemsize].view(dtype)
    array[:] = np.arange(count)
    return array


@nv.jit
def vectors(x, y):
    @nv.kernel(grid=1, block=8)
    def kernel():
        i = 4 * nv.thread_id.x
        y.store_vector(x.load_vector(i, 4), i)

    kernel()


@nv.jit
def doubled(x, y):
    @nv.kernel(grid=1, block=x.shape[0])
    def kernel():
        i = nv.thread_id.x
        y[i] = 2.0 * x[i]

    kernel()


@nv.jit
def tile(x, y):
    source = nv.TMA(x, tile=(8,))

    @nv.kernel(grid=1, block=32)
    def kernel():
        slot, full = nv.smem(8, nv.f32), nv.Mbarriers(1, arrivals=1)
        if nv.thread_id.x == 0:
            full[0].arrive_expect_tx(slot.bytes)
            source.load(slot, full[0], (0,))
        full[0].wait(0)
        if nv.thread_id.x < 8:
            y[nv.thread_id.x] = slot[nv.thread_id.x]

    kernel()


@pytest.mark.parametrize("start", [0, 16, 4, 8])
def test_a_vector_is_as_aligned_as_its_array(start, monkeypatch):
    x, y = lying(32, start), lying(32)
    if start % 16 == 0:
        vectors(x, y)
        np.testing.assert_array_equal(y, x)
        return
    with pytest.raises(SimError, match=rf"load of 16 bytes .* x begins {start} bytes behind one") as found:
        vectors(x, y)
    line = vectors.__wrapped__.__code__.co_firstlineno + 5
    assert found.value.kind == "misaligned" and found.value.where.line == line
    monkeypatch.setenv("NVDSL_SIM_ARRAYS", "host")
    vectors(x, y)  # a packed copy begins wherever it has to


@pytest.mark.parametrize("step", [1, 3, -2])
def test_strides_and_gaps(step):
    x, y = lying(64, 4), lying(64, 12)
    expected = y.copy()
    doubled(x[::step][:8], y[::step][:8])
    expected[::step][:8] = 2 * x[::step][:8]
    np.testing.assert_array_equal(y, expected)


def test_arrays_in_one_memory():
    """Elements between those of the other are no overlap; the same memory in two arrays is a race."""
    x = lying(64)
    doubled(x[0:16:2], x[1:16:2])
    np.testing.assert_array_equal(x[1:16:2], 2 * np.arange(0, 16, 2))
    with pytest.raises(SimError, match=r"x and y") as found:
        doubled(x[:8], x[1:9])
    assert found.value.kind in ("war", "warp-sync")


def test_a_tensor_map_needs_16_bytes():
    y = lying(8)
    tile(lying(8, 32), y)
    np.testing.assert_array_equal(y, np.arange(8))
    with pytest.raises(ArgumentError, match="16"):
        tile(lying(8, 8), y)


@pytest.mark.parametrize("start", [0, 4])
def test_a_finished_kernel_reads_where_rows_begin(start):
    x = lying(3 * 40, start).reshape(3, 40)[:, 1:38]
    expected = np.exp(x - x[:, -1:])
    np.testing.assert_allclose(nv.softmax(x), expected / expected.sum(1, keepdims=True), rtol=1e-4)


def test_a_product_of_packed_copies():
    """Of an operand that TMA can't read and a product that is copied first, into memory beside it."""
    a, b = lying(300 * 64, 2, np.float16).reshape(300, 64), lying(64 * 200, 0, np.float16).reshape(64, 200)
    a[...], b[...] = a % 5, b % 7
    np.testing.assert_array_equal(nv.matmul(a, b), (a.astype(np.float64) @ b).astype(np.float16))


def test_an_unknown_setting(monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_ARRAYS", "gpu")
    with pytest.raises(ArgumentError, match=r"NVDSL_SIM_ARRAYS=gpu(.|\n)*use device or host"):
        nv.softmax(np.zeros((1, 8), np.float32))
