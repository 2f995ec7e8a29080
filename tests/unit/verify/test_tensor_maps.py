"""Tensor maps that cuTensorMapEncodeTiled would refuse, refused when they are traced."""

import pytest

import nvdsl as nv
from nvdsl.hopper.tensor_maps import TensorMap
from nvdsl.ir.walk import find
from nvdsl.mlir import ir
from nvdsl.ops.tma import L2_EVICT_LAST
from nvdsl.verify.tensor_maps import describe
from tests.unit.kernels import array, refused
from tests.unit.verify.verdicts import line


def tma(x, tile, **options):
    """Traces a host function that makes a tensor map of ``x`` and launches nothing."""

    def host(x):
        nv.TMA(x, tile=tile, **options)

    return nv.jit(host).trace(x)


LEGAL = {
    "a box of 256": (array(nv.f16, 512, 512), (256, 64), {"swizzle": 128}),
    "a row of 16 bytes": (array(nv.f16, 64, 64), (8, 8), {}),
    "rows with gaps": (array(nv.f16, 64, 60, strides=(72, 1)), (8, 32), {}),
    "larger than the array": (array(nv.f32, 4, 8), (8, 32), {}),
    "five axes": (array(nv.f32, 2, 2, 2, 2, 64), (1, 1, 1, 2, 64), {}),
    "NaN beyond the edge": (array(nv.bf16, 64, 64), (8, 64), {"fill": "nan"}),
}
REFUSED = {
    "a box of 257": (array(nv.f16, 512, 512), (257, 64), {"swizzle": 128}, "257 elements: 1 to 256"),
    "a row of 512 elements": (array(nv.f16, 512, 512), (8, 512), {}, "512 elements: 1 to 256"),
    "a row of 8 bytes": (array(nv.f16, 64, 64), (8, 4), {}, "multiple of 16 bytes"),
    "rows of 66 bytes": (array(nv.f16, 64, 33), (8, 32), {}, "66 bytes"),
    "a strided row": (array(nv.f16, 64, 64, strides=(128, 2)), (8, 32), {}, "contiguous, stride 1"),
    "a transposed array": (array(nv.f16, 64, 64, strides=(1, 64)), (8, 32), {}, "contiguous, stride 1"),
    "NaN beyond the edge of integers": (array(nv.i32, 64, 64), (8, 32), {"fill": "nan"}, "NaN"),
    "six axes": (array(nv.f32, 1, 1, 1, 1, 1, 64), (1, 1, 1, 1, 1, 64), {}, "rank 6"),
}


@pytest.mark.parametrize(("x", "tile", "options"), LEGAL.values(), ids=list(LEGAL))
def test_legal(x, tile, options):
    tma(x, tile, **options)


@pytest.mark.parametrize(("x", "tile", "options", "says"), REFUSED.values(), ids=list(REFUSED))
def test_refused(x, tile, options, says):
    error = refused(lambda: tma(x, tile, **options), tma)
    assert isinstance(error, nv.NvdslError)
    assert says in str(error)
    assert error.fix


def test_every_broken_rule_is_told():
    with pytest.raises(nv.VerifyError) as caught:
        tma(array(nv.f16, 64, 33), (300, 4))
    for problem in ("300 elements", "8 bytes", "66 bytes"):
        assert problem in caught.value.message


def described(text):
    with ir.Context():
        module = ir.Module.parse(text)
        (op,) = find(module, "nvgpu.tma.create.descriptor")
        return describe(op)


MODES = "swizzle = swizzle_64b, l2promo = l2promo_256b, oob = nan, interleave = none"


def descriptor(source, box="%c8, %c32", body=""):
    return f"""func.func @f(%x: {source}, %n: index) {{
      %c8 = arith.constant 8 : index
      %c32 = arith.constant 32 : index
      %cast = memref.cast %x : {source} to memref<*xf16>
      %map = nvgpu.tma.create.descriptor %cast box[{box}]
        : memref<*xf16> -> !nvgpu.tensormap.descriptor<tensor = memref<8x32xf16, 3>, {MODES}>
      return }}"""


