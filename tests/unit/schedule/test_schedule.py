"""Payloads and schedules: what they compute in the simulator, and what is refused with the step's name."""

import itertools
import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import schedule as sc
from nvdsl import thin
from nvdsl.errors import ScheduleError, SimError, VerifyError
from tests.exhaustive import sample
from tests.unit.schedule.products import BLOCK, WARP, difference, numbers, product, relu

OPTIONAL = ("hide_latency", "hoist_sums", "unroll", "wide", "pad", "permute", "merge_barriers")


# --- what is computed


@pytest.mark.parametrize("count", sample(range(len(OPTIONAL) + 1), 5))
def test_each_row_of_the_ablation(count):
    assert product(sc.wmma_steps(BLOCK, WARP, without=OPTIONAL[:count]), k=96) == 0


@pytest.mark.parametrize("name", sample(OPTIONAL, 3))
def test_each_step_that_may_be_left_out_alone(name):
    rest = {"hoist_sums": (), "unroll": ("hoist_sums", "hide_latency")}.get(name, ())
    assert product(sc.wmma_steps(BLOCK, WARP, without=(name, *rest))) == 0


@pytest.mark.parametrize(
    ("transpose_a", "transpose_b", "batch"), sample(itertools.product((False, True), (False, True), (None, 2)), 3)
)
def test_transposed_operands_and_batches(transpose_a, transpose_b, batch):
    def reference(a, b, c):
        return (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)

    what = {"transpose_a": transpose_a, "transpose_b": transpose_b, "batch": batch}
    assert product(sc.wmma_steps(BLOCK, WARP), m=32, reference=reference, **what) == 0


@pytest.mark.parametrize(("dtype", "sums"), [(nv.f16, nv.f16), (nv.f32, nv.f32)])
def test_types(dtype, sums):
    steps = sc.wmma_steps(BLOCK, WARP, dtype)
    assert product(steps, of=dtype.numpy, to=sums.numpy, dtype=dtype, sums=sums) == 0


@pytest.mark.parametrize(
    ("steps", "batch"),
    sample(itertools.product([sc.wmma_steps((16, 16, 16), (16, 16)), sc.fma_steps((16, 16, 8), (8, 8))], [2, None]), 2),
)
def test_elementwise_operations_and_sums_that_go_on(steps, batch):
    size = {"m": 16, "n": 16, "k": 16, "batch": batch}
    assert product(steps, reference=lambda a, b, c: a @ b + c, add=True, **size) == 0
    assert product(steps, reference=lambda a, b, c: np.maximum(a @ b, 0), then=relu, **size) == 0
    for kind, view in (("m", lambda e: e[:, None]), ("n", lambda e: e), ("mn", lambda e: e)):
        more = {"then": lambda x, e: relu(x * 2.0 + e), "operands": [kind], **size}
        assert product(steps, reference=lambda a, b, e, c, f=view: np.maximum(2 * (a @ b) + f(e), 0), **more) == 0


WITHOUT = [(), ("swizzle",), ("hide_latency", "permute"), ("merge_barriers",)]


