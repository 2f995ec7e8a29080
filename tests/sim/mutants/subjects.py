"""The correct kernels that are mutated: chapters 2 to 9, LLVM style twins of 2 to 5, the GEMMs of nvdsl/kernels, and
those of `kernels`, small ones in which lanes, warps, blocks and launches tell each other that something is done.

One entry a kernel: a name, and a function that makes a `tests.sim.programs.Case` with small inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import nvdsl as nv
from nvdsl import schedule as sc
from nvdsl.kernels.attention.combine import combine
from nvdsl.kernels.blocks.contiguous import contiguous, pack, pack_both
from nvdsl.kernels.blocks.elementwise import Elementwise
from nvdsl.kernels.blocks.linear_combination import LinearCombination, relu
from nvdsl.kernels.blocks.tile_op import TileOp
from nvdsl.kernels.blocks.tile_ops import Gated
from nvdsl.kernels.gemm import (
    blockscaled,
    cooperative,
    flat,
    gathered,
    gemv,
    gemv_words,
    grouped,
    grouped_k,
    pingpong,
    quantized,
    quantized_few,
    realigned,
    residues,
    short,
    simple,
    small,
    small_words,
    splitk,
    splitk_memory,
    streamk,
)
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.quantized import QuantizedConfig
from nvdsl.kernels.gemm.quantized_few import FewRowsConfig
from nvdsl.kernels.mlp import forward
from nvdsl.kernels.mlp.config import MlpConfig
from tests.sim import group_kernels, recurrent_cases, row_cases, warp_products
from tests.sim.layers import layers_of
from tests.sim.mutants import kernels
from tests.sim.mutants.judge import Subject, Verdict
from tests.sim.programs import CASES, Case, gemm_case, load
from tests.sim.simulate import traced
from tests.unit.kernels import attending, backpropagating
from tests.unit.kernels.strided import strided

_CHAPTERS = (
    "ch2", "ch3", "ch4", "ch5 narrow", "ch6", "ch7", "ch8", "ch9", "ch12", "ch15", "cluster sum", "column sums",
    "compat ch2", "compat ch3", "compat ch4", "compat ch5",
)  # fmt: skip


def _matmul(module: Any, m: int, n: int, k: int, blocks: int, out: Any = np.float32, **config: Any) -> Case:
    """A GEMM of nvdsl/kernels of ``blocks`` blocks."""
    return gemm_case(module.matmul, m, n, k, out, config=Config(**config), blocks=blocks)


def _integers(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(dtype)


def _exact(function: Any, arguments: list[Any], out: np.ndarray, expected: np.ndarray, **constants: Any) -> Case:
    return Case(
        traced(function, *arguments, **constants),
        lambda: np.testing.assert_array_equal(out, expected),
        lambda: out.fill(np.nan),
    )


def _product(m: int, n: int, k: int, direct_store: bool = False, **config: Any) -> Case:
    """A GEMM of one block, B stored (N, K) so that N may be any."""
    a, b, out = _integers(m, k), _integers(n, k), np.full((m, n), np.nan, np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    options = {"blocks": 1, "b_major": "k", "direct_store": direct_store}
    return _exact(cooperative.matmul, [a, b, out], out, expected, config=Config(**config), **options)


def _gathered(m: int, n: int, k: int) -> Case:
    """Rows start anywhere where K is odd, else at multiples of 4 bytes; B is stored (K, N) then."""
    a, b, out = _integers(m, k), _integers(k, n), np.full((m, n), np.nan, np.float32)
    pairs = k % 2 == 0
    majors = {"a_major": "k", "b_major": "mn" if pairs else "k"}
    options = {"config": gathered.config(n, pairs), "sms": 1, "pairs": pairs, **majors}
    stored = b if pairs else np.ascontiguousarray(b.T)
    return _exact(gathered.matmul, [a, stored, out], out, a.astype(np.float32) @ b.astype(np.float32), **options)


def _realigned(m: int, n: int, k: int) -> Case:
    """Rows that start anywhere, read as words."""
    a, b, out = _integers(m, k), _integers(n, k), np.full((m, n), np.nan, np.float32)
    words = [np.frombuffer(x.tobytes()[: x.nbytes // 16 * 16], np.int32).reshape(-1, 4) for x in (a, b)]
    options = {"config": realigned.config(n, nv.f16), "sms": 2, "both": True, "b_major": "k"}
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    return _exact(realigned.matmul, [a, words[0], b, words[1], out], out, expected, **options)


def _residues(m: int, n: int, k: int) -> Case:
    """Rows that TMA can't read together, read in turns of those that start at the same residue."""
    a, b, out = _integers(m, k), _integers(n, k), np.full((m, n), np.nan, np.float32)
    config = Config(64, 16, schedule="splitk", consumers=1, parts=2, stages=2, store_buffers=1)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    return _exact(residues.matmul, [a.reshape(1, -1), b, out], out, expected, config=config, sms=2)


