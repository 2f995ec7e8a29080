"""Schedules without tensor cores whose sums are in registers."""

import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import schedule as sc
from nvdsl.errors import ScheduleError
from tests.unit.schedule.products import product

BLOCK, TILE, THREADS = (16, 32, 8), (4, 16), (4, 4)
F32 = {"of": "f4", "dtype": nv.f32}


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("size", [(32, 32, 24), (17, 33, 9)])
def test_f32_products(stages, size):
    assert product(sc.simt_steps(BLOCK, TILE, THREADS, stages=stages), *size, **F32) == 0


def test_vectors_of_more_bytes_than_rows_are_padded_by():
    steps = sc.simt_steps((16, 32, 8), (16, 32), (4, 4), stages=1)  # 8 elements of f32 a thread, rows longer by 4
    assert product(steps, 16, 32, 8, **F32) == 0


@pytest.mark.parametrize("what", [{"transpose_a": True}, {"transpose_b": True, "batch": 2}, {"add": True}])
def test_other_payloads(what):
    def reference(a, b, c):
        a = a.swapaxes(-1, -2) if what.get("transpose_a") else a
        b = b.swapaxes(-1, -2) if what.get("transpose_b") else b
        return a @ b + (c if what.get("add") else 0)

    assert product(sc.simt_steps(BLOCK, TILE, THREADS), 18, 20, 12, reference, **F32, **what) == 0


def test_any_function_behind_the_product_and_narrow_types():
    then = {"then": lambda x, e: nv.max(x / 4.0 + e, 0.0), "operands": ["n"]}
    steps = sc.simt_steps(BLOCK, TILE, THREADS)
    error = product(steps, 16, 32, 16, lambda a, b, e, c: np.maximum((a @ b) / 4 + e, 0), **F32, **then)
    assert error == 0
    assert product(sc.simt_steps(BLOCK, TILE, THREADS, nv.bf16), 16, 32, 16, dtype=nv.bf16, of=nv.bf16.numpy) == 0
    assert product(sc.simt_steps(BLOCK, TILE, THREADS, nv.f16), 16, 32, 16, sums=nv.f16, to="f2") == 0


def test_each_element_is_multiplied_once_in_registers():
    made = sc.compile(sc.matmul(128, 128, 256, nv.f32), sc.simt_steps((64, 64, 8), (8, 32), (8, 8)))
    shapes = [nv.ShapeDtype(shape, nv.f32) for shape in ((128, 256), (256, 128), (128, 128))]
    (kernel,) = made.compile(*shapes).kernels.values()
    loop = re.search(r"^(\$L__BB0_\d+):(.*?)bra(?:\.uni)?\s+\1", kernel.ptx, re.S | re.M).group(2)
    assert len(re.findall(r"fma\.rn\.f32", loop)) == 8 * 8 * 8 and not re.findall(r"(add|mul)\.rn\.f32", loop)
    assert len(re.findall(r"ld\.shared\.v4", loop)) == 2 * 8 + 8 * 2 and len(re.findall(r"cp\.async\.cg", loop)) == 4
    assert kernel.resources.spill_stores == 0


def test_what_does_not_fit_is_refused_with_the_steps_name():
    with pytest.raises(ScheduleError, match=r"spread\(3, 4\): tiles of 3 x 4 for threads, of 4 x 16"):
        sc.compile(sc.matmul(16, 32, 8, nv.f32), sc.simt_steps(BLOCK, TILE, (3, 4)))
    steps = sc.simt_steps(BLOCK, TILE, THREADS)
    with pytest.raises(ScheduleError, match=r"fma\(\): no products of vectors"):
        sc.compile(sc.matmul(16, 32, 8, nv.f32), [*steps[:8], sc.fma()])
