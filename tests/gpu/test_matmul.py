"""``nv.matmul`` on the device against torch in float64: types, layouts, strides, batches, ragged sizes, epilogues.

Each test is one child process that goes through its cases; results start as NaN where the type has one.
"""

import itertools

import nvdsl as nv
from nvdsl.kernels import Config
from nvdsl.testing import in_child

TYPES = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "int8")


def made(shape, name, seed):
    """A torch tensor of seeded values; of few bits, so that 8-bit types hold them."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    if name == "int8":
        return torch.randint(-8, 9, shape, generator=generator, device="cuda", dtype=torch.int8)
    return torch.randn(shape, generator=generator, device="cuda").to(getattr(torch, name))


def stored(x, kind):
    """``x`` in memory by rows (n), or by columns (t)."""
    return x if kind == "n" else x.mT.contiguous().mT


def close(got, expected, k, relative=None):
    """Within the rounding of sums of ``k`` products and of the result's type; NaN is never close."""
    import torch

    if got.dtype in (torch.int32, torch.int64):
        assert torch.equal(got.double(), expected), "an integer differs"
        return
    steps = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5, torch.float64: 1e-12}
    relative = relative or steps[got.dtype]
    error = (got.double() - expected).abs()
    bound = relative * expected.abs() + relative * k**0.5
    wrong = ~(error <= bound)
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} wrong, first at {wrong.nonzero()[0].tolist()}"


def check(a, b, relative=None, **options):
    import torch

    got = nv.matmul(a, b, **options)
    expected = torch.matmul(a.double(), b.double())
    relative = 2e-3 if a.dtype == torch.float32 else relative  # tf32 has 10 bits
    close(got, expected, a.shape[-1], relative)


@in_child(timeout=240)
def test_types_and_layouts():
    for name, layout in itertools.product(TYPES, ("nn", "nt", "tn", "tt")):
        a, b = made((264, 200), name, 1), made((200, 328), name, 2)
        check(stored(a, layout[0]), stored(b, layout[1]))


@in_child(timeout=240)
def test_factors_of_32_bits_in_registers():
    sizes = [(132, 140, 96), (1000, 64, 516), (4, 2052, 260), (2048, 1028, 4100), (300, 8, 8192)]
    for (m, n, k), layout in itertools.product(sizes, ("nn", "tn", "tt")):
        a, b = made((m, k), "float32", 1), made((k, n), "float32", 2)
        check(stored(a, layout[0]), stored(b, layout[1]))
    halves = Config(64, 64, stages=4, schedule="splitk", split=2, consumers=1)
    for config in (Config(192, 80, stages=3, consumers=3), halves):
        a, b = made((700, 900), "float32", 1), made((900, 500), "float32", 2)
        check(stored(a, "t"), stored(b, "t"), config=config)


@in_child(timeout=240)
def test_ragged_sizes():
    for m, n, k in [(1, 1, 1), (1, 4096, 512), (4096, 1, 512), (3, 5, 7), (129, 257, 65), (1000, 1001, 1003),
                    (2049, 1031, 4099), (16, 4096, 4096), (200, 8, 8192)]:  # fmt: skip
        check(made((m, k), "float16", m), made((k, n), "float16", n))
    check(made((513, 1001), "float8_e4m3fn", 3), made((1001, 1003), "float8_e4m3fn", 4))
    check(made((513, 1001), "int8", 3), made((1001, 1003), "int8", 4))
    check(made((513, 1001), "float32", 3), made((1001, 1003), "float32", 4))


@in_child(timeout=240)
def test_one_column_and_one_row():
    for name, layout in itertools.product((*TYPES, "float64"), ("nn", "nt", "tn", "tt")):
        for m, k in ((1, 1), (264, 200), (1000, 1003), (3, 70000), (3, 140001), (4104, 4096)):
            a, b = made((m, k), name, 1), made((k, 1), name, 2)
            check(stored(a, layout[0]), stored(b, layout[1]))
            check(stored(b.mT, layout[0]), stored(a.mT, layout[1]))


