"""Schedules on the GPU: every row of the ablation is right, at sizes where warps do run apart, and again and again."""

import numpy as np
import pytest

import nvdsl as nv
from chapters.passes.ladder import rows
from chapters.passes.own_step import group_blocks
from nvdsl import schedule as sc
from nvdsl.mlir.dialects import arith
from nvdsl.testing import in_child

ROWS = dict(rows((128, 128, 64), (64, 32)))


def numbers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def check(steps, m, n, k, reference=lambda a, b, c: a @ b, of=np.float16, to=np.float32, times=5, **what):
    """Sums of small integers: equal, whatever the order."""
    shapes = [(m, k), (k, n), *[{"m": (m,), "n": (n,), "mn": (m, n)}[one] for one in what.get("operands", ())], (m, n)]
    kinds = [of, of, *[to] * (len(shapes) - 2)]
    arrays = [numbers(shape, kind, seed) for seed, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))]
    start = arrays[-1].copy()
    gemm = sc.compile(sc.matmul(m, n, k, **what), steps)
    want = reference(*[one.astype(np.float32) for one in arrays])
    for _ in range(times):
        arrays[-1][:] = start
        gemm(*arrays)
        np.testing.assert_array_equal(arrays[-1].astype(np.float32), want)


@pytest.mark.parametrize("name", ROWS)
@in_child(timeout=120)
def test_each_row_of_the_ablation(name):
    check(ROWS[name], 2048, 1024, 4096)


@pytest.mark.parametrize("name", list(ROWS)[4:])
@in_child(timeout=120)
def test_sums_that_go_on_in_c(name):
    check(ROWS[name], 1024, 1024, 2048, lambda a, b, c: a @ b + c, add=True)


@in_child(timeout=120)
def test_types_layouts_and_elementwise_operations():
    def relu(x, bias):
        return arith.maximumf(x + bias, arith.ConstantOp(x.type, 0.0).result)

    check(sc.wmma_steps((128, 256, 32), (64, 64)), 512, 512, 256, to=np.float16, sums=nv.f16)
    check(sc.wmma_steps((64, 64, 32), (32, 32), nv.f32), 512, 256, 512, of=np.float32, dtype=nv.f32)
    for kind, view in (("m", lambda e: e[:, None]), ("n", lambda e: e), ("mn", lambda e: e)):
        check(sc.wmma_steps(), 512, 256, 512, lambda a, b, e, c, f=view: np.maximum(a @ b + f(e), 0), then=relu,
              operands=[kind])  # fmt: skip
    for a_too in (False, True):
        a, b = numbers((256, 384) if a_too else (384, 256), "f2", 1), numbers((128, 256), "f2", 2)
        c = np.zeros((384, 128), np.float32)
        sc.compile(sc.matmul(384, 128, 256, transpose_a=a_too, transpose_b=True), sc.wmma_steps())(a, b, c)
        np.testing.assert_array_equal(c, np.float32(a.T if a_too else a) @ np.float32(b.T))


@pytest.mark.parametrize("without", [(), ("swizzle",), ("hide_latency",)])
@in_child(timeout=120)
def test_mma_sync(without):
    check(sc.mma_steps(without=without), 2048, 1024, 4096)
    check(sc.mma_steps((128, 256, 32), (64, 64), without=without), 512, 512, 256, to=np.float16, sums=nv.f16)
    for a_too in (False, True):
        a, b = numbers((256, 384) if a_too else (384, 256), "f2", 1), numbers((128, 256), "f2", 2)
        c = np.zeros((384, 128), np.float32)
        payload = sc.matmul(384, 128, 256, transpose_a=a_too, transpose_b=True)
        sc.compile(payload, sc.mma_steps(without=without))(a, b, c)
        np.testing.assert_array_equal(c, np.float32(a.T if a_too else a) @ np.float32(b.T))


