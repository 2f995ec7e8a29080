"""Tensor maps that cuTensorMapEncodeTiled would refuse, refused when they are traced."""

import pytest

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.tensormap import TensorMap
from nvdsl.verify.tensor_maps import describe
from nvdsl.verify.walk import find
from tests.unit.kernels import array, refused


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