@in_child(timeout=240)
def test_strides_offsets_and_outputs():
    import torch

    base = made((700, 900), "float16", 5)
    a = base[3:403, 5:505]  # not aligned to 16 bytes
    b = base[10:510, 16:336]
    check(a, b)
    check(base[::2, ::3][:300, :250], base[:250, 8:264])  # no contiguous axis
    for out in (
        torch.full((400, 320), torch.nan, device="cuda", dtype=torch.float16),
        torch.full((320, 400), torch.nan, device="cuda", dtype=torch.float16).T,
        torch.full((400, 321), torch.nan, device="cuda", dtype=torch.float32)[:, 1:],
        torch.full((800, 640), torch.nan, device="cuda", dtype=torch.bfloat16)[::2, ::2],
    ):
        check(a, b, out=out)


@in_child(timeout=240)
def test_batches():
    f = lambda *shape: made(shape, "bfloat16", sum(shape))  # noqa: E731
    check(f(6, 130, 72), f(6, 72, 136))
    check(f(2, 1, 130, 72), f(1, 3, 72, 136))
    check(f(5, 130, 72), f(72, 136))
    check(f(130, 72), f(4, 72, 136))
    check(f(130, 3, 72).transpose(0, 1), f(3, 136, 72).mT)
    check(f(40, 33, 65), f(40, 65, 31))
    check(f(512), f(512, 264))
    check(f(264, 512), f(512))


@in_child(timeout=240)
def test_epilogues():
    import torch

    m, n, k = 300, 520, 256
    a, b = made((m, k), "float16", 1), made((k, n), "float16", 2)
    c, bias = made((m, n), "bfloat16", 3), made((n,), "float32", 4)
    rows, cols = made((m, 1), "float32", 5).abs(), made((n,), "float32", 6).abs()
    options = {"c": c, "alpha": 0.5, "beta": 2.0, "bias": bias, "scale_a": rows, "scale_b": cols}
    product = ((a.double() @ b.double()) * rows.double() * cols.double()) * 0.5 + 2.0 * c.double() + bias.double()
    for name, reference in [
        (None, lambda x: x),
        ("relu", torch.relu),
        ("gelu", torch.nn.functional.gelu),
        ("silu", torch.nn.functional.silu),
        ("sigmoid", torch.sigmoid),
        ("tanh", torch.tanh),
    ]:
        got = nv.matmul(a, b, activation=name, out_dtype=nv.f32, **options)
        close(got, reference(product), k, 2e-3 if name in ("silu", "sigmoid") else 2e-5)  # tanh.approx: 2^-11
    out = c.clone()
    nv.matmul(a, b, out, c=out)  # in place
    close(out, a.double() @ b.double() + c.double(), k)


@in_child(timeout=240)
def test_candidates_of_each_kind():
    """Of the configurations that the heuristic may choose one of each kind, on sizes that its tile does not divide."""
    import random

    from nvdsl.kernels.gemm.tiles import legal

    a, b = made((1100, 520), "float16", 1), made((520, 1016), "float16", 2)
    kinds = {}
    for config in legal(nv.f16, nv.f16, nv.f32):
        at = config.schedule, config.tile_m, config.along, config.cluster_m, config.cluster_n, config.swap_ab
        kinds.setdefault((*at, config.split, config.parts > 1), []).append(config)
    draw, bias = random.Random(1), made((1016,), "float16", 3)
    for i, kind in enumerate(kinds.values()):
        config = draw.choice(kind)
        check(a, b, config=config)
        if i % 4 == 0 and not config.swap_ab:  # their results are stored by TMA alone
            check(a, b[:, :1001], config=config)
        if i % 4 == 1 and config.registers[1] - config.accumulator_registers(nv.f32) >= 40:
            got = nv.matmul(a, b, bias=bias, activation="relu", config=config)
            close(got, (a.double() @ b.double() + bias.double()).relu(), 520)


