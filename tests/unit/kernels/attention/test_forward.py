"""Attention forward: right in the simulator, and in machine code what makes it fast."""

import ast
import inspect
import itertools
import textwrap
from collections import Counter

import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import ToolchainError
from nvdsl.kernels.attention import forward
from nvdsl.kernels.attention.tiles import Tiles
from nvdsl.lower import toolchain
from nvdsl.verify.evaluate import evaluate
from tests.exhaustive import sample
from tests.sim.simulate import run
from tests.unit.kernels import trace
from tests.unit.kernels.attending import CASES, check
from tests.unit.kernels.sass import main_loop


@pytest.mark.parametrize(
    ("case", "level"), [(case, "traced") for case in CASES] + [(CASES[1], "nvvm")], ids=str
)
def test_in_the_simulator(case, level):
    check(lambda *a, **k: run(*a, **k, options=sim.Options(level=level, delivery="random", order="random")), case)


@pytest.mark.parametrize(("heads", "rows", "keys", "blocks", "causal"),
                         [(4, 512, 512, 0, True), (3, 300, 700, 5, False), (6, 1024, 1024, 7, True)])  # fmt: skip
def test_every_tile_comes_once(heads, rows, keys, blocks, causal):
    tiles = Tiles(heads, 1, rows, keys, 128, 64, 2**22, blocks, causal)
    found = Counter()

    def body():
        block = nv.thread_id.x
        for turn in range(-(-tiles.count // tiles.grid)):
            exists, (head, row) = tiles.rounds(block) > turn, tiles.place(block, turn)
            for t in range(tiles.grid):
                if evaluate(exists, t):
                    found[evaluate(nv.i32(head), t), evaluate(nv.i32(row), t)] += 1

    trace(body, block=128)
    assert found == {(h, r): 1 for h in range(heads) for r in range(0, rows, 128)}


def lines_of(name, source):
    """Lines of code of a function, without its docstring."""
    (node,) = [x for x in ast.walk(ast.parse(source)) if isinstance(x, ast.FunctionDef) and x.name == name]
    first = node.body[1] if ast.get_docstring(node) is not None else node.body[0]
    lines = source.splitlines()[first.lineno - 1 : node.end_lineno]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def test_it_reads_as_one_writes_it():
    source = textwrap.dedent(inspect.getsource(forward))
    assert lines_of("step", source) <= 35
    assert lines_of("kernel", source) <= 150
    assert "registers(" not in source and "shuffle" not in source


@pytest.fixture(scope="module")
def disassembler():
    try:
        return toolchain.disassembler()
    except ToolchainError as error:
        pytest.skip(str(error))


# Head size: instructions of the main loop and exponentials of the first attention kernel, written by registers.
BEFORE = {64: (425, 66), 128: (467, 66), 256: (466, 42)}


@pytest.mark.parametrize(("causal", "head_size"), sample(itertools.product((False, True), BEFORE), 3))
def test_the_main_loop(disassembler, head_size, causal):
    x = nv.ShapeDtype((16, 8192, head_size), nv.bf16)
    config = forward.config(head_size, causal, blocks=0)
    compiled = nv.jit(forward.attention.__wrapped__, strict=True).compile(
        x, x, x, x, nv.ShapeDtype((16, 8192), nv.f32), causal=causal, config=config
    )
    (kernel,) = compiled.kernels.values()
    loop = main_loop(kernel.sass())
    most, powers = BEFORE[head_size]
    assert len(loop) <= 1.03 * most
    waits = [i for i, text in enumerate(loop) if "WARPGROUP.DEPBAR.LE gsb0, 0x0" in text]
    exponentials = [i for i, text in enumerate(loop) if "MUFU.EX2" in text]
    assert len(exponentials) == powers
    assert sum(i < waits[0] for i in exponentials) >= powers * 60 // 66
    assert kernel.resources.spill_stores == 0
