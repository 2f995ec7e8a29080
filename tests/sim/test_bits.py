"""Bits of integers beside Python's: of each type, alone, in vectors and in fragments, at both levels."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from tests.sim.simulate import run

TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@nv.jit
def bits(x: nv.Array, ones: nv.Array, zeros: nv.Array, turned: nv.Array, pair: nv.Array) -> None:
    @nv.kernel(grid=1, block=64)
    def kernel() -> None:
        t = nv.thread_id.x
        ones[t], zeros[t], turned[t] = nv.popc(x[t]), nv.clz(x[t]), nv.brev(x[t])
        pair.store_vector(nv.popc(nv.brev(x.vector(2 * (t // 2), 2))), 2 * (t // 2))

    kernel()


def check(launch, dtype):
    """``launch(bits, *arrays)`` beside Python."""
    width = 8 * np.dtype(dtype).itemsize
    rng = np.random.default_rng(width)
    drawn = [int(rng.integers(2**63)) >> int(rng.integers(63)) for _ in range(60)]
    given = [0, 1, 2**width - 1, 1 << (width - 1), *drawn]
    x = np.array([n % 2**width for n in given], np.uint64).astype(dtype)
    ones, zeros, pair = (np.zeros(64, np.int32) for _ in range(3))
    turned = np.zeros_like(x)
    launch(bits, x, ones, zeros, turned, pair)
    words = [f"{n % 2**width:0{width}b}" for n in given]
    assert ones.tolist() == pair.tolist() == [word.count("1") for word in words]
    assert zeros.tolist() == [width - len(word.lstrip("0")) for word in words]
    assert turned.tolist() == np.array([int(word[::-1], 2) for word in words], np.uint64).astype(dtype).tolist()


@pytest.mark.parametrize("level", ["traced", "nvvm"])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
def test_as_python_counts_them(dtype, level):
    check(lambda *given: run(*given, options=sim.Options(level=level)), dtype)


def test_of_a_fragment():
    @nv.jit
    def signs(x, y):
        @nv.kernel(grid=1, block=128)
        def kernel():
            nv.clz(nv.bitcast(nv.fragment(x, (0, 0), (64, 8)), nv.u32)).store(y, (0, 0))

        kernel()

    x, y = np.random.default_rng(0).standard_normal((64, 8), np.float32), np.zeros((64, 8), np.int32)
    signs(x, y, target="sim")
    np.testing.assert_array_equal(y == 0, x < 0)


@pytest.mark.parametrize(
    ("wrong", "said"), [(lambda t: 5, "popc of 5"), (nv.f32, "popc of f32"), (lambda t: t < 3, "popc of bool_")]
)
def test_what_has_no_bits_to_count(wrong, said):
    @nv.jit
    def count(y):
        @nv.kernel(grid=1, block=32)
        def kernel():
            y[0] = nv.popc(wrong(nv.thread_id.x))

        kernel()

    with pytest.raises(nv.TraceError, match=said) as caught:
        count(np.zeros(1, np.int32), target="sim")
    assert caught.value.fix
