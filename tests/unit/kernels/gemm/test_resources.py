"""What ptxas makes of the roads of ``matmul``: whatever is chosen, no spill, no stack, no advisory (``strict``)."""

import pytest

import nvdsl as nv
from nvdsl.kernels.blocks.contiguous import pack, pack_both
from nvdsl.kernels.blocks.either_epilogue import EITHER
from nvdsl.kernels.blocks.elementwise import Elementwise
from nvdsl.kernels.blocks.linear_combination import ACTIVATIONS, LinearCombination
from nvdsl.kernels.gemm import simple, tensor_core
from nvdsl.kernels.gemm.choose import allowed, choose
from nvdsl.kernels.gemm.model import Shape
from nvdsl.kernels.gemm.tiles import legal
from tests.exhaustive import sample

M, K = 1000, 2048
FULL = LinearCombination(True, True, True, True, True, ACTIVATIONS["gelu"])
BIAS = LinearCombination(bias=True, activation=ACTIVATIONS["relu"])
USUAL = [
    LinearCombination(scale_a=True, scale_b=True),
    LinearCombination(bias=True, activation=ACTIVATIONS["gelu_tanh"]),
    LinearCombination(True, c=True, activation=ACTIVATIONS["gelu_tanh"]),
    *(LinearCombination(activation=f) for name, f in ACTIVATIONS.items() if name != "gelu"),
]


def operands(finish, m, n):
    """Of a finish, as `roads` gives them: of the result's shape, repeated by strides of 0."""
    repeated = lambda dtype, row, col: nv.ShapeDtype((1, m, n), dtype, (0, row, col))  # noqa: E731
    given = [0.5] * finish.alpha
    given += [repeated(nv.f32, 1, 0)] * finish.scale_a + [repeated(nv.f32, 0, 1)] * finish.scale_b
    given += [2.0, repeated(nv.f16, n if m == M else None, 1)] * finish.c
    return given + [repeated(nv.f16, 0, 1)] * finish.bias


def compiled(config, finish=None, n=1536, dtype=nv.f16, out=nv.f16, acc=nv.f32, **options):
    """``n`` None: of extents and strides that only a run knows."""
    strict = nv.jit(tensor_core.matmul, strict=True)
    visit = Elementwise(finish, aligned=n is not None and n % 8 == 0, clips=True) if finish else None
    (m, n, k), steps = ((M, n, K), None) if n is not None else ("mnk", (None, 1))
    shapes = ((m, k), dtype), ((n, k), dtype), ((m, n), out)
    arrays = [nv.ShapeDtype(shape, kind, steps) for shape, kind in shapes]
    given = operands(finish, m, n) if finish else []
    options = {"sms": 132, "a_major": "k", "b_major": "k", "acc_dtype": acc, "epilogue_op": visit, **options}
    return strict.compile(*arrays, *given, config=config, **options)


def assert_clean(found):
    for kernel in found.kernels.values():
        used = kernel.resources
        assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0), kernel.name


def name(config):
    return f"{config.schedule}-{config.tile_m}x{config.tile_n}"


def large(crowded, ragged=False):
    """Of what is chosen from beside an epilogue. The others have registers to spare. ``ragged``: TMA can't store the
    result."""
    found = allowed(Shape(M, 1537 if ragged else 1536, K, b_major="k", unaligned=ragged, epilogue=True), crowded)
    found = [config for config in found if not config.swap_ab]
    least = 128 if crowded or ragged else 176
    return [config for config in found if config.accumulator_registers(nv.f32) >= least]


@pytest.mark.parametrize("config", sample(large(crowded=True), 1), ids=name)
def test_a_full_epilogue(config):
    assert FULL.is_crowded(1536)
    assert_clean(compiled(config, FULL))
    if config.schedule == "pingpong":
        assert_clean(compiled(config, FULL, 1544))


@pytest.mark.parametrize("config", sample(large(crowded=True, ragged=True), 1), ids=name)
def test_a_full_epilogue_of_ragged_rows(config):
    assert_clean(compiled(config, FULL, None, direct_store=EITHER))