@in_child(timeout=240)
def test_small_products():
    for name, layout in itertools.product(("float16", "bfloat16"), ("nn", "nt", "tn", "tt")):
        sizes = (2, 3, 1), (8, 688, 8), (48, 5204, 3), (190, 24, 526), (33, 65, 2104), (9, 226, 9001), (500, 2, 70)
        for m, n, k in sizes:
            a, b = made((m, k), name, 1), made((k, n), name, 2)
            check(stored(a, layout[0]), stored(b, layout[1]))
    a, b = made((5, 40, 33), "float16", 1), made((5, 33, 70), "float16", 2)
    bias = made((70,), "float16", 3)
    got = nv.matmul(a, b, bias=bias, activation="relu")
    close(got, (a.double() @ b.double() + bias.double()).relu(), 33)


@in_child(timeout=240)
def test_few_columns_off_the_grid():
    """Every start of a row, both ways round; other rows' NaNs in the vectors that rows begin and end in; clusters."""
    import torch

    for m, n, k in [(4099, 5, k) for k in range(401, 408)] + [(700, 8, 9002), (20000, 3, 301), (54, 8, 8014)]:
        a, b = made((m, k), "bfloat16", 1), made((n, k), "bfloat16", 2).mT
        check(a, b)
        check(b.mT, a.mT)
        a[::3] = float("nan")
        got = nv.matmul(a, b)
        assert got[::3].isnan().all() and not torch.cat([got[1::3], got[2::3]]).isnan().any()
    bias = made((5,), "float16", 3)
    a, b = made((3000, 703), "float16", 1), made((5, 703), "float16", 2).mT
    close(nv.matmul(a, b, bias=bias, activation="relu"), (a.double() @ b.double() + bias.double()).relu(), 703)


@in_child(timeout=240)
def test_short_k():
    for layout in ("nn", "nt", "tn", "tt"):
        for m, n, k in ((3000, 3001, 7), (1105, 568, 25), (700, 900, 34), (9000, 66, 90), (4100, 1000, 8)):
            a, b = made((m, k), "bfloat16", 1), made((k, n), "bfloat16", 2)
            check(stored(a, layout[0]), stored(b, layout[1]))
    a, b = made((3, 400, 21), "float16", 1), made((3, 21, 700), "float16", 2)
    bias = made((700,), "float16", 3)
    got = nv.matmul(a, b, bias=bias, activation="relu")
    close(got, (a.double() @ b.double() + bias.double()).relu(), 21)


@in_child(timeout=240)
def test_block_scales():
    import torch

    for m, n, k in [(512, 384, 1024), (129, 200, 300)]:
        a, b = made((m, k), "float8_e4m3fn", 1), made((n, k), "float8_e4m3fn", 2).T
        slices, columns = -(-k // 128), -(-n // 128)
        sa, sb = made((m, slices), "float32", 3).abs() + 0.1, made((slices, columns), "float32", 4).abs() + 0.1
        wide_a = sa.double().repeat_interleave(128, 1)[:, :k]
        wide_b = sb.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:k, :n]
        got = nv.matmul(a, b, scale_a=sa, scale_b=sb)
        assert got.dtype == torch.bfloat16
        expected = (a.double() * wide_a) @ (b.double() * wide_b)
        close(got, expected, k)
        c, bias = made((m, n), "bfloat16", 5), made((n,), "float32", 6)
        got = nv.matmul(a, b, scale_a=sa, scale_b=sb, alpha=2.0, c=c, bias=bias, activation="relu")
        close(got, (2 * expected + c.double() + bias.double()).relu(), k)


@in_child(timeout=240)
def test_nan_inf_and_empty():
    import torch

    a, b = made((64, 64), "float16", 1), made((64, 64), "float16", 2)
    a[3, 5], a[7, 1] = torch.nan, torch.inf
    got = nv.matmul(a, b)
    assert got[3].isnan().all() and not got[7].isfinite().any() and got[[0, 1, 2, 4, 5, 6]].isfinite().all()
    assert nv.matmul(a[:, :0], b[:0]).eq(0).all()
    assert nv.matmul(a[:0], b).shape == (0, 64)


@in_child(timeout=240)
def test_a_large_one():
    a, b = made((4095, 4099), "float16", 1), made((4099, 4097), "float16", 2)
    check(a, b)
    a, b = made((8192, 8192), "float16", 1), made((8192, 8192), "float16", 2)
    check(a, b)


