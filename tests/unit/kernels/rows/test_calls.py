"""What nv.softmax and the norms refuse, and that their kernels fit the hardware."""

import re
from dataclasses import replace

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.hopper.arch import REGISTERS_PER_SM
from nvdsl.kernels.rows import cross_entropy_kernels, norm_backward_kernels, norm_kernels, softmax_kernels
from nvdsl.kernels.rows.beside import access_to_copies
from nvdsl.kernels.rows.choose import choose
from nvdsl.kernels.rows.choose_persistent import choose_persistent
from nvdsl.kernels.rows.cross_entropy import smoothing
from nvdsl.kernels.rows.norm import beside_rows
from tests.exhaustive import sample
from tests.unit.kernels import array

X = np.zeros((4, 8), np.float32)


LABELS, EACH = np.zeros(4, np.int64), np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda: nv.softmax(X.astype(np.float64)), "pass x as f32, say"),
        (lambda: nv.layer_norm(X, out_dtype=nv.e5m2), "out_dtype=nv.f32, say"),
        (lambda: nv.softmax(np.zeros((), np.float32)), "pass x.reshape((1,))"),
        (lambda: nv.softmax(np.zeros((2, 0), np.float32)), "leave out the call: there is nothing to compute"),
        (lambda: nv.layer_norm(X, X[:1]), "pass weight.reshape((8,))"),
        (lambda: nv.layer_norm(X, residual=X[:1]), "pass an array of the shape (4, 8)"),
        (lambda: nv.layer_norm(X, eps=None), "eps=1e-5, say"),
        (lambda: nv.cross_entropy(X, 3), "np.asarray(labels)"),
        (lambda: nv.cross_entropy(X, LABELS[:, None]), "pass labels.reshape((4,))"),
        (lambda: nv.cross_entropy(X, LABELS.astype(np.uint8)), "pass labels as i64, say"),
        (lambda: nv.cross_entropy(X, LABELS, EACH[0].astype(np.float16)[...]), "pass it as f32"),
        (lambda: nv.cross_entropy_backward(EACH, X, LABELS, EACH), 'reduction="none" takes a number for each row'),
    ],
)
def test_an_error_says_what_to_write(call, fix):
    with pytest.raises(nv.ArgumentError) as caught:
        call()
    assert caught.value.fix == fix and caught.value.where.file == __file__


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: nv.softmax(3), "x is a int"),
        (lambda: nv.softmax(np.zeros((2, 3))), "x is of f64"),
        (lambda: nv.softmax(np.zeros((2, 0), np.float32)), "x has the shape (2, 0)"),
        (lambda: nv.softmax(np.zeros((), np.float32)), "x has the shape ()"),
        (lambda: nv.softmax(np.zeros((1, 262_145), np.float16)), "rows of 262,145 elements"),
        (lambda: nv.softmax(X, np.zeros(8, np.float32)), "out has the shape (8,)"),
        (lambda: nv.softmax(X[:3], X[1:]), "out and x overlap"),
        (lambda: nv.rms_norm(X, X[0], out=X[:]), "out and weight overlap"),
        (lambda: nv.layer_norm(X, np.zeros(7, np.float32)), "weight has the shape (7,)"),
        (lambda: nv.layer_norm(X, X[0], X[0], X), "eps=array"),
        (lambda: nv.rms_norm(X, X[0], X[:1, 0]), "eps=array"),
        (lambda: nv.layer_norm(X, bias=X), "bias has the shape (4, 8)"),
        (lambda: nv.cross_entropy(X, [0] * 4, label_smoothing="much"), "label_smoothing='much'"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_call(call, says):
    with pytest.raises(nv.ArgumentError) as caught:
        call()
    assert says in caught.value.message
    assert caught.value.where.file == __file__ and caught.value.rule


CASES = [(kernel, dtype, cols) for cols in (1, 100, 777, 1024, 8192, 16_384, 65_536, 262_144, 262_143)
         for kernel in ("softmax", "log_softmax", "layer_norm", "rms_norm") for dtype in (nv.bf16, nv.f32)]  # fmt: skip


@pytest.mark.parametrize(("kernel", "dtype", "cols"), sample(CASES, 5))
def test_a_row_fits_into_registers(kernel, dtype, cols):
    x, row, none = array(dtype, 64, cols), array(dtype, cols), (None,) * 5
    norms = {"layer_norm": (x, x, row, row, *none, 1e-5), "rms_norm": (x, x, row, None, *none, 1e-5)}
    function = norm_kernels.norm if kernel in norms else getattr(softmax_kernels, kernel)
    named = {"centered": kernel == "layer_norm"} if kernel in norms else {}
    shared = {"passes": 2 + (kernel == "layer_norm"), "beside": kernel in norms and norms[kernel].count(row)}
    function = nv.jit(function.__wrapped__, strict=True)
    compiled = function.compile(*norms.get(kernel, (x, x)), config=choose(cols, dtype.bytes, cols, **shared), **named)
    (compiled,) = compiled.kernels.values()
    used = compiled.resources
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    copied = re.search(r"cp.async.cg.shared.global \[.*\], \[.*\], 16", compiled.ptx)
    assert bool(copied or "ld.global.v4.b32" in compiled.ptx) == (cols * dtype.bytes % 16 == 0)


ODD = [(kernel, dtype, cols)
       for cols in (131, 777, 1022, 1701, 3001, 4955, 8054, 11_506, 16_384, 16_389, 29_418, 33_019, 50_001, 65_537)
       for kernel in ("layer_norm", "rms_norm") for dtype in (nv.f32, nv.bf16)]  # fmt: skip


@pytest.mark.parametrize(("kernel", "dtype", "cols"), sample(ODD, 1))
@pytest.mark.parametrize("bias", sample([False, True], 1))
def test_a_row_that_begins_anywhere_fits_into_registers(kernel, dtype, cols, bias):
    x, weight, centered, none = array(dtype, 64, cols), array(nv.f32, cols), kernel == "layer_norm", (None,) * 5
    config = choose(cols, dtype.bytes, cols, passes=2 + centered, beside=1 + bias, alike=True)
    config = replace(config, copies=access_to_copies(cols, [nv.f32] * (1 + bias), config))
    arrays = x, x, weight, weight if bias else None, *none
    compiled = nv.jit(norm_kernels.norm.__wrapped__, strict=True).compile(
        *arrays, 1e-5, centered=centered, config=config
    )
    for each in compiled.kernels.values():
        assert (each.resources.stack, each.resources.spill_stores, each.resources.spill_loads) == (0, 0, 0)


APART = [(kernel, cols) for cols in (777, 2050, 3001, 8001, 12_012, 20_001, 50_257, 65_521, 131_071, 262_143)
         for kernel in ("softmax", "gradient", "layer_norm", "rms_norm", "cross_entropy")]  # fmt: skip


@pytest.mark.parametrize(("kernel", "cols"), sample(APART, 1))
def test_rows_that_are_written_elsewhere_than_they_are_read_fit_into_registers(kernel, cols):
    x, weight, number, none = array(nv.bf16, 64, cols), array(nv.f32, cols), array(nv.f32, 64), (None,) * 6
    centered, beside = kernel == "layer_norm", kernel.endswith("norm")
    arrays, passes = 1 + (kernel == "gradient"), 2 + centered
    config = choose(cols, 2, cols, arrays=arrays, passes=passes, beside=beside, apart=True)
    assert config.apart
    config = replace(config, copies=access_to_copies(cols, [nv.f32], config) if beside else 0)
    if beside:
        function, given, named = norm_kernels.norm, (x, x, weight, *none, 1e-5), {"centered": centered}
    elif kernel == "cross_entropy":
        given = x, array(nv.i64, 64), number, None, number, x, -100, 0.1, 0.1
        function, named = cross_entropy_kernels.cross_entropy, {"smooth": False, "mean": False}
    else:
        function = softmax_kernels.softmax if arrays == 1 else softmax_kernels.softmax_backward
        given, named = (x,) * (1 + arrays), {}
    made = nv.jit(function.__wrapped__, strict=True).compile(*given, config=config, **named)
    for each in made.kernels.values():
        assert (each.resources.stack, each.resources.spill_stores, each.resources.spill_loads) == (0, 0, 0)


SUMS = [(kernel, dtype, cols, residual)
        for cols in (2048, 12_288, 16_389, 32_768, 33_019, 50_000, 65_537, 262_143)
        for kernel in ("layer_norm", "rms_norm") for dtype in (nv.bf16, nv.f32)
        for residual in (False, True)]  # fmt: skip


@pytest.mark.parametrize(("kernel", "dtype", "cols", "residual"), sample(SUMS, 1))
def test_a_sum_that_is_stored_fits_into_registers(kernel, dtype, cols, residual):
    x, weight, number, centered = array(dtype, 64, cols), array(nv.f32, cols), array(nv.f32, 64), kernel == "layer_norm"
    config = choose(cols, dtype.bytes, cols, arrays=1 + residual, passes=2 + centered, beside=1, alike=True)
    config = replace(config, copies=16 if config.ragged else 0)
    config = config if residual else beside_rows(config)
    arrays = x, x, weight, None, x if residual else None, x, number if centered else None, number, None
    made = nv.jit(norm_kernels.norm.__wrapped__, strict=True).compile(*arrays, 1e-5, centered=centered, config=config)
    for each in made.kernels.values():
        assert (each.resources.stack, each.resources.spill_stores, each.resources.spill_loads) == (0, 0, 0)


def test_copies_of_weights_leave_room_for_three_blocks_of_352_threads():
    x, row = array(nv.f32, 64, 33_019), array(nv.f32, 33_019)
    config = replace(choose(33_019, 4, 33_019, passes=3, beside=2, alike=True), copies=16)
    arrays = x, x, row, row, *[None] * 5
    made = nv.jit(norm_kernels.norm.__wrapped__, strict=True).compile(*arrays, 1e-5, centered=True, config=config)
    (kernel,) = (each for name, each in made.kernels.items() if "shift" not in name)
    assert config.threads == 352 and REGISTERS_PER_SM // (-(-kernel.resources.registers // 8) * 8 * 352) == 3


@pytest.mark.parametrize(("cols", "multiple", "copies", "asked"), [(12_288, 8, 0, True), (128, 8, 0, False),
                                                                  (12_289, 1, 16, False)])  # fmt: skip
def test_the_first_blocks_ask_l2_for_a_weight_that_they_do_not_load_ahead(cols, multiple, copies, asked):
    x, weight = array(nv.bf16, 64, cols), array(nv.bf16, cols)
    config = replace(choose(cols, 2, multiple, beside=1, alike=True), copies=copies)
    made = nv.jit(norm_kernels.norm.__wrapped__, strict=True).compile(
        x, x, weight, *[None] * 6, 1e-5, centered=False, config=config
    )
    ptx = next(each.ptx for name, each in made.kernels.items() if "shift" not in name)
    assert ("prefetch.global.L2" in ptx) == asked


def test_blocks_on_an_sm_are_fewer_where_registers_would_be_spilled():
    cols, number = 38_120, array(nv.f32, 64)
    x, row = array(nv.f32, 64, cols), array(nv.f32, cols)
    config = choose(cols, 4, cols, arrays=2, passes=5, beside=2)
    arrays = x, array(nv.e4m3, 64, cols), row, row, x, x, number, number, number
    made = nv.jit(norm_kernels.norm.__wrapped__, strict=True).compile(*arrays, 1e-5, centered=True, config=config)
    (kernel,) = made.kernels.values()
    assert not kernel.resources.spilled
    assert f".minnctapersm {config.blocks_per_sm - 1}" in kernel.ptx


def test_what_clusters_exchange_has_room_beside_rows():
    cols, number = 200_016, array(nv.f32, 64)
    x, row = array(nv.f32, 64, cols), array(nv.f32, cols)
    config = choose(cols, 4, cols, arrays=2, passes=3, beside=1)
    arrays = x, x, row, None, x, None, number, number, None
    nv.jit(norm_kernels.norm.__wrapped__, strict=True).compile(*arrays, 1e-5, centered=True, config=config)


LOSSES = [(dtype, cols, gradient, smooth)
          for cols in (131, 1500, 2048, 3001, 4096, 8192, 12_288, 16_384, 24_576, 32_768, 33_019, 50_000, 65_535,
                       65_536, 131_072, 262_143)
          for dtype in (nv.bf16, nv.f32) for gradient in (False, True) for smooth in (False, True)]  # fmt: skip


@pytest.mark.parametrize(("dtype", "cols", "gradient", "smooth"), sample(LOSSES, 1))
def test_logits_fit_into_registers(dtype, cols, gradient, smooth):
    x, labels, number = array(dtype, 64, cols), array(nv.i64, 64), array(nv.f32, 64)
    config = choose(cols, dtype.bytes, cols, written=gradient, alike=True)
    config = smoothing(config) if smooth else config
    made = nv.jit(cross_entropy_kernels.cross_entropy.__wrapped__, strict=True).compile(
        x, labels, number, None, number, x if gradient else None, -100, 0.1, 0.1, smooth=smooth, mean=False,
        config=config,
    )  # fmt: skip
    for each in made.kernels.values():
        assert (each.resources.stack, each.resources.spill_stores, each.resources.spill_loads) == (0, 0, 0)
        by_policy = not gradient and config.keep == "registers" and config.wide * dtype.bytes == 16
        assert ("ld.global.L2::cache_hint.v4.b32" in each.ptx) == by_policy


@pytest.mark.parametrize(("cols", "gradient", "barriers"), [(768, False, 6), (896, False, 7), (1024, False, 8),
                                                            (1024, True, 0)])  # fmt: skip
def test_barriers_limit_the_blocks_that_only_read(cols, gradient, barriers):
    """An SM has 64: with 8 of them for each block of four rows of 2 KB, it asks for 64 KB at once."""
    x, labels, number = array(nv.bf16, 64, cols), array(nv.i64, 64), array(nv.f32, 64)
    made = nv.jit(cross_entropy_kernels.cross_entropy.__wrapped__, strict=True).compile(
        x, labels, number, None, None, x if gradient else None, -100, 0.0, 0.0, smooth=False, mean=False,
        config=choose(cols, 2, 16, written=gradient, alike=True),
    )  # fmt: skip
    assert [each.resources.barriers for each in made.kernels.values()] == [barriers]


@pytest.mark.parametrize("cols", [768, 4096])
def test_a_label_is_on_its_way_before_its_row_has_come(cols):
    """Behind the branch in which L2 is asked for a later row, ptxas would load it where the row is waited for."""
    x, labels, number = array(nv.bf16, 64, cols), array(nv.i64, 64), array(nv.f32, 64)
    config = choose(cols, 2, cols, alike=True)
    made = nv.jit(cross_entropy_kernels.cross_entropy.__wrapped__, strict=True).compile(
        x, labels, number, None, None, x, -100, 0.0, 0.0, smooth=False, mean=False, config=config
    )
    (kernel,) = made.kernels.values()
    asked = kernel.ptx.index("cp.async.bulk.prefetch.L2")
    assert "ld.global.b64" in kernel.ptx[:asked]
    assert ("prefetch.global.L2" in kernel.ptx[asked:]) == (config.keep == "shared")  # of the later row's label


GRADIENTS = [(dtype, weight, residual, cols)
             for cols in (33, 122, 196, 252, 396, 498, 764, 1002, 1328, 2189, 3200, 4955, 11_505, 12_680, 16_384,
                          20_001, 29_418, 33_515, 40_000, 50_000, 50_001, 65_536, 65_537, 100_000, 131_072)
             for dtype, weight in ((nv.bf16, nv.f32), (nv.bf16, nv.bf16), (nv.f16, None), (nv.f32, nv.f32))
             for residual in (False, True)]  # fmt: skip


@pytest.mark.parametrize(("dtype", "weight", "residual", "cols"), sample(GRADIENTS, 6))
def test_sums_of_a_gradient_fit_into_registers(dtype, weight, residual, cols):
    x, number, arrays = array(dtype, 64, cols), array(nv.f32, 64), 2 + residual
    beside, factor = (weight.bytes, array(weight, cols)) if weight else (0, None)
    config = choose_persistent(cols, dtype.bytes, cols, arrays=arrays, beside=beside, alike=True)
    function = nv.jit(norm_backward_kernels.norm_backward.__wrapped__, strict=True)
    beyond, into = x if residual else None, array(weight or nv.f32, cols)
    made = function.compile(x, x, x, number, number, factor, beyond, into, into, blocks=64, config=config)
    for compiled in made.kernels.values():
        used = compiled.resources
        assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)


def _softmax_of(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


VIEWS = {
    "transposed": lambda x: x.T,
    "square, transposed": lambda x: x[:, :6].T,
    "of a stack, transposed": lambda x: np.stack([x, 2 * x]).swapaxes(1, 2),
    "rows backwards": lambda x: x[::-1],
    "columns backwards": lambda x: x[:, ::-1],
    "every second": lambda x: x[::2, 1::2],
    "one column": lambda x: x[:, :1],
    "repeated": lambda x: np.broadcast_to(x[0], x.shape),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_host_arrays_in_any_order(view):
    x = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    expected = _softmax_of(view(x))
    np.testing.assert_allclose(nv.softmax(view(x), target="sim"), expected, rtol=1e-5)
    if view(x).flags.writeable:
        into = np.zeros((6, 40), np.float32)
        if np.may_share_memory(view(into), into):
            nv.softmax(view(x), view(into), target="sim")
            np.testing.assert_allclose(view(into), expected, rtol=1e-5)


def test_a_transposed_array_is_not_itself():
    x = np.ones((4, 4), np.float32)
    with pytest.raises(nv.ArgumentError, match="memory"):
        nv.softmax(x, x.T, target="sim")