@pytest.mark.parametrize(
    ("finish", "config"),
    sample([(finish, config) for finish in USUAL for config in large(crowded=False)], 2),
    ids=lambda x: name(x) if hasattr(x, "schedule") else repr(x),
)
def test_usual_epilogues_leave_the_choice_among_all(finish, config):
    assert not finish.is_crowded(1536)
    assert_clean(compiled(config, finish))
    if config.schedule == "pingpong" and not finish.is_crowded(1544):
        assert_clean(compiled(config, finish, 1544))


SLIGHT = [
    LinearCombination(bias=True), BIAS, USUAL[1], LinearCombination(True, bias=True), LinearCombination(scale_a=True),
    LinearCombination(scale_b=True),
]  # fmt: skip
LARGEST = [
    c for c in allowed(Shape(M, 1536, K, b_major="k", epilogue=True, slight=True), False)
    if c.registers[1] - c.accumulator_registers(nv.f32) < 40
]  # fmt: skip


@pytest.mark.parametrize("config", sample(LARGEST, 0), ids=name)
@pytest.mark.parametrize("finish", SLIGHT, ids=repr)
def test_a_slight_epilogue_of_the_largest_tiles(finish, config):
    assert finish.is_slight and config.swap_ab
    assert_clean(compiled(config, finish))
    assert_clean(compiled(config, finish, None, direct_store=EITHER))


def test_what_is_not_slight():
    others = [LinearCombination(), FULL, USUAL[0], USUAL[2], LinearCombination(bias=True, activation=lambda x: x)]
    others += [LinearCombination(bias=True, activation=ACTIVATIONS["gelu"]), LinearCombination(c=True)]
    assert not any(finish.is_slight for finish in others)


@pytest.mark.parametrize("config", sample(large(crowded=False, ragged=True), 1), ids=name)
def test_row_scales_of_ragged_rows(config):
    assert_clean(compiled(config, USUAL[0], None, direct_store=EITHER))


@pytest.mark.parametrize(
    ("dtype", "out", "acc"),
    sample([(nv.f16, nv.f16, nv.f16), (nv.bf16, nv.f32, nv.f32), (nv.f32, nv.f32, nv.f32), (nv.e4m3, nv.bf16, nv.f32),
            (nv.e5m2, nv.e5m2, nv.f16), (nv.i8, nv.i32, nv.i32)], 1),
    ids=lambda t: t.name,
)  # fmt: skip
def test_what_is_chosen_for_each_type(dtype, out, acc):
    for size in (128, 2048, 8192):
        config = choose(Shape(size, size, size, dtype, out, acc, b_major="k"))
        assert_clean(compiled(config, None, 1536, dtype, out, acc))
    config = choose(Shape(size, size, size, dtype, out, acc, b_major="k", unaligned=True))
    assert_clean(compiled(config, None, None, dtype, out, acc, direct_store=EITHER))


TURNED = [c for c in legal(nv.f32, nv.f32, nv.f32, False, "mn", "k") if c.accumulator_registers(nv.f32) >= 80]
TURNED.sort(key=lambda c: (-c.tile_m, -c.tile_n))  # what leaves one wgmma the fewest registers first


@pytest.mark.parametrize("config", sample(TURNED, 1), ids=name)
def test_a_factor_of_32_bits_in_registers(config):
    arrays = (nv.ShapeDtype(shape, nv.f32) for shape in ((K, M), (1536, K), (M, 1536)))
    options = {"sms": 132, "a_major": "mn", "b_major": "k"}
    assert_clean(nv.jit(tensor_core.matmul, strict=True).compile(*arrays, config=config, **options))


def test_copies_and_the_simple_kernel():
    source, copy = (nv.ShapeDtype(("rows", "cols"), nv.f16, (None, step)) for step in (None, 1))
    assert_clean(nv.jit(pack.__wrapped__, strict=True).compile(source, copy, turned=False))
    both = nv.jit(pack_both.__wrapped__, strict=True)
    assert_clean(both.compile(source, copy, source, copy, turned_a=False, turned_b=True))
    arrays = [nv.ShapeDtype(shape, nv.f16) for shape in ((1, 70, 33), (1, 33, 40), (1, 70, 40))]
    assert_clean(nv.jit(simple.matmul.__wrapped__, strict=True).compile(*arrays, sms=132))
