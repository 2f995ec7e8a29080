"""What a launch promises: staging, devices' own arrays, streams, scalars, clusters, errors."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.testing import in_child


@nv.jit
def scale(x, y, factor):
    (n,) = x.shape

    @nv.kernel(grid=nv.cdiv(n, 128), block=128)
    def kernel():
        i = nv.block_id.x * 128 + nv.thread_id.x
        if i < n:
            y[i] = x[i] * y.dtype(factor)

    kernel()


@in_child(timeout=60)
def test_numpy_comes_back_only_where_it_is_written():
    x, y = np.arange(1000, dtype=np.float32), np.full(1000, np.nan, np.float32)
    x.flags.writeable = False  # a read-only array may be read
    scale(x, y, 3.0)
    np.testing.assert_array_equal(y, 3 * x)


@in_child(timeout=60)
def test_read_only_output_is_refused():
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    y.flags.writeable = False
    with pytest.raises(nv.ArgumentError, match="y"):
        scale(x, y, 3.0)


@in_child(timeout=60)
def test_scalars_of_every_dtype():
    @nv.jit
    def store(out, value):
        @nv.kernel(grid=1, block=1)
        def kernel():
            out[0] = value

        kernel()

    cases = [
        (nv.f64, np.float64(1 / 3)), (nv.f32, np.float32(1 / 3)), (nv.f16, np.float16(1 / 3)),
        (nv.bf16, nv.bf16.numpy.type(1 / 3)), (nv.i64, np.int64(-(2**40))), (nv.i32, np.int32(-7)),
        (nv.i16, np.int16(-300)), (nv.i8, np.int8(-5)), (nv.u64, np.uint64(2**63 + 1)), (nv.u32, np.uint32(2**31 + 3)),
        (nv.u16, np.uint16(65535)), (nv.u8, np.uint8(255)), (nv.bool_, np.bool_(True)), (nv.i32, 42), (nv.f32, 0.5),
        (nv.i64, 2**40), (nv.bool_, True),
    ]  # fmt: skip
    for dtype, value in cases:
        out = np.zeros(1, dtype.numpy)
        store(out, value)
        assert out[0] == value, (dtype, value, out)


@in_child(timeout=90)
def test_torch_in_place_on_a_user_stream():
    torch = pytest.importorskip("torch")
    x = torch.randn(1 << 20, device="cuda")
    y = torch.full_like(x, float("nan"))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # the copy below must come after what the stream already has
        x.mul_(2)
        scale(x, y, 3.0)  # on the current stream
        z = y + 1
    stream.synchronize()
    assert torch.equal(y, x * 3)
    assert torch.equal(z, y + 1)
    w = torch.full_like(x, float("nan"))
    torch.cuda.synchronize()
    scale(x, w, 5.0, stream=stream)
    stream.synchronize()
    assert torch.equal(w, x * 5)


@in_child(timeout=90)
def test_cupy_and_jax():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.full(1000, cupy.nan, cupy.float32)
    scale(x, y, 3.0)
    assert (y == 3 * x).all()
    jax = pytest.importorskip("jax")
    xj = jax.numpy.arange(1000, dtype=jax.numpy.float32)
    scale(xj, y, 5.0)  # JAX arrays are read in place
    assert (y == 5 * x).all()
    with pytest.raises(nv.ArgumentError, match="read-only"):
        scale(x, xj, 1.0)


@in_child(timeout=60)
def test_a_failing_kernel_is_an_error():
    @nv.jit
    def wild(x):
        @nv.kernel(grid=1, block=1)
        def kernel():
            x[nv.i64(1) << 40] = 1.0

        kernel()

    x = np.zeros(4, np.float32)
    with pytest.raises(nv.DeviceError, match="ILLEGAL_ADDRESS|illegal"):
        wild(x)


@in_child(timeout=60)
def test_print_from_a_kernel(capfd=None):
    @nv.jit
    def hello(n):
        @nv.kernel(grid=1, block=1)
        def kernel():
            print("n is", n)

        kernel()

    hello(7)
    nv.synchronize()


@in_child(timeout=60)
def test_programmatic_dependent_launch():
    @nv.jit
    def reverse(x, y):
        @nv.kernel(grid=64, block=256)
        def first():
            nv.griddep_launch_dependents()
            i = nv.block_id.x * 256 + nv.thread_id.x
            nv.nanosleep(20000)
            x[i] = i

        @nv.kernel(grid=64, block=256, programmatic=True)
        def second():
            nv.griddep_wait()  # the grid before may still run: without this, x could be read too early
            i = nv.block_id.x * 256 + nv.thread_id.x
            y[i] = x[16383 - i]

        first()
        second()

    x, y = np.full(16384, -1, np.int32), np.full(16384, -1, np.int32)
    reverse(x, y)
    np.testing.assert_array_equal(y, np.arange(16384)[::-1])
