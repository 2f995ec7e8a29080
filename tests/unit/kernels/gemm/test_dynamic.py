"""Products of many sizes by few compiled kernels: right for each size, as good as kernels of one size, and few."""

import functools
import itertools
import math
import random
import re
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import ToolchainError
from nvdsl.kernels import Config
from nvdsl.kernels.blocks.linear_combination import ACTIVATIONS, LinearCombination
from nvdsl.kernels.gemm import flat, roads, short, simple, small, tensor_core
from nvdsl.kernels.gemm.argument_view import bound
from nvdsl.kernels.gemm.choose import COMMON, MENU, allowed, choose
from nvdsl.kernels.gemm.dispatch import find
from nvdsl.kernels.gemm.model import Shape, cycles, times
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from nvdsl.kernels.gemm.tiles import legal
from nvdsl.kernels.gemm.tuned import tuned_matmul
from nvdsl.lower import toolchain
from tests.exhaustive import exhaustive, sample
from tests.unit.kernels.gemm.test_matmul_repeated import tensor

CONFIGS = [
    Config(64, 32, stages=2, consumers=1),
    Config(64, 48, stages=3, schedule="pingpong", store_buffers=1),
    Config(64, 32, stages=3, schedule="streamk"),
    Config(64, 64, stages=3, schedule="splitk", split=2, consumers=1, store_buffers=1),
    Config(64, 64, stages=2, consumers=1, cluster_m=2),
]
LEVELS = [sim.Options(), sim.Options(level="nvvm", delivery="random", order="random", seed=2)]
extents = st.one_of(st.sampled_from([1, 8, 63, 64, 65, 128]), st.integers(1, 200))
aligned = st.integers(1, 20).map(lambda n: 8 * n)


@pytest.mark.parametrize(
    ("config", "options"),
    sample([(c, o) for c in CONFIGS for o in LEVELS], 3),
    ids=lambda x: x.schedule if isinstance(x, Config) else x.level,
)
@given(st.lists(st.tuples(extents, aligned, aligned), min_size=3, max_size=3), st.sampled_from(["nn", "nt"]))
@settings(max_examples=3)
def test_one_compiled_kernel_is_right_for_all_sizes(config, options, shapes, layout):
    before = len(tuned_matmul._compiled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sim.Options, "from_environment", lambda: options)
        for m, n, k in shapes:
            rng = np.random.default_rng((m, n, k))
            a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
            given_b = b if layout == "nn" else np.ascontiguousarray(b.T).T
            got = nv.matmul(a, given_b, config=config, out_dtype=nv.f32, target="sim")
            np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32))
    # Where N or K is 1 operands may be read along the other axis: here they aren't.
    assert len(tuned_matmul._compiled) <= before + 1


@pytest.mark.parametrize("config", sample(CONFIGS[:4], 2), ids=lambda c: c.schedule)
def test_an_epilogue_of_all_sizes(config):
    """A residual, a bias for each column, a scale for each row: read at the edges, too."""
    before = len(tuned_matmul._compiled)
    for m, n, k in ((65, 72, 40), (1, 8, 64), (130, 24, 8)):
        rng = np.random.default_rng((m, n, k))
        a, b, c = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n), (m, n)))
        bias, scale = rng.integers(-3, 4, n).astype(np.float16), 2.0 ** rng.integers(-1, 2, (m, 1)).astype(np.float32)
        got = nv.matmul(a, b, c=c, bias=bias, scale_a=scale, config=config, out_dtype=nv.f32, target="sim")
        sums = a.astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_array_equal(got, scale * sums + c.astype(np.float32) + bias.astype(np.float32))
    assert len(tuned_matmul._compiled) <= before + 2  # one row's C is repeated, as far as anybody can tell


# --- how many


def road(m, n, k, layout="nn", finish=LinearCombination(), config=None, dtype=nv.f16):  # noqa: B008
    given = {
        "a": Matrix(dtype, (m, k), (k, 1) if layout[0] == "n" else (1, m)),
        "b": Matrix(dtype, (k, n), (n, 1) if layout[1] == "n" else (1, k)),
    }
    given |= {"c": Matrix(dtype, (m, n), (n, 1))} if finish.c else {}
    given |= {"bias": Matrix(dtype, (n,), (1,))} if finish.bias else {}
    return find(GemmProblem.of(given, None, None), finish, config, "sim")


