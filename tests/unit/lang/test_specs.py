"""What specifications say of themselves: the instruction, the reasons of the others; and what is refused."""

import pytest

import nvdsl as nv
from nvdsl.ir.walk import find
from nvdsl.lang.threads import Threads
from nvdsl.layout import Layout, mma_a, mma_b, mma_c
from tests.unit.kernels import array, refused, trace


def lines(make, *arguments, block=128):
    """What `explain` says of the specification that ``make`` makes in a kernel, by the instruction's name."""
    said = []

    def body(*given):
        said.extend(make(*given).explain().splitlines()[1:])

    trace(body, *arguments, block=block)
    return {line.strip(" ->").partition(":")[0]: line for line in said}


def taken(found):
    (line,) = [line for line in found.values() if line.startswith("->")]
    return line


def warp():
    return nv.spec.threads().tile(32)


def tile(rows=16, cols=64, dtype=nv.f16, swizzle=128):
    return nv.smem((rows, cols), dtype, swizzle=swizzle)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: nv.spec.move(tile(), mma_a(2, 64), warp()), "-> ldmatrix: 4 x 16 bytes a thread, no bank conflicts"),
        (lambda: nv.spec.move(tile(swizzle=0), mma_a(2, 64), warp()), "ldmatrix: 4 x 16 bytes a thread, 8-way"),
        (lambda: nv.spec.move(tile(16, 72, swizzle=0), mma_a(2, 72), warp()), "-> ldmatrix: 5 x 16 bytes a thread, no"),
        (lambda: nv.spec.move(tile(64, 16, swizzle=32).T, mma_a(2, 64), warp()), "-> ldmatrix"),
        (lambda: nv.spec.move(tile(8, 32, nv.f32, 128).T, mma_b(4, 32), warp()), "-> ldmatrix"),
        (lambda: nv.spec.move(tile(32, 16, nv.f32, 64), mma_b(4, 32, 16), warp()), "-> scalar"),
        (lambda: nv.spec.move(tile(16, 8, nv.f64, 64), mma_a(8, 8), warp()), "-> scalar: 4 x 8 bytes a thread"),
        (lambda: nv.spec.move(tile(16, 16, nv.f32, 0), mma_c(16, 16), warp()), "-> vector: 4 x 8 bytes a thread"),
        (lambda: nv.spec.move(tile(), mma_a(2, 64), nv.spec.threads().tile(Layout(32, 4))), "-> vector: 16 x 4 bytes"),
    ],
)
def test_moves_to_registers(make, says):
    assert says in taken(lines(make))


def test_why_not_ldmatrix():
    assert "ldmatrix is executed by whole warps" in lines(
        lambda: nv.spec.move(tile(), mma_a(2, 64), nv.spec.threads().tile(Layout(32, 4)))
    )["ldmatrix"]
    assert "this is global memory" in lines(
        lambda x: nv.spec.move(x, mma_a(2, 16), warp()), array(nv.f16, 16, 16)
    )["ldmatrix"]
    assert "transposed, it moves 16-bit elements only" in lines(
        lambda: nv.spec.move(tile(32, 16, nv.f32, 64), mma_b(4, 32, 16), warp())
    )["ldmatrix"]


@pytest.mark.parametrize(
    ("threads", "dtype", "name"),
    [
        (lambda: nv.spec.threads(), nv.f32, "block"),
        (lambda: nv.spec.threads(), nv.i32, "block"),
        (lambda: warp(), nv.i32, "redux"),
        (lambda: warp(), nv.f32, "shuffle"),
        (lambda: warp().tile(4), nv.i32, "shuffle"),
        (lambda: warp().tile(1), nv.i32, "thread"),
    ],
)
def test_reductions(threads, dtype, name):
    assert taken(lines(lambda x: nv.spec.reduce("sum", x[0], threads()), array(dtype, 1))).startswith(f"-> {name}")


