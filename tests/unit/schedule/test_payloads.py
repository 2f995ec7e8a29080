"""Which end of a schedule takes which payload: the table of docs/schedules.md, cell by cell."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import schedule as sc
from nvdsl.errors import ScheduleError
from tests.exhaustive import sample
from tests.unit.schedule.products import numbers, product, relu

ROOT = Path(__file__).resolve().parents[3]
TABLE = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "schedules.md").read_text().splitlines()
    if line.startswith("|") and line.count("|") == 7
]
HEAD, _, *ROWS = TABLE
ENDS = [one.strip("`") for one in HEAD[1:]]
CELLS = {(row[0], end): cell for row in ROWS for end, cell in zip(ENDS, row[1:], strict=True)}

F16_SUMS = {"sums": nv.f16, "to": "f2"}
BF16 = {"dtype": nv.bf16, "of": nv.bf16.numpy}
F32 = {"dtype": nv.f32, "of": "f4"}
OF_A = {"of_a": lambda x: nv.max(x * nv.f16(2.0), nv.f16(1.0)), "reference": lambda a, b, c: np.maximum(2 * a, 1) @ b}
PAYLOADS = {
    "f16, f32 sums": {},
    "f16, f16 sums": F16_SUMS,
    "bf16, f32 sums": BF16,
    "f32": F32,
    "f32, B transposed": {**F32, "transpose_b": True, "reference": lambda a, b, c: a @ b.T},
    "A transposed": {"transpose_a": True, "reference": lambda a, b, c: a.T @ b},
    "both transposed, a batch": {
        "transpose_a": True, "transpose_b": True, "batch": 2,
        "reference": lambda a, b, c: a.swapaxes(-1, -2) @ b.swapaxes(-1, -2),
    },
    "sums that go on in C": {"add": True, "reference": lambda a, b, c: a @ b + c},
    "any extents": {"m": 35, "n": 37, "k": 65},
    "arithmetic behind the product": {
        "then": lambda x, bias: relu(x * 2.0 + bias), "operands": ["n"],
        "reference": lambda a, b, e, c: np.maximum(2 * (a @ b) + e, 0),
    },
    "any function behind the product": {
        "then": lambda x, bias: nv.max(nv.math.exp2(x * 0.0) * x, bias), "operands": ["m"],
        "reference": lambda a, b, e, c: np.maximum(a @ b, e[:, None]),
    },
    "a function of A": OF_A,
    "a function of A, K no multiple of its tile": {**OF_A, "k": 72},
}  # fmt: skip


def steps(end, dtype):
    """Small tiles."""
    if end == "fma_steps":
        return sc.fma_steps((16, 32, 16), (4, 8))
    if end == "simt_steps":
        return sc.simt_steps((16, 32, 16), (4, 16), (4, 4), dtype, stages=1)
    if end == "wgmma_steps":
        return sc.wgmma_steps((64, 32 if dtype is nv.f32 else 64, 128 // dtype.bytes), 2, 1)
    make = sc.wmma_steps if end == "wmma_steps" else sc.mma_steps
    return make((32, 64, 32), (32, 32), nv.f16 if end == "wmma_steps" and dtype is nv.bf16 else dtype)


def test_the_table_has_every_payload_and_every_end():
    ends = [name for name in sc.__all__ if name.endswith("_steps")]
    assert {*CELLS} == {*itertools.product(PAYLOADS, ends)}


@pytest.mark.parametrize(("payload", "end"), sample(itertools.product(PAYLOADS, ENDS), 9))
def test_what_the_table_says(payload, end):
    what = {"m": 32, "n": 64, "k": 64, **PAYLOADS[payload]}
    says = CELLS[payload, end]
    refused = re.fullmatch(r"`(\w+)`", says)
    if refused:
        with pytest.raises(ScheduleError, match=rf"step {refused[1]}\("):
            product(steps(end, what.get("dtype", nv.f16)), **what)
    else:
        assert says in ("yes", "as tf32")
        assert product(steps(end, what.get("dtype", nv.f16)), **what) == 0


@pytest.mark.parametrize("make", [sc.wmma_steps, sc.mma_steps])
def test_cp_async_changes_nothing(make):
    with pytest.raises(ScheduleError, match=r"step (copy_async|mma_sync)\("):
        sc.compile(sc.matmul(32, 64, 64, of_b=OF_A["of_a"]), make((32, 64, 32), (32, 32), stages=3))


def test_what_is_made_of_a_has_a_place_in_shared_memory():
    without = ("stage", "merge_barriers", "copies")
    with pytest.raises(ScheduleError, match=r"step finish\(\): a buffer in global memory"):
        sc.compile(sc.matmul(16, 32, 16, of_a=OF_A["of_a"]), sc.fma_steps((16, 32, 16), (4, 8), without=without))


NAMED = """
func.func @f(%A: tensor<40x64xf16>, %B: tensor<64x56xf16>, %bias: tensor<56xf32>, %R: tensor<40x56xf32>,
             %C: tensor<40x56xf32> {bufferization.writable = true}) -> tensor<40x56xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%C : tensor<40x56xf32>) -> tensor<40x56xf32>
  %a = tensor.empty() : tensor<40x64xf16>
  %minus = linalg.negf ins(%A : tensor<40x64xf16>) outs(%a : tensor<40x64xf16>) -> tensor<40x64xf16>
  %p = linalg.matmul ins(%minus, %B : tensor<40x64xf16>, tensor<64x56xf16>)
                     outs(%start : tensor<40x56xf32>) -> tensor<40x56xf32>
  %e = tensor.empty() : tensor<40x56xf32>
  %rows = linalg.broadcast ins(%bias : tensor<56xf32>) outs(%e : tensor<40x56xf32>) dimensions = [0]
  %q = linalg.add ins(%p, %rows : tensor<40x56xf32>, tensor<40x56xf32>)
                  outs(%C : tensor<40x56xf32>) -> tensor<40x56xf32>
  %r = linalg.add ins(%q, %R : tensor<40x56xf32>, tensor<40x56xf32>) outs(%C : tensor<40x56xf32>) -> tensor<40x56xf32>
  return %r : tensor<40x56xf32>
}"""


def test_operations_with_names():
    a, b, bias, more, c = (numbers(shape, kind, seed) for seed, (shape, kind) in enumerate((
        ((40, 64), "f2"), ((64, 56), "f2"), ((56,), "f4"), ((40, 56), "f4"), ((40, 56), "f4"),
    )))  # fmt: skip
    sc.compile(sc.payload(NAMED), sc.wmma_steps((32, 64, 32), (32, 32)))(a, b, bias, more, c, target="sim")
    np.testing.assert_array_equal(c, -np.float32(a) @ np.float32(b) + bias + more)