def compilations(m, n, k, layout, dtype=nv.f16):
    """What a first call of nv.matmul compiles, as keys."""
    found = road(m, n, k, layout, dtype=dtype)
    slots = dict(found.slots)
    specs = {name: slots[name].spec for name in found.order}
    compiled = bound([(slots[name], specs[name]) for name in found.order], found.sizes)
    kinds = ["words" if one.words else "turned" if one.turned else "rows" for one in found.packs.values()]
    keys = [("copies", *kinds)] if kinds else []
    if found.function is not tuned_matmul:
        return [*keys, (found.function, *compiled.specs, *found.options.values())]
    a, b, out = (specs[name] for name in found.order)
    names = ("a_major", "b_major", "acc_dtype", "epilogue_op", "sms", "direct_store")
    chosen = tuned_matmul._settings.heuristic(a=a, b=b, out=out, **{name: found.options[name] for name in names})
    return [*keys, (chosen["config"], *compiled.specs, *found.options.values())]


def extent(draw):
    """Log-uniform, a multiple of 8, 2 or 1."""
    multiple = draw.choice([8, 2, 1])
    return max(multiple, round(math.exp(draw.uniform(0, math.log(32768)))) // multiple * multiple)


THOUSANDS = list(itertools.product(("nn", "nt", "tn", "tt"), (nv.f16, nv.e4m3, nv.i8, nv.f32), (1, 5, 7, 8, 9)))


@pytest.mark.parametrize(("layout", "dtype", "seed"), sample(THOUSANDS, 1))
def test_a_thousand_shapes_take_at_most_forty_compilations(decided_for_a_gpu, layout, dtype, seed):
    draw = random.Random(seed)
    shapes = [(extent(draw), extent(draw), extent(draw)) for _ in range(1000)]
    assert len({key for shape in shapes for key in compilations(*shape, layout, dtype)}) <= 40


@pytest.mark.parametrize("weight", [(4096, 4096), (14336, 4096), (1024, 1024), (6144, 4096), (3000, 1000)])
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_any_rows_beside_one_weight_take_at_most_six(weight, layout):
    draw = random.Random(0)
    rows = [draw.randint(1, 8192) for _ in range(60)] + [round(2 ** draw.uniform(0, 14)) for _ in range(60)]
    found = {key for m in rows for key in compilations(m, *weight, layout)}
    assert len(found) <= MENU + 2 == 6  # one row; few rows of a small weight


def test_what_few_configurations_cost():
    """Of the model's cycles, in a process that multiplies many sizes: little."""
    every = legal(nv.f16, nv.f16, nv.f32, False, "k", "k")
    draw, lost = random.Random(5), {"squares": [], "sizes": [], "few rows": []}
    for _ in range(40):
        m, n, k = (8 * draw.randint(64, 1024) for _ in range(3))
        wide, deep = (8 * draw.randint(128, 2048) for _ in range(2))
        rows = draw.randint(1, 250)
        for what, sizes in (("squares", (m, m, m)), ("sizes", (m, n, k)), ("few rows", (rows, wide, deep))):
            shape = Shape(*sizes, b_major="k")
            lost[what].append(cycles(choose(shape), shape) / times(every, shape).min())
    for what, most in (("squares", 1.035), ("sizes", 1.065), ("few rows", 1.09)):
        assert np.mean(lost[what]) < most, what
    assert len(every) > 10 * len(COMMON)


@exhaustive
def test_sixty_first_calls(gpu, torch):
    """All of the road, with a driver that records: few kernels, and the rest of a new size is a few milliseconds."""
    compiled, times, draw = set(), [], random.Random(1)
    a, b, out = 1 << 32, 1 << 33, 1 << 34
    w = tensor(torch, b, (2048, 2048))
    for m in (draw.randint(1, 4096) for _ in range(60)):
        start = time.process_time()
        nv.matmul(tensor(torch, a, (m, 2048)), w, tensor(torch, out, (m, 2048)))
        times.append(time.process_time() - start)
        compiled.add(id(gpu.launches[-1].kernel))
    assert len(compiled) <= MENU + 1 and sorted(times)[30] < 0.02


# --- how good

BIAS = LinearCombination(bias=True, activation=ACTIVATIONS["gelu"])
RESIDUAL = LinearCombination(True, c=True)


@functools.cache
def strict():
    return nv.jit(tensor_core.matmul, strict=True)


def compiled(config, m, n, k, finish=LinearCombination(), layout="nt"):  # noqa: B008
    """A dynamic kernel, and its twin of one size."""
    found = replace(road(m, n, k, layout, finish, config), function=strict())
    slots = dict(found.slots)
    numbers = {name: nv.ShapeDtype(x.spec.shape, x.spec.dtype, x.spec.strides) for name, x in slots.items()}
    arguments = [numbers.get(name, 2.0) for name in found.order]
    described = strict()._described(tuple(arguments), {})
    dynamic = strict()._find(found.call(described), None)
    return dynamic, lambda: strict().compile(*arguments, **found.options)


def large(finish=LinearCombination()):  # noqa: B008
    """What is chosen from, but for small tiles."""
    found = allowed(Shape(1000, 1536, 2048, epilogue=not finish.does_nothing), finish.is_crowded(1536))
    return [c for c in found if not c.swap_ab and c.accumulator_registers(nv.f32) >= 96]


@pytest.mark.parametrize(
    ("config", "finish"),
    sample([(c, f) for f in (LinearCombination(), BIAS, RESIDUAL) for c in large(f)], 3),
    ids=lambda x: f"{x.schedule}-{x.tile_m}x{x.tile_n}" if isinstance(x, Config) else repr(x),
)
def test_no_spill(config, finish):
    dynamic, _ = compiled(config, 1000, 1536 if finish.c else 1544, 2048, finish)
    (kernel,) = dynamic.kernels.values()
    used = kernel.resources
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)


