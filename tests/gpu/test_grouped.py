"""``nv.grouped_matmul`` on the device against torch in float64: sizes of groups, layouts, types, epilogues."""

import nvdsl as nv
from nvdsl.kernels.gemm.config import Config
from nvdsl.testing import in_child
from tests.gpu.test_matmul import close, made

CONFIGS = [
    None, Config(128, 256), Config(128, 192, schedule="pingpong"), Config(64, 256, schedule="pingpong"),
    Config(256, 128, stages=3), Config(64, 128, consumers=1), Config(128, 256, stages=3, cluster_m=2),
]  # fmt: skip


def ends(counts):
    import torch

    return torch.tensor(counts, device="cuda", dtype=torch.int32).cumsum(0, dtype=torch.int32)


def parts(offsets):
    found = offsets.tolist()
    return list(zip([0, *found], found, strict=False))


def by_rows(a, b, offsets, finish=lambda x, group, rows: x):
    import torch

    out = torch.zeros(a.shape[0], b.shape[-1], device="cuda", dtype=torch.float64)
    for group, (start, end) in enumerate(parts(offsets)):
        rows = slice(start, end)
        out[rows] = finish(a[rows].double() @ b[group].double(), group, rows)
    return out


COUNTS = [[300, 0, 1, 64, 129, 500], [7] * 40, [0, 0, 1000, 0], [2048, 100], [1] * 200]


@in_child(timeout=240)
def test_groups_of_rows():
    import torch

    for i, counts in enumerate(COUNTS):
        offsets, behind = ends(counts), (0, 5, 200)[i % 3]
        for config in CONFIGS:
            for n, k in ((512, 256), (200, 136)):
                a, b = made((sum(counts) + behind, k), "bfloat16", i), made((len(counts), n, k), "bfloat16", i + 1)
                for right in (b.mT, b.mT.contiguous()):
                    out = torch.full((a.shape[0], n), torch.nan, device="cuda", dtype=torch.float32)
                    nv.grouped_matmul(a, right, out, offsets=offsets, config=config)
                    close(out, by_rows(a, right, offsets), k)


@in_child(timeout=240)
def test_groups_along_k():
    import torch

    for i, counts in enumerate(COUNTS):
        offsets, behind = ends(counts), (0, 5, 200)[i % 3]
        for config in CONFIGS[:-1]:
            for m, n in ((512, 256), (200, 136)):
                x, dy = (made((sum(counts) + behind, size), "float16", i) for size in (m, n))
                x[sum(counts) :] = torch.nan
                out = torch.full((len(counts), m, n), torch.nan, device="cuda", dtype=torch.float32)
                nv.grouped_matmul(x.T, dy, out, offsets=offsets, config=config)
                found = [x[start:end].double().T @ dy[start:end].double() for start, end in parts(offsets)]
                close(out, torch.stack(found), max(counts))


@in_child(timeout=120)
def test_types_strides_and_epilogues():
    import torch

    offsets, m, k, n = ends([100, 0, 65, 200]), 400, 200, 264
    for name in ("float16", "float32", "float8_e4m3fn", "int8"):
        a, b = made((m, k), name, 1), made((4, k, n), name, 2)
        found = nv.grouped_matmul(a, b, offsets=offsets)
        close(found, by_rows(a, b, offsets), k, 2e-3 if name == "float32" else None)
    a, b = made((m, k), "bfloat16", 1), made((4, k, n), "bfloat16", 2)
    odd = made((m, k + 1), "bfloat16", 3)[:, 1:]
    close(nv.grouped_matmul(odd, b, offsets=offsets.long()), by_rows(odd, b, offsets), k)
    bias, c = made((4, n), "float32", 4), made((m, n), "bfloat16", 5)
    rows, cols = made((m, 1), "float32", 6).abs(), made((4, 1, n), "float32", 7).abs()
    options = {"offsets": offsets, "out_dtype": nv.f32, "bias": bias, "c": c, "scale_a": rows, "scale_b": cols}
    finish = lambda x, g, at: torch.relu(2 * rows[at] * cols[g] * x + 0.5 * c[at] + bias[g])  # noqa: E731
    for out in (None, torch.full((m, n + 1), torch.nan, device="cuda")[:, 1:]):
        found = nv.grouped_matmul(a, b, out, activation="relu", alpha=2.0, beta=0.5, **options)
        close(found, by_rows(a, b, offsets, lambda x, g, at: finish(x.double(), g, at)), k)


@in_child(timeout=120)
def test_calls_again_with_other_offsets():
    import torch

    a, b = made((512, 128), "bfloat16", 1), made((8, 128, 256), "bfloat16", 2)
    offsets = ends([64] * 8)
    for counts in ([64] * 8, [512, *[0] * 7], [0] * 8, [1, 2, 3, 4, 5, 6, 7, 400]):
        offsets.copy_(ends(counts))
        close(nv.grouped_matmul(a, b, offsets=offsets), by_rows(a, b, offsets), 128)
    offsets.fill_(1 << 20)  # beyond the array: it is clamped
    nv.grouped_matmul(a, b, offsets=offsets)
    torch.cuda.synchronize()


@in_child(timeout=120)
def test_block_scales():
    import torch

    for counts, n, k in (([300, 0, 1, 128, 500], 456, 1040), ([7] * 40, 256, 512)):
        offsets, m, groups = ends(counts), sum(counts) + 5, len(counts)
        a, b = made((m, k), "float8_e4m3fn", 1), made((groups, n, k), "float8_e4m3fn", 2).mT
        slices, columns = -(-k // 128), -(-n // 128)
        rows, cols = (torch.rand(shape, device="cuda") for shape in ((m, slices), (groups, slices, columns)))
        found = nv.grouped_matmul(a, b, offsets=offsets, scale_a=rows, scale_b=cols, out_dtype=nv.f32)
        wide = cols.repeat_interleave(128, 1)[:, :k].repeat_interleave(128, 2)[..., :n]
        expected = by_rows(a.double() * rows.repeat_interleave(128, 1)[:, :k], b.double() * wide, offsets)
        close(found, expected, k, 2e-3)


@in_child(timeout=240)
def test_gated_groups():
    import torch

    for i, counts in enumerate(COUNTS):
        offsets, (n, k) = ends(counts), ((256, 256), (100, 136), (13, 24))[i % 3]
        a = made((sum(counts) + 5, k), "bfloat16", i)
        b = made((len(counts), 2 * n, k), "bfloat16", i + 1).mT / k**0.5
        bias = made((len(counts), 2 * n), "bfloat16", 3)
        for right in (b, b.contiguous()):
            y = nv.grouped_matmul(a, right, offsets=offsets, bias=bias, activation="swiglu", out_dtype=nv.f32)
            sums = by_rows(a, right, offsets)
            for group, (start, end) in enumerate(parts(offsets)):
                sums[start:end] += bias[group].double()
            expected = torch.nn.functional.silu(sums[:, :n]) * sums[:, n:]
            assert float((y - expected).abs().max()) < 1e-3 * float(expected.abs().max() + 1)
            assert not y[sum(counts) :].any()
