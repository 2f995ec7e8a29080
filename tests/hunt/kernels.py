"""Drawing a correct kernel: its text, its arrays, and what must come out."""

from __future__ import annotations

import random
import textwrap

import numpy as np

from tests.differential.programs import _module
from tests.hunt import steps
from tests.sim.programs import Case
from tests.sim.simulate import traced

_SOURCE = """\
import nvdsl as nv
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.pointer import byte_offset


@nv.jit
def program(x, {arguments}out):
{host}
    @nv.kernel(grid={blocks}, block={threads}, cluster={cluster})
    def kernel():
        tid, lane, warp, block = nv.thread_id.x, nv.lane_id(), nv.warp_id(), nv.block_id.x
{setup}
{body}

    kernel()
"""


def draw(seed: int, number: int) -> tuple[str, Case]:
    """Kernel ``number`` of a seed: its text, and what `tests.sim.mutants.judge.Subject` takes."""
    rng = random.Random(f"{seed}.{number}")
    cluster = rng.choice([1, 1, 2, 4])
    draft = steps.Draft(rng, rng.choice([2, 2, 3, 4]), cluster * rng.choice([1, 2, 3]), cluster)
    x = draft.values = draft.integers(draft.blocks, draft.threads)
    ways = [
        *steps.ANYWHERE * 2,
        *(steps.CLUSTERS * 3 if cluster > 1 else ()),
        *(steps.BLOCKS if draft.blocks > 1 else ()),
    ]
    for _ in range(rng.randint(1, 4)):
        rng.choice(ways)(draft)
    steps.stored(draft)
    text = _text(draft)
    return text, _case(_module(text).program, x, draft)


def _text(draft: steps.Draft) -> str:
    setup = list(draft.setup)
    if draft.cluster > 1:
        setup += ["rank = nv.cluster_rank()", "nv.fence_mbarrier_init()", "nv.cluster_sync()"]
    else:
        setup += ["nv.fence_mbarrier_init()", "nv.sync_threads()"]
    return _SOURCE.format(
        arguments="".join(f"{name}, " for name in (*draft.given, *draft.scratch)),
        host=textwrap.indent("\n".join(draft.host), " " * 4),
        setup=textwrap.indent("\n".join(setup), " " * 8),
        body=textwrap.indent("\n".join(["v = x[block, tid]", *draft.body]), " " * 8),
        blocks=draft.blocks, threads=draft.threads, cluster=draft.cluster,
    )  # fmt: skip


def _case(function: object, x: np.ndarray, draft: steps.Draft) -> Case:
    out, scratch = np.full_like(x, np.nan), {name: start.copy() for name, start in draft.scratch.items()}

    def reset() -> None:
        out.fill(np.nan)
        for name, start in draft.scratch.items():
            scratch[name][...] = start

    program = traced(function, x, *draft.given.values(), *scratch.values(), out)
    return Case(program, lambda: np.testing.assert_array_equal(out, draft.values), reset)
