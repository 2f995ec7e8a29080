"""mma.sync's types, shapes and registers: what does not exist is refused at the line that asks for it."""

import pytest

import nvdsl as nv
from nvdsl.ops import mma
from tests.unit.kernels import refused_body


@pytest.mark.parametrize(
    ("m", "k", "dtype", "d_dtype", "counts"),
    [
        (16, 16, nv.f16, nv.f32, (4, 2, 4)),
        (16, 8, nv.bf16, nv.f32, (2, 1, 4)),
        (16, 16, nv.f16, nv.f16, (4, 2, 2)),
        (16, 8, nv.tf32, nv.f32, (4, 2, 4)),
        (16, 32, nv.e4m3, nv.f32, (4, 2, 4)),
        (8, 16, nv.i8, nv.i32, (1, 1, 2)),
        (8, 4, nv.f64, nv.f64, (1, 1, 2)),
        (16, 16, nv.f64, nv.f64, (8, 4, 4)),
    ],
)
def test_registers(m, k, dtype, d_dtype, counts):
    assert mma.registers(m, k, dtype, d_dtype) == counts


def words(count):
    return [nv.i32(0)] * count


def sums(count):
    return [nv.f32(0.0)] * count


REFUSED = {
    "types": (
        lambda: mma.mma_sync(words(4), words(2), sums(4), k=16, a_dtype=nv.f16, b_dtype=nv.bf16),
        "no mma.sync multiplies f16 by bf16 into f32",
    ),
    "sums": (
        lambda: mma.mma_sync(words(4), words(2), words(2), k=16, a_dtype=nv.bf16, d_dtype=nv.f16),
        "accumulate in f32",
    ),
    "shape": (lambda: mma.mma_sync(words(4), words(2), sums(4), k=32, a_dtype=nv.f16), "m16n8k8, m16n8k16"),
    "rows": (lambda: mma.mma_sync(words(4), words(2), sums(4), k=16, a_dtype=nv.f16, m=8), "m8n8k16"),
    "count": (lambda: mma.mma_sync(words(2), words(2), sums(4), k=16, a_dtype=nv.f16), "2 registers for A"),
    "kind": (lambda: mma.mma_sync(sums(4), words(2), sums(4), k=16, a_dtype=nv.f16), "register of type f32 for A"),
    "kind of C": (lambda: mma.mma_sync(words(4), words(2), words(4), k=16, a_dtype=nv.f16), "its registers are f32"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, says = REFUSED[name]
    assert says in str(refused_body(call))


def test_half_a_warp():
    error = refused_body(lambda: mma.mma_sync(words(4), words(2), sums(4), k=16, a_dtype=nv.f16), block=48)
    assert "a block of 48 threads" in str(error)