def loops(kernel):
    """Instructions of the innermost loops that multiply, and that load."""
    labels, code = {}, []
    for line in kernel.sass().splitlines():
        if line.startswith(".L_x"):
            labels[line.split(":")[0]] = len(code)
        elif re.search(r"/\*[0-9a-f]{4,5}\*/", line):
            code.append(line)
    found = {"HGMMA": [], "UTMALDG": []}
    for end, line in enumerate(code):
        target = re.search(r"BRA[^`]*`\((\.L_x_\d+)\)", line)
        start = labels.get(target[1], end) if target else end
        for name, sizes in found.items():
            if start < end and any(name in x for x in code[start : end + 1]):
                sizes.append(end + 1 - start)
    return {name: min(sizes) for name, sizes in found.items() if sizes}


@pytest.mark.parametrize("config", sample(large(), 1), ids=lambda c: f"{c.schedule}-{c.tile_m}x{c.tile_n}")
def test_the_main_loop_is_as_short_as_that_of_one_size(config):
    try:
        toolchain.disassembler()
    except ToolchainError:
        pytest.skip("needs a disassembler")
    dynamic, static = compiled(config, 4040, 4040, 4040)
    mine, twin = (loops(next(iter(x.kernels.values())))["HGMMA"] for x in (dynamic, static()))
    assert mine <= 1.05 * twin + 2


SHARED = [
    (simple.matmul, "simple", "nn", [(3, 5, 7), (20, 9, 11), (3, 3, 30)]),
    (small.matmul, "by_warps", "nt", [(3, 5, 135), (4, 2, 137), (20, 9, 256)]),
    (short.matmul, "by_strips 32", "nn", [(30, 40, 24), (31, 40, 23), (32, 42, 24), (33, 41, 23)]),
    (flat.matmul, "by_runs", "nt", [(30, 40, 24), (31, 40, 23), (32, 42, 22), (33, 41, 1)]),
]


@pytest.mark.parametrize(("function", "name", "layout", "shapes"), SHARED, ids=[name for _, name, *_ in SHARED])
def test_small_products_share_one_kernel(function, name, layout, shapes):
    """Whether rows start at whole vectors, in pairs or anywhere, and whether threads share elements, a run knows."""
    problems = [road(*shape, layout).problem for shape in shapes]
    found = [roads.ROADS[name](one, LinearCombination(), {"acc_dtype": nv.f32}, "sim") for one in problems]
    assert {x.function for x in found} == {function}
    assert len({(*(view.dynamic for _, view in x.slots), *x.options.values()) for x in found}) == 1
