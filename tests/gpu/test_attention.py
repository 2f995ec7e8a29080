"""Attention and fragments on the device: what the simulator runs, and larger."""

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.testing import in_child
from tests.unit.kernels.attending import CASES, Case, check, compare, expected

LARGE = (
    *(Case(1000, 1000, kv_heads=4, size=d, value_size=d, window=(None, r)) for d in (64, 128) for r in (None, 0)),
    Case(1000, 1000, size=256, value_size=256, config={"tile_n": 80}),
    Case(2048, 2048, kv_heads=2, group=4, size=128, value_size=128, window=(None, 0), dtype=np.float16),
    Case(1024, 4096, kv_heads=4, size=128, value_size=128, spread=8.0, config={"blocks": 132, "tile_n": 128}),
    Case(1152, 1100, kv_heads=3, spread=8.0, config={"tile_n": 96, "consumers": 3, "blocks": 7}),
    Case(500, 1100, kv_heads=2, group=6, window=(300, 100), config={"tile_n": 128, "pack": 8}),
    *(
        Case(
            1,
            9000,
            kv_heads=8,
            group=8,
            size=128,
            value_size=128,
            config={"pack": 8, "consumers": 1, "pingpong": False, "cluster": n, "lazy": True, "blocks_per_sm": 2},
        )
        for n in (2, 8, 16)
    ),
)


def call(function, *arrays, **constants):
    function(*arrays, **constants)


@in_child(timeout=280)
def test_the_simulators_cases():
    for case in CASES:
        check(call, case)


@in_child(timeout=280)
def test_larger_cases():
    for case in LARGE:
        check(call, case)


def heads(batch, queries, keys, count, kv_heads, size, value_size, dtype=ml_dtypes.bfloat16):
    rng = np.random.default_rng(0)
    shapes = [(queries, count, size), (keys, kv_heads, size), (keys, kv_heads, value_size)]
    return [rng.standard_normal((batch, *shape), np.float32).astype(dtype) for shape in shapes]


PUBLIC = (
    ((2, 777, 777, 8, 2, 128, 128), {"causal": True}),
    ((1, 1, 3000, 16, 2, 128, 128), {}),
    ((3, 100, 50, 4, 4, 64, 64), {"causal": True}),
    ((1, 600, 700, 2, 1, 96, 96), {"window": (100, 20)}),
    ((1, 600, 700, 3, 1, 192, 128), {"causal": True, "scale": 0.1}),
    ((1, 300, 500, 2, 2, 72, 40), {}),
    *(((1, 400, 500, 2, 1, size, size), {"causal": True}) for size in (24, 80, 104, 144, 208)),
    ((2, 1, 2000, 8, 1, 80, 112), {}),
    ((1, 300, 500, 2, 2, 256, 256), {"window": (None, 5)}),
    ((1, 1, 1, 1, 1, 8, 8), {"causal": True}),
    ((1, 5, 0, 2, 1, 64, 64), {}),
    ((2, 2, 3000, 16, 2, 128, 200), {"splits": 33}),
)


@in_child(timeout=280)
def test_the_public_function():
    for shape, options in PUBLIC:
        q, k, v = heads(*shape)
        found = nv.attention(q, k, v, return_lse=True, **options)
        compare(found, expected(q, k, v, **{name: x for name, x in options.items() if name != "splits"}))


@in_child(timeout=120)
def test_the_same_bits_each_time():
    q, k, v = heads(1, 1024, 1024, 4, 4, 128, 128)
    assert len({nv.attention(q, k, v, causal=True).tobytes() for _ in range(20)}) == 1


