"""The forward kernel: right in the simulator, and in machine code what makes it fast."""

import inspect
import itertools
import math
import re
import textwrap
from collections import Counter
from dataclasses import dataclass

import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import ToolchainError
from nvdsl.kernels.attention import forward
from nvdsl.kernels.attention.choose import choose
from nvdsl.kernels.attention.scores import Rows, ScoreKind, Scores
from nvdsl.kernels.attention.tiles import Place, Sight, Tiles
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.lower import toolchain
from nvdsl.verify.evaluate import evaluate
from tests.exhaustive import sample
from tests.sim.simulate import run
from tests.unit.kernels import trace
from tests.unit.kernels.attending import CASES, check, signature
from tests.unit.kernels.sass import loops


@pytest.mark.parametrize(
    ("case", "level"),
    sample([(case, "traced") for case in CASES], 5) + sample([(case, "nvvm") for case in CASES], 1),
    ids=str,
)
def test_in_the_simulator(case, level):
    check(lambda *a, **k: run(*a, **k, options=sim.Options(level=level, delivery="random", order="random")), case)


@dataclass
class Padded:
    """Stands for `Sequences` of one length."""

    count: int
    rows: int
    most_keys: int
    packed: bool = False


@pytest.mark.parametrize(
    ("shape", "descending", "splits"),
    [((2, 3, 1, 300, 700, 128, 1), False, None), ((1, 2, 6, 100, 4000, 16, 4), True, 3)],
)
def test_every_tile_comes_once(shape, descending, splits):
    batches, kv_heads, group, queries, keys, positions, pack = shape
    tiles = Tiles(Padded(batches, queries, keys), kv_heads, group, positions, pack, 2**12, descending, splits)
    found = Counter()

    def body():
        place = tiles.place(nv.thread_id.x)
        for t in range(tiles.count):
            found[tuple(evaluate(nv.i32(x), t) for x in place)] += 1

    trace(body, block=128)
    axes = range(batches), range(kv_heads), range(0, group, pack), range(0, queries, positions), range(splits or 1)
    assert found == dict.fromkeys(itertools.product(*axes), 1)


def _branching(s, batch, head, query, key):
    if key > 7:
        s = -math.inf if query < key else s
    return s


@pytest.mark.parametrize(
    ("function", "hides"),
    [
        (lambda s, batch, head, query, key: nv.where(query >= key, s, -math.inf), True),
        (_branching, True),
        (lambda s, *_: s, True),
        (lambda s, batch, head, query, key: nv.where(query >= key, s, -1e9), False),
        (lambda s, batch, head, query, key: s - nv.f32(query - key), False),
        (lambda s, *_: nv.where(s > 0.0, s, -math.inf), False),
        (lambda s, *_: s * 2.0, False),
    ],
)
def test_a_function_that_only_hides_needs_no_scale_before(function, hides):
    def body():
        scale = nv.f32(nv.thread_id.x)
        scores = Scores(ScoreKind(function=function), scale, 0.0, None, ())
        rows = Rows(Place(*(nv.i32(0) for _ in range(5))), nv.i32(0), 1, 1)
        rows.see(Sight(nv.i32(9), nv.i32(9), None, None), None)
        scores.settle(rows, nv.i32(0))
        assert (not scores.told, scores.unit is scale, scores.hides) == (hides, hides, True)

    trace(body)


@pytest.mark.parametrize("window", [(None, None), (None, 0), (None, 37), (20, 0), (100, 100), (0, 0), (5, None)])
@pytest.mark.parametrize(("queries", "keys"), [(100, 300), (300, 100), (1, 1), (64, 64)])
def test_the_tiles_of_keys_that_are_seen(window, queries, keys):
    """All keys that a query sees are in its tile's steps, and all steps that are not masked are seen by all."""
    sight, tile = Sight(queries, keys, *window), 16

    def seen(i):
        left, right = (queries + keys if x is None else x for x in window)
        return [j for j in range(keys) if i + keys - queries - left <= j <= i + keys - queries + right]

    for first, splits in itertools.product(range(0, queries, 32), (1, 3)):
        parts, counts = [], []
        for split in range(splits):
            steps = sight.steps(first, 32, tile, split, Divisor(splits))
            numbers = [steps.top - step for step in range(steps.count)]
            counts.append(max(steps.end // tile - numbers[-1], 0))
            parts += [number for number in numbers if number * tile < steps.end]
            for i in range(first, min(first + 32, queries)):
                for number in numbers[steps.masked : steps.count - steps.masked_last]:
                    assert set(range(number * tile, (number + 1) * tile)) <= set(seen(i))
        assert len(set(parts)) == len(parts)
        assert max(counts) - min(counts) <= 1
        for i in range(first, min(first + 32, queries)):
            assert {j // tile for j in seen(i)} <= set(parts)


def test_it_reads_as_one_writes_it():
    source = textwrap.dedent(inspect.getsource(forward))
    assert "registers(" not in source and "shuffle" not in source


@pytest.fixture(scope="module")
def disassembler():
    try:
        return toolchain.disassembler()
    except ToolchainError as error:
        pytest.skip(str(error))


def overlapping(loop):
    """The opcodes between the waits for the scores and for the product before, for a tile whose keys are all seen: what
    a jump may leave out is left out. None where there are no such waits."""
    waits = [re.search(r"WARPGROUP.DEPBAR.LE gsb0, 0x([01])", text) for text in loop]
    scores = next((i for i, wait in enumerate(waits) if wait and wait[1] == "1"), len(loop))
    product = next((i for i, wait in enumerate(waits) if i > scores and wait and wait[1] == "0"), scores)
    found, at = [], scores
    while at < product:
        found.append(loop[at].split()[loop[at].startswith("@")])
        ahead = re.search(r"BRA.*\+(\d+)$", loop[at])
        at += int(ahead[1]) if ahead else 1
    return found


LOOPS = [
    *itertools.product((False, True), (64, 128, 256), (8192,)),
    (False, 256, 512),
    (True, 256, 512),
    (True, 64, 512),
]


@pytest.mark.parametrize(("bounded", "size", "keys"), sample(LOOPS, 2))
def test_the_main_loop(disassembler, size, bounded, keys):
    """Strictly compiled: a spill or a wgmma that is waited for is an error. All exponentials stand between the wait for
    the scores and that for the product before; none is behind it."""
    config, _ = choose(
        size, size, 16, keys, 16, 16, keys, bounded=bounded, packed=False, page=0, told=False, splits=None, sms=132
    )
    assert (config.o_columns > 0, config.consumers) == (
        keys == 512 and size == 256,
        3 if size == 64 and keys > 512 else 2,
    )
    kernel = nv.jit(forward.attention.__wrapped__, strict=True)
    compiled = kernel.compile(*signature(config.sizes), config=config, bounded=(False, bounded))
    (found,) = compiled.kernels.values()
    assert found.resources.spill_stores == 0
    between = min((part for loop in loops(found.sass()) if (part := overlapping(loop))), key=len)
    powers = config.tile_n // 2
    assert between.count("MUFU.EX2") == powers + 2 * (not config.lazy)
    assert between.count("FMNMX") < 8 if config.lazy else between.count("FMNMX") > powers
    assert len(between) < (3.5 if config.lazy else 5.5) * powers