def test_products():
    def of_a_warp():
        return nv.spec.mma(nv.warp_accumulator(16, 8), tile(), tile(8, 64).T, warp())

    def of_a_warpgroup():
        return nv.spec.mma(nv.accumulator(64, 8), tile(64), tile(8, 64).T, nv.spec.threads())

    def of_dense_tiles():
        return nv.spec.mma(nv.accumulator(64, 8), tile(64, swizzle=0), tile(8, 64).T, nv.spec.threads())

    def of_other_registers():
        left = nv.spec.move(tile(64, 16, swizzle=32), nv.layout.wgmma_accumulator(16), nv.spec.threads())()
        return nv.spec.mma(nv.accumulator(64, 8), left, tile(8, 16, swizzle=32).T, nv.spec.threads())

    assert "A's registers are not those of layout.wgmma_a" in lines(of_other_registers)["wgmma"]
    assert taken(lines(of_a_warp)) == "-> mma.sync: 4 a thread"
    assert taken(lines(of_a_warpgroup)) == "-> wgmma: 4 a thread"
    found = lines(of_dense_tiles)
    assert "a tile of it has the layout of a swizzle" in found["wgmma"]
    assert not any(line.startswith("->") for line in found.values())


def test_nothing_is_emitted_before_the_call():
    def body():
        t = tile()
        nv.spec.move(t, mma_a(2, 64), warp()).explain()
        nv.spec.mma(nv.warp_accumulator(16, 8), t, tile(8, 64).T, warp()).explain()

    module = trace(body)
    assert not find(module, "nvvm.ldmatrix") and not find(module, "nvvm.mma.sync")


def test_threads():
    block = Threads(Layout(128))
    warps = block.tile(32)
    assert (warps.size, warps.count, warps.are_warps) == (32, 4, True)
    assert warps.members == Layout(32, 1) and warps.groups == Layout(4, 32)
    shaped = warps.reshape(2, 2, 8)
    assert shaped.members == Layout((2, 2, 8), (1, 2, 4)) and shaped.shape == (2, 2, 8)
    octets = warps.tile(Layout((4, 2), (1, 16)))
    assert (octets.size, octets.count, octets.are_warps) == (8, 16, False)
    assert str(octets) == "8 threads of 16 groups" and str(block) == "128 threads"
    assert block.reshape(8, 16).tile((4, 8)).members == Layout((4, 8), (1, 8))
    with pytest.raises(nv.TraceError, match="as many threads"):
        block.reshape(3, 5)
    with pytest.raises(nv.NvdslError):
        block.tile(48)


REFUSED = {
    "shapes": (lambda: nv.spec.move(tile(), tile(32), nv.spec.threads()), "both sides of a move have one shape"),
    "threads of a layout": (
        lambda: nv.spec.move(tile(), mma_a(2, 64), nv.spec.threads()),
        "a move to registers of 32 threads by 128",
    ),
    "more threads than there are": (lambda: nv.spec.threads(256), "a group has threads of the block"),
    "using": (
        lambda: nv.spec.move(tile(32, 16, nv.f32, 64), mma_b(4, 32, 16), warp())(using="ldmatrix"),
        "transposed, it moves 16-bit elements only",
    ),
    "an instruction of another kind": (
        lambda: nv.spec.move(tile(), mma_a(2, 64), warp())(using="wgmma"),
        "the instructions for it are ldmatrix, vector, scalar",
    ),
    "parts that don't divide": (
        lambda: list(nv.spec.move(tile(), tile(), nv.spec.threads()).tile((5, 64), warp())),
        "parts divide the whole, 16x64",
    ),
    "groups that don't divide": (
        lambda: list(nv.spec.move(tile(), tile(), nv.spec.threads()).tile((16, 64), warp())),
        "1 parts of 16x64 for 4 groups",
    ),
    "K": (
        lambda: nv.spec.mma(nv.warp_accumulator(16, 8), tile(), tile(8, 128).T, warp()),
        "(M, K) @ (K, N) -> (M, N)",
    ),
    "sums of another shape": (
        lambda: nv.spec.mma(nv.warp_accumulator(32, 8), tile(), tile(8, 64).T, warp())(),
        "the sums are 32x8, and the product is 16x8",
    ),
    "an operation": (lambda: nv.spec.reduce("mean", 1.0, warp()), "sum, max, min"),
    "an axis of a number": (lambda: nv.spec.reduce("sum", 1.0, warp(), axis=1), "along axis 0 or 1 of registers"),
    "a pointwise mixture": (
        lambda: nv.spec.pointwise(lambda x: x, [tile()], threads=warp()),
        "sources and target have one shape",
    ),
    "too few elements": (
        lambda: nv.spec.move(tile(8, 8, swizzle=0), tile(8, 8, swizzle=0), nv.spec.threads())(),
        "are not as many for each of 128 threads",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, says = REFUSED[name]

    def body():
        call()

    assert says in str(refused(lambda: trace(body), call, warp, tile))