@pytest.mark.parametrize(("queries", "options"), [(1500, {"causal": True}), (1, {"splits": 5})])
@in_child(timeout=120)
def test_what_is_kept_for_a_stream(queries, options):
    """A queue's counter, and parts: repeated calls in two streams, and in a graph that runs between them."""
    import torch

    q, k, v = (torch.randn((4, n, 8, 64), device="cuda", dtype=torch.bfloat16) for n in (queries, 1500, 1500))
    outs = [torch.full_like(q, float("nan")) for _ in range(3)]
    wanted = nv.attention(q, k, v, **options)
    torch.cuda.synchronize()
    streams, graph = [torch.cuda.Stream() for _ in range(2)], torch.cuda.CUDAGraph()
    for _ in range(3):
        nv.attention(q, k, v, outs[2], **options)
    with torch.cuda.graph(graph, stream=streams[0]):
        nv.attention(q, k, v, outs[2], **options)
    for turn in range(40):
        for stream, out in zip(streams, outs, strict=False):
            with torch.cuda.stream(stream):
                nv.attention(q, k, v, out, **options)
                if turn % 3 == 0 and stream is streams[0]:
                    graph.replay()
        if turn % 10 == 9:
            torch.cuda.synchronize()
            assert all(torch.equal(out, wanted) for out in outs)
            for out in outs:
                out.fill_(float("nan"))
            torch.cuda.synchronize()


@in_child(timeout=280)
def test_fragments():
    """The simulator's tests of fragments, on the device."""
    import tests.sim.test_fragment_tensors as cases

    def on_device(function, *arrays, options=None, **constants):
        function(*arrays, **constants)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "run", on_device)
        for shape in ((64, 8), (128, 24), (64, 40)):
            cases.test_operators_are_numpys(*shape)
        for dtype in (np.float16, np.float32, np.float64, np.int32, ml_dtypes.bfloat16):
            cases.test_types(np.dtype(dtype))
        cases.test_a_product_in_a_sum_is_rounded_once()
        for axis in (0, 1):
            for op in ("sum", "max", "min"):
                for dtype in (np.float32, np.float16, np.int32):
                    cases.test_reductions(op, axis, dtype, None)
        cases.test_bools_are_counted_and_joined()
        cases.test_parts_of_sums_add_up_once()
        cases.test_parts_of_a_fragment()
        for cols in (40, 41):
            cases.test_bounds(cols)
        for dtype, swizzle, n in cases.TILES:
            cases.test_tiles_take_and_give_fragments(dtype, swizzle, n)
        for dtype in cases.CARRIED:
            cases.test_loops_and_branches_carry_fragments(dtype)


@in_child(timeout=280)
def test_options():
    """The simulator's tests of options, on the device."""
    import tests.unit.kernels.attention.test_attention as cases

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "attention", nv.attention)
        for what in ("scale", "softcap", "bias", "broadcast", "alibi", "documents"):
            cases.test_scores(what)
        for splits in (None, 2, 3, 7):
            cases.test_parts_of_the_keys(splits)
        for queries, keys, options in cases.SEQUENCES:
            cases.test_sequences(queries, keys, options)
        cases.check_sequences([700, 1, 1300], [900, 4000, 1300], causal=True, size=128)
        cases.check_sequences([1, 1, 5], [900, 4000, 1300], page=64, count=16, size=128, causal=True)
        cases.check_sequences([300, 70], [1900, 500], [1700, 500], 128, window=(300, 20), size=128)
        cases.test_pages_of_a_batch()
        cases.test_strides_and_a_given_result()
        cases.test_numbers_that_are_none()


@in_child(timeout=280)
def test_eight_bits():
    """The simulator's tests of e4m3, on the device, and larger ones."""
    import tests.unit.kernels.attention.test_attention as sixteen
    import tests.unit.kernels.attention.test_eight_bits as cases

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "attention", nv.attention)
        patch.setattr(sixteen, "attention", nv.attention)
        for queries, keys, count, kv_heads, size, causal in (
            (700, 1300, 4, 2, 128, True), (1000, 1000, 2, 2, 256, False), (1, 5000, 16, 2, 128, False),
            (300, 300, 2, 1, 64, True), (100, 900, 1, 1, 192, False), (1100, 1100, 16, 4, 256, True),
        ):  # fmt: skip
            shape = {"queries": queries, "keys": keys, "heads": count, "kv_heads": kv_heads}
            cases.test_no_worse_than_rounded_weights(shape | {"size": size, "value_size": size}, {"causal": causal})
        cases.test_a_scale_for_each_head()
        for what in ("softcap", "bias", "alibi", "window", "splits", "clusters"):
            cases.test_options(what)
        for queries, keys, options in cases.SEQUENCES:
            cases.test_sequences(queries, keys, options)