def _short(m: int, n: int, k: int) -> Case:
    """By mma.sync, of operands that threads bring: by cp.async, or element by element where K is odd."""
    a, b, out = _integers(1, m, k), _integers(1, n, k), np.full((1, m, n), np.nan, np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)
    options = {"a_major": "k", "b_major": "k", "part": short.PART, "sms": 1}
    return _exact(short.matmul, [a, b, out], out, expected, **options)


def _flat(m: int, n: int, k: int) -> Case:
    """The same of operands that lie row behind row."""
    a, b, out = _integers(1, m, k), _integers(1, n, k), np.full((1, m, n), np.nan, np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)
    runs = a.reshape(1, 1, -1), b.reshape(1, 1, -1)
    return _exact(flat.matmul, [*runs, out], out, expected, sms=1)


def _turned(m: int, n: int, k: int, **config: Any) -> Case:
    """A of 32 bits with M contiguous, in registers."""
    a, b, out = (_integers(*shape, dtype=np.float32) for shape in ((k, m), (n, k), (m, n)))
    options = {"blocks": 1, "a_major": "mn", "b_major": "k"}
    return _exact(cooperative.matmul, [a, b, out], out, a.T @ b.T, config=Config(**config), **options)


def _small(m: int, n: int, k: int, split: int) -> Case:
    """By mma.sync: of several warps, or of a cluster's."""
    a, b, out = _integers(1, m, k), _integers(1, n, k), np.full((1, m, n), np.nan, np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)
    return _exact(small.matmul, [a, b, out], out, expected, split=split)