def test_a_tensor_map_is_read_from_its_op():
    expected = TensorMap("f16", (64, 32), (40, 1), (8, 32), "swizzle_64b", "l2promo_256b", "nan", "none")
    assert described(descriptor("memref<64x32xf16, strided<[40, 1]>>")) == expected


@pytest.mark.parametrize(
    "text",
    [
        descriptor("memref<?x32xf16>"),
        descriptor("memref<64x32xf16, strided<[?, 1]>>"),
        descriptor("memref<64x32xf16>", box="%n, %c32"),
    ],
    ids=["shape", "strides", "box"],
)
def test_what_is_known_at_run_time_only_is_left_to_the_driver(text):
    assert described(text) is None


# --- stores past the end


def copied(x, op, tile, part):
    """Traces a kernel that copies through a tensor map of ``part(x)``."""

    def host(x):
        x_tma = nv.TMA(part(x) if part else x, tile=tile)  # map
        shape = (tile,) if isinstance(tile, int) else tile
        hint = L2_EVICT_LAST if "hint" in op else None

        @nv.kernel(grid=2, block=32)
        def kernel():
            memory = nv.smem(shape, x.dtype)
            at = (*(0 for _ in shape[1:]), nv.block_id.x * 64)
            full = nv.Mbarriers(1, arrivals=1)[0]
            if nv.thread_id.x == 0:
                if op == "load":
                    full.arrive_expect_tx(x_tma.bytes)
                    x_tma.load(memory, full, at)
                elif op == "reduce":
                    x_tma.reduce_add(memory, at)
                else:
                    x_tma.store(memory, at, l2_hint=hint)
            if op == "load":
                full.wait(0)

        kernel()

    nv.jit(host).trace(x)


def in_a_wider(width, cols):
    return lambda x: nv.empty((width,), x.dtype)[:cols]


@pytest.mark.parametrize("op", ["store", "store with a hint", "reduce"])
@pytest.mark.parametrize(
    ("x", "tile", "part"),
    [
        (array(nv.f16, 100), 64, None),
        (array(nv.f16, 1, 100), (1, 64), None),
        (array(nv.f16, 108), 64, lambda x: x[8:]),  # the rest is in front of it
        (array(nv.f16, 3, 100, strides=(0, 1)), (1, 64), None),
    ],
    ids=["one axis", "one row", "the end of an array", "one row for all"],
)
def test_a_store_that_can_reach_past_the_end_is_refused(x, tile, part, op):
    with pytest.raises(nv.VerifyError) as caught:
        copied(x, op, tile, part)
    error = caught.value
    assert error.where.line == line(copied, "# map") and error.where.file == __file__
    what = "TMA reduction" if op == "reduce" else "TMA store"
    assert f"a {what} through this tensor map of" in error.message and "8 bytes past the array's end" in error.message
    assert "at 104 elements, not at 100" in error.rule
    assert "x[..., :100] of an array of 104 columns" in error.fix and "first 96 and store the other 4" in error.fix


@pytest.mark.parametrize(
    ("x", "op", "tile", "part"),
    [
        (array(nv.f16, 100), "load", 64, None),
        (array(nv.f16, 104), "store", 64, None),
        (array(nv.f16, 100), "store", 64, lambda x: x[:96]),
        (array(nv.f16, 200), "store", 64, lambda x: x[:100]),
        (array(nv.f16, 1), "store", 64, in_a_wider(104, 100)),
        (array(nv.f16, 3, 100, strides=(104, 1)), "store", (1, 64), None),
        (array(nv.f16, 3, 104), "store", (1, 64), lambda x: x[2:, :100]),
    ],
    ids=["a load", "whole units", "a whole part", "the start", "a padded array", "padded rows", "the last row"],
)
def test_a_store_that_stays_in_the_array_is_not(x, op, tile, part):
    copied(x, op, tile, part)