@in_child(timeout=240)
def test_many_sizes_by_few_kernels():
    """Random rows, then random shapes: each right, by no more kernels than the model promises."""
    import random

    from nvdsl.kernels.gemm.choose import MENU
    from nvdsl.kernels.gemm.tuned import tuned_matmul

    draw = random.Random(3)
    w = made((1536, 1024), "float16", 2)
    for m in [1, 2, 63, 64, 65, *(draw.randint(1, 4096) for _ in range(30))]:
        check(made((m, 1024), "float16", m), w.mT)
    assert len(tuned_matmul._compiled) <= MENU
    for i in range(60):
        m, n, k = (max(1, int(2 ** draw.uniform(0, 12)) // step * step) for step in draw.choices((8, 2, 1), k=3))
        check(made((m, k), "float16", i), made((k, n), "float16", i + 1))
    assert len(tuned_matmul._compiled) <= 40


@in_child(timeout=240)
def test_schedules_at_edges_of_all_kinds():
    """One compiled kernel a schedule: one tile, the last tile short, more tiles than SMs, batches, epilogues."""
    import torch

    from nvdsl.kernels import Config

    configs = [
        Config(128, 128, stages=4), Config(128, 128, stages=4, schedule="pingpong", cluster_m=2),
        Config(128, 128, stages=4, schedule="streamk"),
        Config(64, 64, stages=6, schedule="splitk", split=2, consumers=1),
    ]  # fmt: skip
    sizes = (1, 8, 64), (129, 264, 8), (2000, 3000, 1000), (5, 4096, 4104)
    for config, (m, n, k) in itertools.product(configs, sizes):
        a, b = made((m, k), "float16", m), made((k, n), "float16", n)
        check(a, b, config=config)
        bias, c = made((n,), "float16", 5), made((m, n), "float16", 6)
        got = nv.matmul(a, b, c=c, bias=bias, alpha=0.5, config=config)
        close(got, 0.5 * torch.matmul(a.double(), b.double()) + c.double() + bias.double(), k, 4e-3)
    x, y = made((3, 200, 136), "float16", 7), made((3, 136, 72), "float16", 8)
    for config in configs:
        check(x, y, config=config)
        check(x[:2, :77], y[:2], config=config)


@in_child(timeout=240)
def test_parts_of_a_long_k():
    """By clusters that hand sums over, and in memory: one tile or many, no tile whole, and again and again."""
    import torch

    from nvdsl.kernels import Config

    configs = [
        Config(64, 64, stages=6, schedule="splitk", split=8, consumers=1, parts=32),
        Config(128, 256, stages=4, schedule="splitk", split=4, parts=32, store_buffers=1),
        Config(128, 128, stages=4, parts=64), Config(256, 128, stages=4, parts=64, cluster_n=2),
    ]  # fmt: skip
    sizes = (1, 8, 64), (129, 264, 20000), (512, 512, 65536), (72, 301, 9001)
    for config, (m, n, k) in itertools.product(configs, sizes):
        a, b = made((m, k), "bfloat16", m), made((n, k), "bfloat16", n)
        bias = made((n,), "bfloat16", 5)
        expected = torch.matmul(a.double(), b.mT.double()) + bias.double()
        found = [nv.matmul(a, b.mT, bias=bias, config=config) for _ in range(5)]
        close(found[0], expected, k)
        assert all(torch.equal(found[0], other) for other in found[1:]), "other bits in another call"
    x, y = made((3, 100, 4096), "float16", 7), made((3, 4096, 72), "float16", 8)
    for config in configs:
        check(x, y, config=config)


@in_child(timeout=120)
def test_operands_that_are_copied_on_a_stream_of_the_callers():
    """The copies' memory is the call's own: no other stream gets it before the product has read it."""
    import torch

    stream = torch.cuda.Stream()
    for i in range(20):
        a, b = made((517, 333), "float16", i), made((333, 259), "float16", i + 1)
        out = torch.full((517, 259), torch.nan, device="cuda", dtype=torch.float16)
        torch.cuda.synchronize()
        nv.matmul(a, b, out, stream=stream)
        torch.full((1 << 22,), torch.nan, device="cuda")
        stream.synchronize()
        close(out, torch.matmul(a.double(), b.double()), 333)
