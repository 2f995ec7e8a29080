"""Every traced index is checked in each dimension, though what lies beyond is other shared memory of the block."""

import inspect

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from tests.sim.simulate import traced, verdict_of, zeros
from tests.unit.kernels import array


@nv.jit
def rows(x, out, *, over=0, down=0):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        tile = nv.smem((4, 64), x.dtype)
        behind = nv.smem((4, 64), x.dtype)
        for i in nv.range(4):
            tile[i, t] = x[i, t]
            behind[i, t] = -1.0
        nv.sync_threads()
        for i in nv.range(4):
            out[i, t] = tile[i + down, t + over]  # here

    body()


@nv.jit
def transposed(x, out, *, over=0):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        tile = nv.smem((4, 64), x.dtype).T
        nv.smem((4, 64), x.dtype)
        for i in nv.range(4 + over):
            tile[t, i] = x[0, t]  # here
        nv.sync_threads()
        out[0, t] = tile[t, 0]

    body()


@nv.jit
def stages(x, out, *, over=0):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        stack = nv.smem((2, 4, 64), x.dtype)
        nv.smem((4, 64), x.dtype)
        for stage in nv.range(2 + over):
            stack[stage][0, t] = x[stage, t]  # here
        nv.sync_threads()
        out[0, t] = stack[0][0, t]

    body()