@pytest.mark.parametrize(("level", "without"), sample(itertools.product(("traced", "nvvm"), WITHOUT), 3))
def test_mma_sync(level, without, monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_LEVEL", level)
    steps = sc.mma_steps(BLOCK, WARP, without=without)
    assert product(steps) == 0
    assert product(steps, add=True, reference=lambda a, b, c: a @ b + c) == 0
    assert product(steps, sums=nv.f16, to="f2") == 0


@pytest.mark.parametrize(
    ("level", "stages", "k"), sample(itertools.product(("traced", "nvvm"), (2, 3, 5), (32, 64, 192)), 5)
)
def test_copies_ahead(level, stages, k, monkeypatch):
    """One turn, fewer turns than buffers, and more."""
    monkeypatch.setenv("NVDSL_SIM_LEVEL", level)
    assert product(sc.mma_steps(BLOCK, WARP, stages=stages), k=k) == 0


@pytest.mark.parametrize(("dtype", "stages"), sample(itertools.product([nv.bf16, nv.f32], [1, 3]), 1))
def test_mma_sync_of_other_types(dtype, stages):
    steps = sc.mma_steps(BLOCK, WARP, dtype, stages=stages)
    assert product(steps, of=dtype.numpy, dtype=dtype) == 0
    assert product(steps, 33, 50, 41, lambda a, b, c: a.T @ b.T, of=dtype.numpy, dtype=dtype, transpose_a=True,
                   transpose_b=True) == 0  # fmt: skip
    assert product(steps, reference=lambda a, b, e, c: a @ b + e, of=dtype.numpy, dtype=dtype, then=lambda x, e: x + e,
                   operands=["n"]) == 0  # fmt: skip
    shapes = [nv.ShapeDtype((64, 64), dtype)] * 2 + [nv.ShapeDtype((64, 64), nv.f32)]
    (kernel,) = sc.compile(sc.matmul(64, 64, 64, dtype), steps).compile(*shapes).kernels.values()
    assert f".{ {'f32': 'tf32'}.get(dtype.name, dtype.name) }." in kernel.ptx and kernel.resources.spill_stores == 0


@pytest.mark.parametrize("dtype", sample([nv.f16, nv.f32], 1))
def test_copies_ahead_for_wmma(dtype):
    steps = [*sc.wmma_steps(BLOCK, WARP, dtype, without=["hide_latency"]), sc.copy_async(3)]
    assert product(steps, k=128, of=dtype.numpy, dtype=dtype) == 0
    assert product(steps, k=128, of=dtype.numpy, dtype=dtype, batch=2, transpose_a=True,
                   reference=lambda a, b, c: a.swapaxes(-1, -2) @ b) == 0  # fmt: skip


@pytest.mark.parametrize("steps", sample([
    sc.mma_steps((64, 64, 32), WARP, stages=3), sc.mma_steps((64, 64, 32), WARP, stages=3, without=["prefetch"]),
    sc.wmma_steps((64, 64, 32), WARP, stages=3),
], 1))  # fmt: skip
def test_what_is_wrong_with_copies_ahead_is_reported_at_each_place(steps):
    """Before the loop and in it; behind it a wait alone, without which a block ends before its copies."""
    lines = sc.compile(sc.matmul(64, 64, 128), steps).mlir.splitlines()
    places = [number for number, line in enumerate(lines) if "gpu.barrier" in line or "async_wait" in line]
    for place in places:
        more = re.sub(r"numGroups = (\d)", lambda found: f"numGroups = {int(found[1]) + 1}", lines[place])
        for new in {"", more} - {lines[place]}:
            text = "\n".join([*lines[:place], new, *lines[place + 1 :]])
            arrays = [numbers(shape, "f2", 0) for shape in ((64, 128), (128, 64))]
            with pytest.raises((SimError, VerifyError), match="nothing (orders|waits)|returns without waiting"):
                thin.load(text)["matmul"](*arrays, np.zeros((64, 64), np.float32), target="sim")


HOPPER = (128, 64, 64)


RINGS = [(HOPPER, 3, 2), ((64, 128, 64), 2, 1), ((192, 64, 64), 2, 3)]


@pytest.mark.parametrize(("block", "stages", "warpgroups"), sample(RINGS, 2))
def test_wgmma(block, stages, warpgroups):
    m, n, _ = block
    assert product(sc.wgmma_steps(block, stages, warpgroups), m=2 * m, n=2 * n, k=256) == 0


@pytest.mark.parametrize(
    ("m", "n", "k", "what"),
    sample([
        (130, 71, 133, {"batch": 2}), (130, 72, 136, {}), (1, 1, 1, {}), (128, 64, 64, {"transpose_a": True}),
        (136, 72, 128, {"transpose_a": True, "transpose_b": True, "batch": 2}),
        (128, 64, 64, {"batch": 2, "add": True}), (130, 64, 72, {"sums": nv.f16, "to": "f2", "add": True}),
    ], 4),
)  # fmt: skip
def test_wgmma_of_other_payloads(m, n, k, what):
    def reference(a, b, c):
        a = a.swapaxes(-1, -2) if what.get("transpose_a") else a
        b = b.swapaxes(-1, -2) if what.get("transpose_b") else b
        return a @ b + (c if what.get("add") else 0)

    assert product(sc.wgmma_steps(HOPPER, 3), m, n, k, reference, **what) == 0


@pytest.mark.parametrize("n", [24, 64])
def test_wgmma_of_f16_sums(n):
    """Lanes exchange registers of two times 8 columns; the last 8 of 24 have no partner."""
    what = {"sums": nv.f16, "to": "f2", "transpose_b": True}
    assert product(sc.wgmma_steps((64, n, 64), 2, 1), 65, 50, 72, lambda a, b, c: a @ b.T, **what) == 0


def test_wgmma_of_tf32():
    steps, what = sc.wgmma_steps((128, 64, 32), 2), {"of": "f4", "dtype": nv.f32, "transpose_b": True}
    assert product(steps, 130, 64, 68, lambda a, b, c: a @ b.T, **what) == 0
    assert product(steps, 33, 35, 37, lambda a, b, c: a @ b.T, **what) == 0


def test_wgmma_with_what_is_behind():
    size = {"m": 128, "n": 64, "k": 128}
    steps = sc.wgmma_steps(HOPPER, 2)
    assert product(steps, add=True, reference=lambda a, b, c: a @ b + c, **size) == 0
    assert product(steps, of=nv.bf16.numpy, dtype=nv.bf16, **size) == 0
    then = {"then": lambda x, e, f: nv.max(nv.math.tanh(x) + e, f), "operands": ["n", "m"]}
    error = product(steps, reference=lambda a, b, e, f, c: np.maximum(np.tanh(a @ b) + e, f[:, None]), **then, **size)
    assert error < 1e-5


def test_wgmma_compiles_without_advice(recwarn):
    made = sc.compile(sc.matmul(512, 512, 512), sc.wgmma_steps())
    shape = nv.ShapeDtype((512, 512), nv.f16)
    (kernel,) = made.compile(shape, shape, nv.ShapeDtype((512, 512), nv.f32)).kernels.values()
    assert kernel.max_threads == 384 and kernel.resources.spill_stores == 0 and not recwarn.list
    assert all(one in kernel.ptx for one in ("wgmma.mma_async", "cp.async.bulk.tensor.2d", "setmaxnreg.inc"))


@pytest.mark.parametrize(
    ("payload", "steps", "says"),
    [
        ({"dtype": nv.f32}, ((128, 64, 32), 3), "a product of f32 whose operands do not have K along their rows"),
        ({}, ((128, 64, 32), 3), "a tile of 128 x 64 x 32 for 2 warpgroups"),
        ({}, ((64, 64, 64), 3), "a tile of 64 x 64 x 64 for 2 warpgroups"),
        ({"sums": nv.f32}, ((128, 256, 64), 2, 1), "sums of 128 x 256 in a warpgroup: 256 registers"),
        ({}, (HOPPER, 1), "1 stages"),
        ({}, (HOPPER, 12), "bytes of slots"),
    ],
)
def test_what_wgmma_does_not_take(payload, steps, says):
    with pytest.raises(ScheduleError, match=rf"step wgmma\(.*\): .*{says}"):
        sc.compile(sc.matmul(128, 64, **{"k": 128, **payload}), sc.wgmma_steps(*steps))


@pytest.mark.parametrize(
    ("transpose_a", "transpose_b", "batch"), sample(itertools.product((True, False), (True, False), (None, 2)), 3)
)
def test_mma_sync_of_transposed_operands(transpose_a, transpose_b, batch):
    def reference(a, b, c):
        return (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)

    what = {"transpose_a": transpose_a, "transpose_b": transpose_b, "batch": batch}
    assert product(sc.mma_steps(BLOCK, WARP), m=32, reference=reference, **what) == 0


@pytest.mark.parametrize(("block",), sample([((32, 32, 16),), ((48, 64, 32),), ((32, 128, 64),)], 2))
def test_tiles_of_other_extents(block):
    """Rows of 32 to 256 bytes are swizzled; 48 rows are copied by fewer threads than there are."""
    without = ["hide_latency"] if block[0] == 48 else []
    steps = sc.mma_steps(block, (16, 32), without=without)
    assert product(steps, m=2 * block[0], n=block[1], k=2 * block[2]) == 0
    assert product(sc.wmma_steps(block, (16, 32), without=without), m=block[0], n=block[1], k=2 * block[2]) == 0


def test_fma_without_shared_memory_and_bf16():
    steps = sc.fma_steps((16, 32, 16), (4, 8), without=("stage", "merge_barriers", "copies"))
    assert product(steps, m=16, n=32, k=16, of=nv.bf16.numpy, dtype=nv.bf16) == 0


def test_a_payload_on_memrefs():
    types = "memref<64x32xf16>", "memref<32x64xf16>", "memref<64x64xf32>"
    text = f"""func.func @gemm(%A: {types[0]}, %B: {types[1]}, %C: {types[2]}) {{
      linalg.matmul ins(%A, %B : {types[0]}, {types[1]}) outs(%C : {types[2]})
      return }}"""
    scheduled = sc.compile(sc.payload(text), sc.wmma_steps(BLOCK, WARP))
    arrays = numbers((64, 32), "f2", 0), numbers((32, 64), "f2", 1), numbers((64, 64), "f4", 2)
    assert difference(scheduled, lambda a, b, c: a @ b + c, *arrays) == 0


# --- what is compiled


def test_what_is_compiled_has_the_instructions_and_the_stages():
    made = sc.compile(sc.matmul(256, 256, 512), sc.wmma_steps())
    shapes = [nv.ShapeDtype((256, 512), nv.f16), nv.ShapeDtype((512, 256), nv.f16), nv.ShapeDtype((256, 256), nv.f32)]
    compiled = made.compile(*shapes)
    (kernel,) = compiled.kernels.values()
    assert kernel.max_threads == 256 and kernel.resources.spill_stores == 0
    loop = re.search(r"^(\$L__BB0_\d+):(.*?)bra(?:\.uni)?\s+\1", kernel.ptx, re.S | re.M).group(2)
    assert len(re.findall(r"wmma\.mma", loop)) == 4 * 2 * 4
    assert len(re.findall(r"ld\.global\.v4", loop)) == 8 and "wmma.load.c" not in loop and "wmma.store" not in loop
    assert [stage.name for stage in compiled.stages] == ["payload", *map(str, made.steps)]
    assert made.steps[-1].name == "finish" and all(one.says for one in made.steps)


def test_layouts_of_transposed_operands_agree_with_their_loads():
    made = sc.compile(sc.matmul(64, 64, 64, transpose_b=True), sc.wmma_steps(BLOCK, WARP))
    shapes = [nv.ShapeDtype((64, 64), nv.f16), nv.ShapeDtype((64, 64), nv.f16), nv.ShapeDtype((64, 64), nv.f32)]
    assert {"row.col"} == set(re.findall(r"wmma\.mma\.sync\.aligned\.(\w+\.\w+)\.", made.compile(*shapes).ptx))


def test_a_step_of_ones_own():
    @sc.step
    def count_products(work, into):
        """Counts the products, and changes nothing."""
        into.append(len(work.find("gpu.subgroup_mma_compute")))

    @sc.step
    def break_it(work):
        """Takes the return away."""
        work.find("func.return")[0].erase()

    @sc.step
    def refuse(work):
        work.refuse("no", "never", "nothing")

    found = []
    steps = [*sc.wmma_steps(BLOCK, WARP), count_products(found)]
    assert product(steps) == 0 and found == [2 * 2 * 2 * 2]  # of a turn, and of the last that is peeled off
    assert steps[-1].says == "Counts the products, and changes nothing."
    with pytest.raises(ScheduleError, match=r"step refuse\(\): no"):
        sc.compile(sc.matmul(64, 64, 64), [refuse()])
    with pytest.raises(ScheduleError, match=r"step break_it\(\)"):
        sc.compile(sc.matmul(64, 64, 64), [break_it()])