@pytest.mark.parametrize("stages", [2, 3, 4])
@in_child(timeout=120)
def test_copies_ahead(stages):
    check(sc.mma_steps(stages=stages), 2048, 1024, 4096)
    check(sc.mma_steps(stages=stages), 256, 256, 64)
    wmma = [*sc.wmma_steps((128, 128, 32), without=["hide_latency"]), sc.copy_async(stages)]
    check(wmma, 1024, 1024, 2048, lambda a, b, c: a @ b + c, add=True)


@in_child(timeout=120)
def test_wgmma():
    check(sc.wgmma_steps(), 2048, 1024, 4096)
    check(sc.wgmma_steps((64, 128, 64), 2, 1), 128, 256, 192)
    check(sc.wgmma_steps((192, 128, 64), 3, 3), 384, 256, 1024)
    alone = sc.wgmma_steps((256, 128, 64), without=["persistent"])
    check([*alone, group_blocks(3)], 2048, 1024, 512)
    for blocks, group in ((1, 1), (7, 2), (132, 8), (1000, 3)):
        check([*alone[:3], sc.persistent(blocks, group), *alone[3:]], 2048, 1152, 512)
    check(sc.wgmma_steps(), 512, 512, 512, lambda a, b, c: a @ b + c, add=True)
    check(sc.wgmma_steps(), 512, 512, 512, lambda a, b, e, f, c: np.maximum(a @ b + e, f[:, None]),
          then=lambda x, e, f: nv.max(x + e, f), operands=["n", "m"])  # fmt: skip


@in_child(timeout=120)
def test_batches_and_groups_of_blocks():
    a, b = numbers((3, 256, 128), "f2", 1), numbers((3, 128, 256), "f2", 2)
    c = np.zeros((3, 256, 256), np.float32)
    sc.compile(sc.matmul(256, 256, 128, batch=3), sc.wmma_steps())(a, b, c)
    np.testing.assert_array_equal(c, np.float32(a) @ np.float32(b))
    steps = sc.wmma_steps()
    place = [step.name for step in steps].index("launch") + 1
    check([*steps[:place], group_blocks(3), *steps[place:]], 1024, 768, 256)


@in_child(timeout=120)
def test_arrays_of_the_device_and_streams():
    torch = pytest.importorskip("torch")
    gemm = sc.compile(sc.matmul(512, 512, 512), sc.wmma_steps())
    a, b = (torch.randint(-2, 3, (512, 512), device="cuda").half() for _ in range(2))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        c = torch.empty(512, 512, device="cuda")
        for _ in range(20):
            gemm(a, b, c)
    stream.synchronize()
    assert torch.equal(c, (a.float() @ b.float()))


def guarded(steps, m, n, k, dtype=nv.f16, sums=nv.f32, **what):
    """A product in the middle of a larger allocation, whose rest stays as it was."""
    torch = pytest.importorskip("torch")
    kinds = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
    lead = () if what.get("batch") is None else (what["batch"],)
    transposed = what.get("transpose_a", False), what.get("transpose_b", False)
    shapes = ((k, m) if transposed[0] else (m, k)), ((n, k) if transposed[1] else (k, n))
    a, b = (torch.randint(-2, 3, (*lead, *shape), device="cuda").to(kinds[dtype.name]) for shape in shapes)
    count = int(np.prod((*lead, m, n)))
    whole = torch.full((count + 2048,), 7.0, dtype=kinds[sums.name], device="cuda")
    c = whole[1024 : 1024 + count].view(*lead, m, n)
    want = (a.mT if transposed[0] else a).float() @ (b.mT if transposed[1] else b).float()
    gemm = sc.compile(sc.matmul(m, n, k, dtype, sums=sums, **what), steps)
    for _ in range(3):
        c.fill_(7.0)
        gemm(a, b, c)
        assert torch.equal(c.float(), want + 7 * what.get("add", False))
    assert (whole[:1024] == 7).all() and (whole[1024 + count :] == 7).all()