def _small_words(m: int, n: int, k: int, split: int) -> Case:
    """The same of rows that start anywhere, read by the vectors that lie in them."""
    a, b, out = _integers(1, m, k), _integers(1, n, k), np.full((1, m, n), np.nan, np.float32)
    words = [np.frombuffer(x.tobytes()[: x.nbytes // 16 * 16], np.int32)[None, None] for x in (a, b)]
    expected = a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)
    return _exact(small_words.matmul, [a, words[0], b, words[1], out], out, expected, split=split, sms=4)


def _vector(function: Any, m: int, k: int, by_columns: bool = False) -> Case:
    """A matrix times a vector, of which several blocks have parts of K."""
    a, b, out = _integers(1, m, k), _integers(1, 1, k), np.full((1, m, 1), np.nan, np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)
    stored = np.ascontiguousarray(a.swapaxes(1, 2)) if by_columns else a
    return _exact(function, [stored, b, out], out, expected, sms=2)


def _vector_by_words(m: int, k: int) -> Case:
    """The same of f64 whose rows start anywhere."""
    a, b, out = (x.astype(np.float64) for x in (_integers(1, m, k), _integers(1, 1, k), np.full((1, m, 1), np.nan)))
    words = [x.reshape(-1)[: x.size // 2 * 2].view(np.int32)[None, None] for x in (a, b)]
    arguments = [a, words[0], b, words[1], out]
    return _exact(gemv_words.rows, arguments, out, a @ b.swapaxes(1, 2), sms=3, acc_dtype=nv.f64)


def _few(m: int, n: int, k: int) -> Case:
    """Elements whose threads are in several warps, and some threads beyond the last element."""
    a, b, out = _integers(1, m, k), _integers(1, k, n), np.full((1, m, n), np.nan, np.float32)
    return _exact(simple.matmul, [a, b, out], out, a.astype(np.float32) @ b.astype(np.float32), sms=2)


def _epilogue(batches: int, m: int, n: int, k: int, **config: Any) -> Case:
    """2 * C and a bias are added: an operand that is brought into L2, and one that is held and handed around."""
    a, b, c = _integers(batches, m, k), _integers(batches, k, n), _integers(batches, m, n, dtype=np.float32)
    bias, out = _integers(1, n), np.full((batches, m, n), np.nan, np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32) + 2 * c + bias
    arguments = [a, b, out, 2.0, c, bias]
    options = {"blocks": 1, "epilogue_op": Elementwise(LinearCombination(c=True, bias=True), aligned=True)}
    return _exact(cooperative.matmul, arguments, out, expected, config=Config(**config), **options)


@nv.jit
def _packed(flat: nv.Array, out: nv.Array) -> None:
    """A copy of the transpose, and a copy of that."""
    rows, cols = out.shape
    pack.__wrapped__(contiguous(strided(flat, (rows, cols), (1, rows))), out, turned=False)


def _pack(rows: int, cols: int) -> Case:
    flat, out = _integers(cols, rows), np.full((rows, cols), np.nan, np.float16)
    return _exact(_packed, [flat, out], out, flat.T)


@nv.jit
def _packed_both(a: nv.Array, b: nv.Array, out: nv.Array) -> None:
    """A copy of one matrix, and of the transpose of another."""
    half, cols = out.shape[0] // 2, out.shape[1]
    parts = out.view((0, 0), (half, cols)), out.view((half, 0), (half, cols))
    pack_both.__wrapped__(a, parts[0], strided(b, (half, cols), (1, half)), parts[1], turned_a=False, turned_b=True)


def _pack_both(rows: int, cols: int) -> Case:
    a, b, out = _integers(rows, cols), _integers(cols, rows), np.full((2 * rows, cols), np.nan, np.float16)
    return _exact(_packed_both, [a, b.reshape(-1), out], out, np.concatenate((a, b.T)))


def _blockscaled(m: int, n: int, k: int, **config: Any) -> Case:
    """e4m3 with a scale for each block: powers of two, so that all sums are exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((m, k), (n, k)))
    blocks = k // 128
    scale_a, scale_b = (2.0 ** rng.integers(-1, 2, shape).astype(np.float32) for shape in ((m, blocks), (blocks, 1)))
    out = np.full((m, n), np.nan, np.float32)
    scaled_a = a.astype(np.float32) * np.repeat(scale_a, 128, axis=1)
    expected = scaled_a @ (b.astype(np.float32) * np.repeat(scale_b[:, 0], 128)).T
    arguments, chosen = [a, b, scale_a, scale_b, out], Config(tile_k=128, **config)
    return _exact(blockscaled.matmul, arguments, out, expected, config=chosen, blocks=1)


def _grouped(m: int, n: int, k: int, ends: list[int], **config: Any) -> Case:
    """Groups of rows, the last of which ends before the array does."""
    a, b, out = _integers(m, k), _integers(len(ends), k, n), np.full((m, n), np.nan, np.float32)
    expected = np.zeros_like(out)
    for i, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        expected[start:end] = a[start:end].astype(np.float32) @ b[i].astype(np.float32)
    arguments = [a, b, np.array(ends, np.int32), out]
    return _exact(grouped.matmul, arguments, out, expected, config=Config(**config), blocks=2)


def _grouped_k(m: int, n: int, ends: list[int], **config: Any) -> Case:
    a, b, out = _integers(ends[-1], m), _integers(ends[-1], n), np.full((len(ends), m, n), np.nan, np.float32)
    groups = list(zip([0, *ends], ends, strict=False))
    expected = np.stack([a[start:end].astype(np.float32).T @ b[start:end] for start, end in groups])
    arguments = [a, b, np.array(ends, np.int32), out]
    chosen = Config(**config)
    return _exact(grouped_k.matmul, arguments, out, expected, config=chosen, blocks=chosen.cluster)


def _quantized(m: int, n: int, k: int, module: Any, config: Any, group: int = 64) -> Case:
    """Groups of half a slice, or of another size, with zero points."""
    rng = np.random.default_rng(0)
    groups = k // group
    scales, zeros = 2.0 ** rng.integers(-1, 2, (groups, n)), rng.integers(0, 16, (groups, n))
    values = rng.integers(0, 16, (k, n))
    weight = nv.QuantizedWeight.pack(values, scales, zeros=zeros, group=group, bits=4)
    x, out = _integers(m, k), np.full((m, n), np.nan, np.float32)
    arguments = [x, weight.data, weight.scales, out, weight.zeros]
    expected = x.astype(np.float32) @ weight.dequantized()
    options = {"kind": "u4", "group": group, "zeros": True, "config": config}
    return _exact(module.matmul, arguments, out, expected, **options)


def _floats(*shape: int) -> np.ndarray:
    return _integers(*shape, dtype=np.float32)


def _told(function: Any, x: np.ndarray, scratch: list[np.ndarray], expected: np.ndarray, **constants: Any) -> Case:
    """One of `kernels`: ``scratch`` lies between the input and the result, and is as it was before each run."""
    out, start = np.full(expected.shape, np.nan, np.float32), [one.copy() for one in scratch]

    def reset() -> None:
        out.fill(np.nan)
        for one, was in zip(scratch, start, strict=True):
            one[...] = was

    program = traced(function, x, *scratch, out, **constants)
    return Case(program, lambda: np.testing.assert_array_equal(out, expected), reset)


def _collectives(function: Any) -> Case:
    x = _floats(256)
    return _told(function, x, [], group_kernels.EXPECTED[function.__name__](x))


def _nan(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)


def _counter() -> np.ndarray:
    return np.zeros(1, np.int32)


def _counts(x: np.ndarray) -> np.ndarray:
    return np.bincount(x.astype(int).ravel() + 3, minlength=32).astype(np.float32)


def _warp_product() -> Case:
    form = warp_products.Form(out="f16", to="tile", swizzles=(64, 64, 32), k=32)
    a, b, out = (np.rint(x * 2) for x in form.arguments())
    return _exact(warp_products.product, [a, b, out], out, form.expected(a, b).astype(np.float16), form=form)


def _specified() -> Case:
    a, b, out = _integers(32, 64), _integers(64, 32), np.full((32, 32), np.nan, np.float16)
    options = {"tile": (32, 32, 16), "warps": (2, 1), "stages": 3}
    gemm = load("tests/programs/graphene_gemm.py").gemm
    return _exact(gemm, [a, b, out], out, (a.astype(np.float32) @ b).astype(np.float16), **options)


def _layer() -> Case:
    """A product, and in its epilogue a scale of rows, a bias of columns, a residual, and stmatrix."""
    a, b, residual = _integers(64, 192), _integers(192, 64), _integers(64, 64)
    scale, bias = _floats(64), _floats(64)
    out = np.full((64, 64), np.nan, np.float16)
    x = scale[:, None] * (a.astype(np.float32) @ b.astype(np.float32)) + bias
    expected = 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))) + residual
    function = load("chapters/ch14_fused_epilogue.py").layer
    program = traced(function, a, b, scale, bias, residual, out, stages=2, tile=(64, 64, 64))

    def check() -> None:
        np.testing.assert_allclose(out, expected, rtol=4e-3, atol=4e-3)

    return Case(program, check, lambda: out.fill(np.nan))


def _layers(function: Any, rows: int, width: int, count: int, inner: bool = False, **constants: Any) -> Case:
    """``inner``: the last layer is activated, as those between are."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, width)).astype(np.float16)
    weights = (rng.standard_normal((count, width, width)) / np.sqrt(width)).astype(np.float16)
    biases, out = _floats(count, width), np.full((rows, width), np.nan, np.float16)
    expected = layers_of(x, weights, biases, "relu", "relu" if inner else None)
    arguments = [x, weights, biases, out] if inner else [x, out, weights, biases]
    program = traced(function, *arguments, **constants)
    return Case(program, lambda: np.testing.assert_allclose(out, expected, atol=2e-2), lambda: out.fill(np.nan))


def _gated_product() -> Case:
    a, b, out = _integers(128, 192), _integers(128, 192), np.full((128, 64), np.nan, np.float32)
    sums = a.astype(np.float32) @ b.astype(np.float32).T
    op = TileOp(Gated(relu), halves=2, pieces=True)
    options = {"config": Config(**_TILE), "blocks": 1, "b_major": "k", "epilogue_op": op}
    return _exact(cooperative.matmul, [a, b, out], out, np.maximum(sums[:, :64], 0) * sums[:, 64:], **options)


def _attention(
    function: Any, q: np.ndarray, k: np.ndarray, v: np.ndarray, more: list[np.ndarray], causal: bool, **constants: Any
) -> Case:
    """Attention of [rows, size] or [heads, rows, size]; ``more``: what the function takes behind its result."""
    out = np.full(q.shape, np.nan, q.dtype)
    s = (q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64)) / np.sqrt(q.shape[-1])
    p = np.exp(np.where(np.tri(q.shape[-2], k.shape[-2], dtype=bool), s, -np.inf) if causal else s)
    expected = p / p.sum(-1, keepdims=True) @ v.astype(np.float64)

    def reset() -> None:
        for one in (out, *more):
            one.fill(np.nan)

    program = traced(function, q, k, v, out, *more, causal=causal, **constants)
    return Case(program, lambda: np.testing.assert_allclose(out, expected, rtol=6e-3, atol=6e-3), reset)


def _gradients(case: backpropagating.Case) -> Case:
    """Attention's gradients of nvdsl/kernels."""
    program: list[Any] = []
    found, gradients = backpropagating.called(
        lambda *args, **constants: program.append(traced(*args, **constants)), case
    )

    def reset() -> None:
        for one in found:
            one.fill(np.nan)

    return Case(program[0], lambda: backpropagating.compare(found, gradients, case.dtype), reset)


@nv.jit
def _added_up(parts: nv.Array, logs: nv.Array, o: nv.Array, lse: nv.Array) -> None:
    combine(parts, logs, o, lse)


def _parts_of_attention() -> Case:
    """More parts than a block loads at once, of heads of more than a warp does; one of them saw nothing."""
    splits, queries, group, size = 37, 2, 2, 136
    parts, logs = _floats(splits, 1, queries, 1, group, size), _floats(splits, 1, group, queries)
    logs[5] = -np.inf
    o, lse = np.full(parts.shape[1:], np.nan, np.float32), np.full((1, *logs.shape[1:]), np.nan, np.float32)
    weights = np.exp(logs.astype(np.float64))
    each = (weights / weights.sum(0)).transpose(0, 1, 3, 2)[:, :, :, None, :, None]

    def check() -> None:
        np.testing.assert_allclose(o, (each * parts).sum(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(lse[0], np.log(weights.sum(0)), rtol=1e-5)

    return Case(traced(_added_up, parts, logs, o, lse), check, lambda: [x.fill(np.nan) for x in (o, lse)] and None)


def _attended(case: attending.Case) -> Case:
    """Attention of nvdsl/kernels."""
    q, k, v, o, lse = attending.arrays(case)
    program: list[Any] = []
    attending.call(lambda *args, **constants: program.append(traced(*args, **constants)), case, (q, k, v, o, lse))
    wanted = attending.expected(q, k, v, window=case.window)

    def reset() -> None:
        o.fill(np.nan)
        lse.fill(np.nan)

    return Case(program[0], lambda: attending.compare((o, lse), wanted, case.spread), reset)


def _paged_attention() -> Case:
    """Packed queries beside pages of keys, which two blocks of a cluster share."""
    q, k, v = (_floats(*shape).astype(np.float16) for shape in ((1, 68, 1, 1, 64), (9, 32, 1, 64), (9, 32, 1, 64)))
    starts, used = np.array([0, 3, 68], np.int32), np.array([35, 250], np.int32)
    table = np.array([[3, 0, 1, 1, 1, 1, 1, 1], [4, 2, 6, 1, 0, 5, 8, 7]], np.int32)
    o, lse = np.full(q.shape, np.nan, np.float16), np.full((1, 1, 1, 68), np.nan, np.float32)
    config = attending.Config((64, 64), 32, 1, pack=1, page=32, pingpong=False, cluster=2)
    program = traced(
        attending.attention, q, k, v, o, None, lse, 0.125, 0, 0, 1, 0.0, 0, starts, None, used, table, *[None] * 4,
        config=config, bounded=(False, True),
    )  # fmt: skip

    def check() -> None:
        for i, (first, end) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
            own = [x[table[i]].reshape(1, 256, 1, 64)[:, : used[i]] for x in (k, v)]
            wanted = attending.expected(q[:, first:end, 0], *own, causal=True)
            attending.compare((o[:, first:end, 0], lse[:, 0, :, first:end]), wanted)

    return Case(program, check, lambda: [x.fill(np.nan) for x in (o, lse)] and None)


def _attention_of_8_bits() -> Case:
    q, k, v = (_floats(1, n, 1, 64).astype(ml_dtypes.float8_e4m3fn) for n in (40, 150, 150))
    o, lse = np.full((1, 40, 1, 1, 64), np.nan, np.float16), np.full((1, 1, 1, 40), np.nan, np.float32)
    config = attending.Config((64, 64), 32, 1, pingpong=False, itemsize=1, lift=5.0, rescale_at=3.5)
    program = traced(
        attending.attention, q[:, :, None], k, v, o, None, lse, 0.125, 0, 0, 1, 0.0, 0, *[None] * 8, config=config,
        bounded=(False, False),
    )  # fmt: skip
    wanted = attending.expected(q, k, v)
    return Case(
        program, lambda: attending.compare((o[:, :, 0], lse[0]), wanted, tolerance=0.04),
        lambda: [x.fill(np.nan) for x in (o, lse)] and None,
    )  # fmt: skip


def _heads(heads: int, rows: int, keys: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((heads, n, 64)).astype(np.float16) for n in (rows, keys, keys)]


def _multiplied(function: Any, m: int, n: int, k: int, dtype: Any = np.float32, **options: Any) -> Case:
    a, b, out = _integers(m, k, dtype=dtype), _integers(k, n, dtype=dtype), _nan(m, n)
    return _exact(function, [a, b, out], out, a.astype(np.float32) @ b.astype(np.float32), **options)


def _schedule(steps: Any, m: int, n: int, k: int) -> Case:
    a, b, out = _integers(m, k), _integers(k, n), np.full((m, n), np.nan, np.float32)
    return _exact(sc.compile(sc.matmul(m, n, k), steps), [a, b, out], out, a.astype(np.float32) @ b.astype(np.float32))


_TILE = {"tile_m": 128, "tile_n": 64, "stages": 2}

SUBJECTS: dict[str, Callable[[], Case]] = {
    **{name: CASES[name] for name in _CHAPTERS},
    "cooperative": lambda: _matmul(cooperative, 128, 256, 192, 1, **{**_TILE, "tile_n": 128}),
    "cooperative, f16": lambda: _matmul(cooperative, 128, 128, 192, 1, np.float16, **_TILE),
    "cooperative, cluster": lambda: _matmul(cooperative, 256, 128, 192, 2, cluster_m=2, **_TILE),
    "cooperative, cluster of rows and columns": lambda: _matmul(
        cooperative, 256, 64, 192, 4, cluster_m=2, cluster_n=2, consumers=1, **{**_TILE, "tile_m": 64, "tile_n": 32}
    ),
    "cooperative, rolling": lambda: _matmul(
        cooperative, 512, 32, 320, 1, np.float16, **{**_TILE, "tile_m": 256, "tile_n": 32}
    ),
    "cooperative, epilogue": lambda: _epilogue(2, 128, 32, 192, **{**_TILE, "tile_n": 32}),
    "cooperative, direct": lambda: _product(
        64, 128, 320, direct_store=True, in_flight=0, **{**_TILE, "tile_m": 64, "consumers": 1, "store_buffers": 1}
    ),
    "cooperative, ragged": lambda: _product(136, 24, 192, **{**_TILE, "tile_n": 32}),
    "cooperative, gated": _gated_product,
    "pingpong": lambda: _matmul(pingpong, 256, 64, 192, 1, schedule="pingpong", **{**_TILE, "tile_m": 64}),
    "pingpong, cluster": lambda: _matmul(
        pingpong, 128, 256, 192, 2, np.float16, schedule="pingpong", cluster_n=2, **{**_TILE, "tile_m": 64}
    ),
    "stream-K": lambda: gemm_case(
        streamk.matmul, 512, 64, 192, config=Config(64, 64, schedule="streamk", stages=2), blocks=3, least=1
    ),
    "block scales": lambda: _blockscaled(256, 64, 512, **{**_TILE, "stages": 3}),
    "groups of rows": lambda: _grouped(
        192, 64, 192, [*[0] * 31, 64, 128, 140], schedule="pingpong", **{**_TILE, "tile_m": 64, "tile_n": 32}
    ),
    "groups along K": lambda: _grouped_k(128, 64, [100, 100, 230], **_TILE),
    "groups along K, cluster": lambda: _grouped_k(256, 64, [100, 100, 300], **_TILE, cluster_m=2),
    "weights of 4 bits": lambda: _quantized(16, 64, 2048, quantized, QuantizedConfig(16, 64, 2, 2, 2)),
    "weights of 4 bits, in turns": lambda: _quantized(16, 64, 1024, quantized, QuantizedConfig(16, 64, 2, 2), 128),
    "weights of 4 bits, few rows": lambda: _quantized(5, 64, 1536, quantized_few, FewRowsConfig(8, 64, 2, 2, 2)),
    "split-K": lambda: gemm_case(splitk.matmul, 128, 64, 640, config=Config(schedule="splitk", split=2, **_TILE)),
    "split-K, clusters": lambda: gemm_case(
        splitk.matmul, 64, 64, 1280, clusters=2, least=1,
        config=Config(64, 64, schedule="splitk", split=2, parts=2, stages=2, consumers=1, store_buffers=1),
    ),
    "split-K, groups of parts": lambda: gemm_case(
        splitk.matmul, 64, 64, 1920, clusters=10, least=1,
        config=Config(64, 64, schedule="splitk", parts=10, stages=2, consumers=1, store_buffers=1),
    ),
    "split-K, memory": lambda: gemm_case(
        splitk_memory.matmul, 64, 64, 640, config=Config(64, 64, parts=2, stages=2, consumers=1), blocks=2, least=1
    ),
    "cooperative, swapped": lambda: _matmul(
        cooperative, 64, 128, 320, 1, np.float16, swap_ab=True, **_TILE
    ),
    "short": lambda: _short(70, 130, 50),
    "short, elements": lambda: _short(70, 130, 61),
    "flat": lambda: _flat(130, 150, 20),
    "flat, odd": lambda: _flat(130, 140, 25),
    "small": lambda: _small(20, 9, 100, 1),
    "small, cluster": lambda: _small(9, 20, 520, 2),
    "small, by vectors": lambda: _small_words(20, 9, 277, split=2),
    "A of 32 bits in registers": lambda: _turned(
        136, 68, 100, tile_m=128, tile_n=64, tile_k=32, stages=3, consumers=2
    ),
    "gathered": lambda: _gathered(20, 9, 1501),
    "gathered, cp.async": lambda: _gathered(20, 18, 1100),
    "gathered, by words": lambda: _realigned(20, 9, 1163),
    "gathered, by residues": lambda: _residues(9, 13, 524),
    "simple, threads share an element": lambda: _few(3, 5, 700),
    "GEMV, rows": lambda: _vector(gemv.rows, 2, 66000),
    "GEMV, rows off the grid": lambda: _vector_by_words(3, 16387),
    "GEMV, columns": lambda: _vector(gemv.columns, 32, 2200, by_columns=True),
    "schedule, WMMA": lambda: _schedule(sc.wmma_steps((32, 64, 32), (32, 32)), 32, 64, 128),
    "schedule, wgmma": lambda: _schedule(sc.wgmma_steps((128, 64, 64), 2, without=["persistent"]), 128, 64, 256),
    "schedule, wgmma, persistent": lambda: _schedule(
        [sc.tile_blocks(128, 64, 64), sc.bufferize(), sc.stage(), sc.persistent(1), sc.wgmma(2)], 128, 128, 192
    ),
    "pack": lambda: _pack(66, 40),
    "pack, two": lambda: _pack_both(66, 40),
    "warp exchange": lambda: _told(kernels.warp_exchange, x := _floats(2, 8, 32), [], x + 1),
    "warp sums": lambda: _told(kernels.warp_sums, x := _floats(64), [], x.sum(keepdims=True)),
    "released by a lane": lambda: _told(kernels.released_by_a_lane, x := _floats(5, 32), [], 2 * x),
    "elected store": lambda: _told(kernels.elected_store, x := _floats(16, 64), [], 2 * x),
    "peer ring": lambda: _told(kernels.peer_ring, x := _floats(4, 32), [], np.tile(x.sum(0), (4, 1))),
    "launches": lambda: _told(kernels.launches, x := _floats(64), [_nan(64), _nan(64)], 3 * (x + 1)),
    "flag": lambda: _told(kernels.flagged, x := _floats(64), [_nan(64), _counter()], x[::-1] + 7),
    "flag by fences": lambda: _told(kernels.flagged_by_fences, x := _floats(64), [_nan(64), _counter()], x[::-1] + 7),
    "last block": lambda: _told(kernels.last_block, x := _floats(5, 64), [_nan(5, 64), _counter()], 2 * x.sum(0)),
    "last block by fences": lambda: _told(
        kernels.last_block, x := _floats(5, 64), [_nan(5, 64), _counter()], 2 * x.sum(0), fences=True
    ),
    "drawn": lambda: _told(kernels.drawn, x := _floats(7, 32), [_counter()], 2 * x),
    "turns": lambda: _told(kernels.in_turns, x := _floats(6, 32), [], x.cumsum(0)),
    "grid": lambda: _told(
        kernels.around_the_grid, x := _floats(3, 64), [_nan(3, 64), _counter()], np.roll(x, 2, axis=0) + 2
    ),
    "double buffering": lambda: _multiplied(
        load("chapters/simt/ladder.py").ahead, 16, 18, 20, tile=(16, 16, 8), threads=(4, 4)
    ),
    "Triton's program": lambda: _multiplied(
        load("tests/programs/triton_matmul.py").matmul, 34, 32, 72, np.float16, BLOCK_M=32, BLOCK_N=32, warps=(1, 2)
    ),
    "privatized": lambda: _told(kernels.privatized, x := _floats(3, 64), [], _counts(x)),
    "atomic sums": lambda: _told(kernels.atomic_sums, x := _floats(3, 64), [], x.sum(0)),
    "warp's product": _warp_product,
    "GEMM in specifications": _specified,
    "ch14": _layer,
    "ch16": lambda: _attention(
        load("chapters/ch16_online_softmax.py").attention, *(x[0] for x in _heads(1, 192, 192)), [], True
    ),
    "attention": lambda: _attended(
        attending.Case(
            40,
            130,
            group=3,
            window=(90, 0),
            dtype=np.float16,
            spread=30.0,
            config={"pack": 4, "blocks": 1, "tile_n": 16, "lazy": True},
        )
    ),
    "attention, paged": _paged_attention,
    "attention, e4m3": _attention_of_8_bits,
    "attention, backward": lambda: _gradients(
        backpropagating.Case(130, 300, window=(None, 0), tile_m=64, dtype=np.float16, blocks=1)  # three tiles of keys
    ),
    "attention, packed backward": lambda: _gradients(
        backpropagating.Case(
            0, 0, window=(None, 0), tile_m=64, dtype=np.float16, packed=((70, 140), (0, 3), (9, 0), (66, 30))
        )
    ),
    "attention, backward of 192": lambda: _gradients(
        backpropagating.Case(130, 100, tile_m=96, dtype=np.float16, ordered=True)  # three tiles of rows, two of keys
    ),
    "attention, backward of 256": lambda: _gradients(
        backpropagating.Case(260, 70, tile_m=0, dtype=np.float16, ordered=True)
    ),
    "attention, ordered backward": lambda: _gradients(  # by two blocks; two share each of two tiles of keys
        backpropagating.Case(130, 140, tile_m=64, dtype=np.float16, ordered=True, shares=2)
    ),
    "attention, parts": _parts_of_attention,
    "rnn": recurrent_cases.sequence,
    "lstm, backward": recurrent_cases.gradients,
    "lstm cell": recurrent_cases.cell,
    "ch18": lambda: _layers(load("chapters/ch18_mlp.py").mlp, 100, 64, 3, inner=True),
    "mlp": lambda: _layers(
        forward.mlp,
        340,
        64,
        3,
        config=MlpConfig(1, 2, 2, 1),
        blocks=2,
        major="k",
        weights=1,
        activation=relu,
        output_activation=None,
    ),
    "rows, moments of a cluster": row_cases.moments,
    "rows, ends": row_cases.ends,
    "rows, ends of a warp": row_cases.ends_of_a_warp,
    "rows, backward": row_cases.gradients,
    "rows, backward of clusters": row_cases.gradients_of_clusters,
    "rows, cross entropy": row_cases.cross_entropy,
    "column sums": lambda: _told(kernels.column_sums, x := _floats(3, 64, 8), [], x.sum(1)),
    "collectives": lambda: _collectives(group_kernels.rounds),
    "collectives, parts": lambda: _collectives(group_kernels.rounds_of_parts),
    "collectives, cluster": lambda: _collectives(group_kernels.rounds_of_a_cluster),
}


@cache
def subject(name: str) -> Subject:
    return Subject(name, SUBJECTS[name]())


def judged(name: str, numbers: list[int]) -> tuple[str, dict[int, Verdict]]:
    """The verdicts of these mutants of a kernel, by number."""
    one = subject(name)
    return name, {i: one.judge(one.mutants[i]) for i in numbers}
