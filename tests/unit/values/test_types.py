"""What a type checker says of programs that use nvdsl."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path

import pytest

from nvdsl.lower import options
from nvdsl.tune import settings

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = '''
from typing import Annotated, Any
import numpy as np
import nvdsl as nv

@nv.jit
def scale(x: Any, y: Any, by: float, *, block: int = 128) -> None:
    @nv.kernel(grid=1, block=block)
    def kernel(first: int) -> None:
        reveal_type(nv.lane_id())  # value
        reveal_type(nv.shuffle_xor(nv.lane_id(), 1))  # value
        reveal_type(nv.f32(nv.lane_id()))  # value
        reveal_type(nv.ballot(True))  # value
    reveal_type(kernel)  # kernel
    reveal_type(nv.zeros((2, 2), nv.f32))  # array
    kernel(0)

@nv.jit(strict=True)
def strict(x: Any, *, stages: int) -> None: ...

@nv.autotune(nv.Space(stages=[1, 2]))
@nv.jit
def tuned(x: Any, *, stages: int = 2) -> None: ...

@nv.autotune(nv.Space(stages=[1, 2]))
def bare(x: Any, *, stages: int = 2) -> None: ...

@nv.jit
def annotated(x: nv.Array, y: nv.Array) -> None: ...

@nv.jit
def dynamic(
    x: nv.Shaped[nv.Array, "m", "k % 8"], y: Annotated[nv.Array, "m", 64], z: nv.Shaped[nv.Array, ..., "m"]
) -> None:
    reveal_type(x)  # array
    reveal_type(y[0, 0])  # value
    nv.require(x.shape[0] % 8 == 0, "eights")
    x.view((0, 0), x.shape)[0, 0] = 1.0

reveal_type(dynamic)  # dynamic

a = np.ones((4, 4), np.float32)
reveal_type(scale)  # scale
reveal_type(scale(a, a, 2.0, block=64))  # none
reveal_type(strict)  # strict
reveal_type(tuned)  # tuned
reveal_type(bare)  # bare
reveal_type(scale.compile(a, a, 2.0))  # compiled
reveal_type(scale.compile(a, a, 2.0).ptx)  # str
reveal_type(tuned.tune(a))  # tuning
reveal_type(nv.matmul(a, a))  # product
reveal_type(nv.matmul(a, a, out=a, bias=a, alpha=2.0, activation="relu", acc_dtype=nv.f32))  # product
reveal_type(nv.cdiv(4, 2))  # int
v: nv.Value
i: nv.Int
tile: nv.Tile
stack: nv.TileStack
acc: nv.Accumulator
arr: nv.Array
bars: nv.Mbarriers
tma: nv.TMA
reveal_type(scale.compile(a, a, 2.0).kernels)  # kernels
reveal_type(nv.ShapeDtype((4, 4), nv.f16).shape)  # shape
scale(a, a, 2.0, target="sim")
nv.matmul(a, a, stream=3)
nv.autotune({"stages": [1, 2]}, heuristic=lambda x: {"stages": 1}, min_fill=0.5)
nv.autotune([{"stages": 1}, {"stages": 2}], table="mine")
scale(a, a, 2.0, stream=3, debug=True)
annotated(a, a)
annotated(a, a, target="sim")

def row_of(tile: nv.Int, rows: int) -> nv.Int:
    return tile * rows

@nv.jit
def gemm(a: nv.Array, b: nv.Array, d: nv.Array, flags: nv.Array, by: nv.Number, *, stages: int = 4) -> None:
    M, K = a.shape
    _, N = b.shape
    bm, bk = 128, 128 // a.dtype.bytes
    a_tma = nv.TMA(a, tile=(bm, bk), swizzle=128)
    b_tma = nv.TMA(b, (bk, 128), swizzle=128, fill="nan")

    @nv.kernel(grid=(M // bm, nv.cdiv(N, 128)), block=128, cluster=(2, 1))
    def kernel() -> None:
        A = nv.smem((stages, bm, bk), a.dtype, swizzle=128)
        B = nv.smem((stages, bk, 128), np.float16, swizzle=128)
        C, line = nv.smem([16, 16], nv.f32), nv.smem(128, nv.f32)
        one = nv.smem((16, 16), nv.f32)
        reveal_type(A)  # stack
        reveal_type(one)  # tile
        reveal_type(line)  # array
        reveal_type(A[stages - 1])  # tile
        row, col = row_of(nv.block_id.x, bm), nv.block_id.y * 128
        reveal_type(row)  # int or value
        reveal_type(col)  # value
        ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=4)
        acc = nv.accumulator(bm, 128)
        filling, state = ring.producer_state(), ring.consumer_state()
        for k in nv.range(K // bk):
            reveal_type(k)  # value
            if nv.thread_id.x == 0 and k < 7:
                full = ring.acquire(filling)
                a_tma.load(A[filling.stage], full, (row, k * bk), multicast_mask=3)
                b_tma.load(B[k % stages], full, [k * bk, col], predicate=nv.elect(), l2_hint=nv.L2_EVICT_LAST)
            filling = filling.next()
            ring.wait(state)
            acc += A[state.stage] @ B[0].T
            acc = acc.mma(A[0].rows(row, 64), B[0], scale_d=k > 0)
            nv.wgmma_wait(0)
            ring.release(state, nv.lane_id() == 0, rank=nv.cluster_rank() ^ 1)
            state = state.advance(k)
        acc = acc.map(lambda x: nv.max(x * by, 0.0))
        for r, c, x in acc.elements():
            d[row + r, col + c] = x
            d[0, c] += nv.math.exp2(x - 1)
        acc.store(d, (row, col))
        fragment = acc.fragment(nv.f16)
        acc += fragment @ B[0]

        reveal_type(a[row, 0])  # value
        reveal_type(line[3])  # value
        reveal_type(a[0:64, 0:64])  # array
        reveal_type(a[0:64, row])  # array
        reveal_type(a.view((row, 0), (64, 64))[0, col])  # value
        reveal_type(one[row, 3])  # value
        line[3], one[row, 3] = 1, line[row] + np.float32(2)
        d.store_vector(a.load_vector((row, 0), 4), (0, col))
        reveal_type(a.load_vector((row, 0), 4)[2])  # value

        bars = nv.Mbarriers(stages, arrivals=1, sync=False)
        bars[0].init(1, predicate=nv.thread_id.x == 0)
        bars[row].arrive(64, col == 0)
        bars[0].wait(True)
        bars[0].try_wait((row // 3) & 1, scope="cluster")
        reveal_type(bars[0].test_wait(1))  # value
        nv.bulk_load(line, flags, 512, bars[0])
        nv.mapa(bars[0].pointer, col % 2)

        total = nv.f32(0)
        for i in nv.range(0, np.int64(8), row, unroll=4):
            total += by * flags[i] / 2
            total = nv.select(total > 0, total, 0)
        i = nv.i32(0)
        while i < 3:
            i = i + 1 if i == 2 else i << 1
        at: nv.Int = 0
        for j in range(4):
            at = at + nv.shuffle_xor(i, 1 << j)
        if nv.vote_any(at == 0) or not nv.ballot(i > 2):
            nv.named_barrier_sync(1 + nv.warp_id(), 64)
        print(f"{total}", at)
    kernel()

def values(v: nv.Value, n: int, i: nv.Int, x: nv.Number, yes: nv.Bool) -> nv.Value:
    reveal_type(v + 1)  # value
    reveal_type(n - v)  # value
    reveal_type(1.5 * v)  # value
    reveal_type(np.float32(2) * v)  # value
    reveal_type(v // np.int32(2))  # value
    reveal_type(-(v % 4) ** 2)  # value
    reveal_type(v == 0)  # value
    reveal_type(v != v)  # value
    reveal_type(0 <= v)  # value
    reveal_type((v < 3) & yes)  # value
    reveal_type(i + 1)  # int or value
    reveal_type(i * i // n)  # int or value
    reveal_type(nv.min(v, 3))  # value
    reveal_type(nv.max(3, v))  # value
    reveal_type(nv.max(3, n, 4))  # int
    reveal_type(nv.min([1.5, 2.5]))  # float
    reveal_type(nv.min(i, n) // 2)  # int or value
    reveal_type(nv.min(n, 3, v))  # value
    reveal_type(nv.max(v))  # value
    x = nv.max(x * 2 + i, nv.math.fma(x, 2.0, 1))
    reveal_type(nv.clamp(v, 0, n))  # value
    reveal_type(nv.clamp(i, 0, n))  # int or value
    reveal_type(nv.abs(i))  # int or value
    reveal_type(nv.select(v > 0, n, 2.0))  # value
    reveal_type(nv.select(n > 0, n, v))  # int or value
    reveal_type(nv.select(n > 0, 1, 2))  # int
    reveal_type(nv.math.exp(v))  # value
    reveal_type(nv.math.exp(2))  # float
    reveal_type(nv.math.fma(n, v, 2.0))  # value
    reveal_type(nv.const(0, nv.i32))  # value
    reveal_type(nv.const(1, v))  # value
    reveal_type(nv.bitcast(v, nv.i32))  # value
    reveal_type(nv.u8(x))  # value
    reveal_type(v[0])  # value
    for element in v:
        v += element * x
    return v

lay = nv.layout.Layout(((2, 2), 8), ((1, 4), 8))
lay((1, i), 3), lay @ (4, None), lay / (2, 4), nv.layout.row_major(4, (2, i)), lay.slice((None, 3))
reveal_type(nv.layout.accumulator_element(0, 3)[0])  # int
reveal_type(nv.layout.accumulator_element(v, 3)[0])  # value
'''

EXPECTED = {
    "value": '"nvdsl.values.traced.Value"',
    "array": '"nvdsl.lang.array.Array"',
    "kernel": "def (first: int)",
    "scale": r"nvdsl.call.jit.Jit[[x: Any, y: Any, by: float, *, block: int = ...]]",
    "dynamic": r"nvdsl.call.jit.Jit[[x: nvdsl.lang.array.Array, y: nvdsl.lang.array.Array, z: nvdsl.lang.array.Array]]",
    "strict": r"nvdsl.call.jit.Jit[[x: Any, *, stages: int]]",
    "tuned": r"nvdsl.tune.autotune.Autotuned[[x: Any, *, stages: int = ...]]",
    "bare": r"nvdsl.tune.autotune.Autotuned[[x: Any, *, stages: int = ...]]",
    "none": "None",
    "compiled": "nvdsl.call.compiled.Compiled",
    "str": "str",
    "tuning": "nvdsl.tune.result.Tuning",
    "product": "numpy.ndarray",
    "int": '"int"',
    "float": '"float"',
    "int or value": '"int | nvdsl.values.traced.Value"',
    "tile": '"nvdsl.lang.tile.Tile"',
    "stack": '"nvdsl.lang.tile_stack.TileStack"',
    "kernels": "dict[str, nvdsl.lower.result.KernelBinary]",
    "shape": "tuple[int | str, ...]",
}

WRONG = {
    'nv.matmul("a", a)': 'of "matmul" cannot be "str"',
    "nv.matmul(a, a, output=a)": 'Unexpected keyword argument "output"',
    "nv.matmul(a, 3)": 'has incompatible type "int"; expected "ArrayLike"',
    'nv.matmul(a, a, stream="main")': 'has incompatible type "str"',
    "nv.jit(strikt=True)": 'Unexpected keyword argument "strikt"',
    "nv.autotune(nv.Space(stages=[1]), heuristics=None)": 'Unexpected keyword argument "heuristics"',
    "nv.autotune(3)": 'has incompatible type "int"',
    'scale.compile(a, a, 2.0).report("x")': "Too many arguments",
    'scale.compile(a, a, 2.0).kernels["kernel"].sas()': 'has no attribute "sas"',
    "nv.cdiv(1)": 'No overload variant of "cdiv"',
    "nv.kernel(1, 2)(lambda x: None)(1, 2)": "Too many arguments",
    "scale.compiled": 'has no attribute "compiled"',
    'nv.smem("128", nv.f16)': 'incompatible type "str"',
    'nv.smem((8, 8), "f32")': 'No overload variant of "smem"',
    "nv.smem((v, 8), nv.f32)": 'incompatible type "tuple[Value, int]"',
    "nv.smem((8, 8), nv.f32, 128)": 'No overload variant of "smem"',
    "nv.Ring(2.5, bytes=1024)": 'incompatible type "float"; expected "int"',
    "nv.Ring(4)": 'Missing named argument "bytes"',
    "nv.PipelineState(v)": 'incompatible type "Value"; expected "int"',
    "nv.accumulator(64)": 'Missing positional argument "n"',
    "nv.accumulator(v, 64)": 'incompatible type "Value"; expected "int"',
    "acc += tile": 'incompatible type "Tile"; expected "Product | ',
    "tile @ 2": 'Unsupported operand types for @ ("Tile" and "int")',
    "tile[3]": 'No overload variant of "__getitem__" of "Tile"',
    "tile[3, 1.5]": 'Invalid index type "tuple[int, float]" for "Tile"',
    "tile + 1": 'Unsupported operand types for + ("Tile" and "int")',
    "stack[0, 1]": 'Invalid index type "tuple[int, int]" for "TileStack"',
    "arr[1.5]": 'No overload variant of "__getitem__"',
    "arr[0:4] = 1": "Invalid index type",
    'arr[0] = "1"': "Incompatible types in assignment",
    "arr + 1": 'Unsupported operand types for + ("Array" and "int")',
    "bars[0].wait(0.5)": 'incompatible type "float"',
    "bars.wait(0)": '"Mbarriers" has no attribute "wait"',
    "nv.TMA(arr, 'a')": 'incompatible type "str"',
    "tma.load(tile, bars[0])": 'Missing positional argument "coords"',
    "tma.load(stack, bars[0], (0, 0))": 'incompatible type "TileStack"; expected "Tile | Array"',
    "tma.load(tile, bars, (0, 0))": 'incompatible type "Mbarriers"; expected "Mbarrier"',
    "nv.range(2.0)": 'incompatible type "float"',
    "nv.range(4, unroll='full')": 'incompatible type "str"',
    "nv.kernel(grid=1, block=v)": 'incompatible type "Value"',
    "nv.kernel(grid='1', block=1)": 'incompatible type "str"',
    "v + '1'": 'Unsupported operand types for + ("Value" and "str")',
    "v < None": 'Unsupported operand types for < ("Value" and "None")',
    "1 + arr": 'Unsupported operand types for + ("int" and "Array")',
    "v ** 0.5": 'Unsupported operand types for ** ("Value" and "float")',
    "nv.f32('1')": 'incompatible type "str"',
    "nv.math.exp(arr)": "No overload variant",
    "nv.select(v > 0, 'a', 'b')": "No overload variant",
    "nv.shuffle(v, 1.0)": 'incompatible type "float"',
    "nv.wgmma_wait(v)": 'incompatible type "Value"; expected "int"',
    "nv.sync_threads(1)": "Too many arguments",
    "nv.layout.Layout('8')": 'incompatible type "str"',
    "n: int = v + 1": 'expression has type "Value", variable has type "int"',
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Lines of what mypy says, by line of the program."""
    api = pytest.importorskip("mypy.api")
    folder = tmp_path_factory.mktemp("typed")
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM) + "".join(f"{line}\n" for line in WRONG))
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    out, err, _ = api.run([*settings, str(program)])  # with other options, the cache would be written anew
    found = re.findall(r"program\.py:(\d+): (?:error|note): (.*)", out)
    assert found, out + err
    lines = {}
    for number, text in found:
        lines.setdefault(int(number), []).append(text)
    return program.read_text().splitlines(), lines


def test_what_is_revealed(said):
    program, lines = said
    revealed = {i: line.rpartition("# ")[2] for i, line in enumerate(program, 1) if "reveal_type" in line}
    assert len(revealed) == PROGRAM.count("reveal_type")
    for number, name in revealed.items():
        (text,) = lines[number]
        text = text.replace("builtins.", "").replace("=]", "= ...]")  # how a default is written changes with mypy
        assert EXPECTED[name] in text, (program[number - 1], text)


def test_programs_that_are_right_are_right(said):
    program, lines = said
    for number, text in lines.items():
        line = program[number - 1]
        assert "reveal_type" in line or line in WRONG, (line, text)


def test_what_is_wrong_is_found(said):
    program, lines = said
    found = {line: lines.get(program.index(line) + 1, []) for line in WRONG}
    assert not {line: found[line] for line, text in WRONG.items() if not any(text in one for one in found[line])}


@pytest.mark.parametrize(
    ("given", "made"), [(options.ChosenOptions, options.Options), (settings.GivenSettings, settings.Settings)]
)
def test_keyword_arguments_are_the_fields(given, made):
    assert list(given.__annotations__) == [field.name for field in dataclasses.fields(made)]