@nv.jit
def parts(x, out, *, over=0):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        tile = nv.smem((32, 64), x.dtype, swizzle=128)
        nv.smem((32, 64), x.dtype, swizzle=128)
        part = tile.rows(t // 32 * 8 + over, 16)  # here
        part[0, t] = x[0, t]
        nv.sync_threads()
        out[t // 32, t] = part[0, t]

    body()


@nv.jit
def slices(x, out, *, over=0):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        first = t // 32 * 32 + over
        part = x[::2, first : first + 32][1:, :]
        row = x[1:, first : first + 32][2, ::2]
        out[0, t] = part[0, t % 32] + row[t % 16]  # here

    body()


@nv.jit
def panels(x, out, *, over=0):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        tile = nv.smem((8, 64), x.dtype, swizzle=128)
        nv.smem((8, 64), x.dtype, swizzle=128)
        part = tile.cols(t // 32 * 32 + over, 32)  # here
        part[0, t % 32] = x[0, t]
        nv.sync_threads()
        out[0, t] = part[0, t % 32]

    body()


@nv.jit
def pointers(x, out, *, over=0):
    @nv.kernel(grid=1, block=32)
    def body():
        t = nv.thread_id.x
        tile = nv.smem((8, 32), nv.f16)
        nv.smem((8, 32), nv.f16)
        nv.stmatrix(tile.pointer(t % 8 * 64 + over), [nv.i32(0)])  # here
        nv.sync_warp()
        out[0, t] = nv.f32(tile[0, t % 8])

    body()


@nv.jit
def vectors(x, out, *, over=0):
    @nv.kernel(grid=1, block=4)
    def body():
        t = nv.thread_id.x
        four = x.load_vector((0, t * 4), 4)
        out[0, t] = four[t + over]  # here

    body()


@nv.jit
def views(x, out, *, over=0):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        part = x.view((0, t // 32 * 32 + over), (4, 32))
        for i in nv.range(4):
            out[i, t] = part[i, t % 32]  # here

    body()


@nv.jit
def mbarriers(x, out, *, over=0):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        bars = nv.Mbarriers(2, arrivals=32)
        nv.Mbarriers(2, arrivals=32)
        bars[t // 32 + over].arrive()  # here
        out[0, t] = x[0, t]

    body()


WRONG = [
    (rows, {"over": 1}, "index (0, 64) of a tile of 4x64 f32: the last one on axis 1 is 63"),
    (rows, {"over": -1}, "index (0, -1) of a tile of 4x64 f32"),
    (rows, {"down": 1}, "of a tile of 4x64 f32: the last one on axis 0 is 3"),
    (rows, {"down": -1}, "index (-1, "),
    (transposed, {"over": 1}, "of a tile of 4x64 f32: the last one on axis 0 is 3"),
    (stages, {"over": 1}, "index 2 of a stack of 2 tiles: the last one is 1"),
    (parts, {"over": 16}, "index 24 of the first of 16 rows of a tile of 32x64 f32: the last one is 16"),
    (panels, {"over": 32}, "index 64 of the first of 32 cols of a tile of 8x64 f32: the last one is 32"),
    (pointers, {"over": 128}, "index 512 of the 512 bytes of a tile of 8x32 f16: the last one is 511"),
    (vectors, {"over": 1}, "index 4 of a vector of 4 elements: the last one is 3"),
    (vectors, {"over": -1}, "index -1 of a vector of 4 elements"),
]
UNKNOWN_TO_THE_VERIFIER = [
    (views, {"over": 1}, "index 64 on axis 1 of an array (through a view) of 4 x 64"),
    (slices, {"over": 1}, "index 64 on axis 1 of an array (through a view) of 4 x 64"),
]
BY_THE_SIMULATOR = [*WRONG, *UNKNOWN_TO_THE_VERIFIER, (mbarriers, {"over": 1}, "of a group of 2")]
KERNELS = [rows, transposed, stages, parts, panels, pointers, vectors, views, slices, mbarriers]


def here(kernel):
    lines, first = inspect.getsourcelines(kernel._function)
    return first + next(i for i, one in enumerate(lines) if "# here" in one)


def arguments():
    return np.ones((4, 64), np.float32), zeros(4, 64)


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_indices_within(kernel, level):
    if kernel is not mbarriers or level == "traced":
        assert verdict_of(traced(kernel, *arguments()), sim.Options(level=level)) is None


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize(("kernel", "how", "says"), BY_THE_SIMULATOR, ids=lambda x: getattr(x, "__name__", None))
def test_an_index_beyond(kernel, how, says, level):
    if kernel is mbarriers and level == "nvvm":
        return  # their numbers are addresses there
    for order in ("forward", "random"):
        error = verdict_of(traced(kernel, *arguments(), **how), sim.Options(level=level, order=order))
        assert error is not None and error.kind == "out-of-bounds", error
        assert error.where.line == here(kernel) and error.rule and error.fix
        assert says in error.message or order == "random"


@pytest.mark.parametrize(("kernel", "how", "says"), [*WRONG, (mbarriers, {"over": 1}, "mbarrier 2 of `bars`")])
def test_the_verifier_knows_it(kernel, how, says):
    kernel.trace(array(nv.f32, 4, 64), array(nv.f32, 4, 64))
    with pytest.raises(nv.VerifyError) as caught:
        kernel.trace(array(nv.f32, 4, 64), array(nv.f32, 4, 64), **how)
    assert caught.value.where.line == here(kernel) and caught.value.rule and caught.value.fix


def test_a_part_starts_at_a_multiple():
    error = verdict_of(traced(parts, *arguments(), over=4))
    assert error.kind == "misaligned" and "index 4 of the first of 16 rows" in error.message
    assert "no multiple of 8" in error.message
    with pytest.raises(nv.VerifyError, match="no multiple of 8"):
        parts.trace(array(nv.f32, 4, 64), array(nv.f32, 4, 64), over=4)


def test_a_guarded_index_may_be_anything():
    """What an index would be where its access is not executed doesn't matter."""

    @nv.jit
    def guarded(x, out):
        @nv.kernel(grid=1, block=64)
        def body():
            t = nv.thread_id.x
            tile = nv.smem((4, 32), x.dtype)
            stack = nv.smem((2, 4, 32), x.dtype)
            for i in nv.range(-1, 5):
                if t < 32 and i >= 0 and i < 4:
                    tile[i, t] = x[i, t]
                if i >= 0 and i < 2 and t < 32:
                    stack[i][0, t] = 1.0
            nv.sync_threads()
            if t < 32:
                out[0, t] = tile[0, t] + stack[1][0, t]

        body()

    guarded.trace(array(nv.f32, 4, 64), array(nv.f32, 4, 64))
    for order in ("forward", "reverse"):
        assert verdict_of(traced(guarded, *arguments()), sim.Options(order=order)) is None