SIZES = [(500, 264, 520), (501, 263, 519), (1, 1, 1), (33, 1000, 77), (640, 128, 34)]
BLOCK, WARP = (64, 64, 32), (32, 32)
ENDS = {
    "simt": (sc.simt_steps((64, 64, 8), (16, 32), (8, 8)), nv.f32),
    "wmma": (sc.wmma_steps(BLOCK, WARP, stages=3), nv.f16),
    "tf32 by wmma": (sc.wmma_steps((64, 64, 16), WARP, nv.f32), nv.f32),
    "mma.sync": (sc.mma_steps(BLOCK, WARP, stages=4), nv.f16),
    "mma.sync, bf16": (sc.mma_steps(BLOCK, WARP, nv.bf16, stages=3), nv.bf16),
    "mma.sync, tf32": (sc.mma_steps(BLOCK, WARP, nv.f32), nv.f32),
}


@pytest.mark.parametrize("end", ENDS)
@in_child(timeout=120)
def test_any_extents(end):
    steps, dtype = ENDS[end]
    for size in SIZES:
        guarded(steps, *size, dtype)
    guarded(steps, 130, 70, 90, dtype, transpose_a=True, transpose_b=True)
    guarded(steps, 65, 70, 61, dtype, add=True, batch=3)


@in_child(timeout=120)
def test_payloads_of_wgmma():
    steps = sc.wgmma_steps((128, 64, 64), 3)
    guarded(steps, 514, 264, 520, nv.bf16)
    guarded(steps, 512, 264, 128, sums=nv.f16)
    guarded(steps, 512, 264, 520, transpose_a=True, transpose_b=True, batch=3)
    guarded(steps, 512, 264, 520, transpose_a=True, add=True)
    guarded(steps, 130, 64, 8)
    for size in SIZES:
        guarded(steps, *size)
    guarded(steps, 301, 203, 105, transpose_a=True, transpose_b=True, batch=2)
    guarded(sc.wgmma_steps((128, 64, 32), 3), 514, 264, 516, nv.f32, transpose_b=True)
    guarded(sc.wgmma_steps(), 1000, 2000, 4008)


@in_child(timeout=120)
def test_operations_around_a_product():
    def reference(a, b, e, c):
        return np.maximum(np.maximum(a, 0) @ b + e[:, None], 0)

    what = {"of_a": lambda x: nv.max(x, nv.f16(0)), "then": lambda x, e: nv.max(x + e, 0.0), "operands": ["m"]}
    check(sc.mma_steps(stages=3), 512, 512, 256, lambda a, b, e, c: np.maximum(a @ b + e[:, None], 0),
          then=what["then"], operands=["m"])  # fmt: skip
    check(sc.fma_steps((32, 32, 16), (8, 8)), 128, 128, 64, reference, **what)
    check(sc.simt_steps((64, 64, 16), (16, 32), (8, 8), nv.f16, stages=1), 256, 192, 128, reference, **what)
    check(sc.mma_steps(), 256, 192, 264, reference, **what)
    check(sc.wgmma_steps((128, 64, 64), 3), 256, 192, 200, reference, **what)


@pytest.mark.alone
@in_child(timeout=120)
def test_tiles_by_a_search():
    space = nv.Space(block=[(128, 128, 64), (64, 64, 64)], warp=[(64, 32), (32, 32), (48, 32)], stages=[3])
    gemm = sc.tune(sc.matmul(512, 512, 512), sc.mma_steps, space, budget=20)
    assert gemm.tuning.config["warp"] in ((64, 32), (32, 32)) and gemm.tuning.count()["pruned"] == 2
    a, b, c = numbers((512, 512), "f2", 1), numbers((512, 512), "f2", 2), np.zeros((512, 512), np.float32)
    gemm(a, b, c)
    np.testing.assert_array_equal(c, np.float32(a) @ np.float32(b))
