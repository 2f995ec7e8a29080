"""A simulator of Hopper kernels: runs a traced module on the CPU, and reports what would go wrong on a GPU.

`executable` makes a host function that runs here, as `nvdsl.driver.executable.build` does for a GPU. `run` makes one
and calls it. `wanted` says whether a call goes here.
The simulator reads MLIR, never the wrappers that made it.

What it does not model:

- Time, caches, bank conflicts; the order of a float sum (but see `Options.exact`).
- Memory order by the letter at shuffles and votes, which count as a meeting of their lanes (`lanes`); of a line that a
  warp executes again and again without a meeting, only the first access of each element of global memory is compared
  lane by lane.
- Old values of global memory but the last one: a load that may read one does so once (`atomics`). fence.sc makes all
  writes before it seen, which is more than it says.
- Registers, where it counts how many blocks an SM holds: only threads, shared memory and setmaxnreg do; nor GPUs other
  than an H200 (`schedule`).
- Undefined sums of a wgmma in vectors that a loop carries, and in what is decided by them (`undefined`); where operands
  end in memory that is laid out by hand, which belongs to no tile (`tiles`).
- Lanes that run on past the end of an ``if`` or a loop while others are still in it: they wait there (`parted`).
- Scopes of mbarrier waits: one that hands over another block's shared memory counts as ``.acquire.cluster``.
- Launches that overlap: a programmatic one runs after the one before, and is told where it did not wait.
- nvgpu's warpgroup ops by themselves: a kernel that has them is executed after convert-nvgpu-to-nvvm at either level.
- im2col and interleaved tensor maps, ``cf.switch``, vectors of more than one dimension in memory.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from nvdsl.errors import SimError, frames
from nvdsl.sim.options import Options

__all__ = ["Options", "executable", "record", "run", "wanted"]


def wanted(target: str | None = None) -> bool:
    """Whether a call runs on the simulator: as ``target`` says ("sim" or "gpu"), else as NVDSL_TARGET does, else where
    there is no Hopper GPU. Raises SimError for another target."""
    return _default() if target is None else _is_sim(target)


def _is_sim(target: str) -> bool:
    if not isinstance(target, str) or target not in ("sim", "gpu"):
        raise SimError(f"target={target!r}", kind="option", where=frames.caller(kernels=False),
                       rule="a call runs on the GPU or in the simulator",
                       fix='use "sim" or "gpu" (also in NVDSL_TARGET)')  # fmt: skip
    return target == "sim"


@functools.cache
def _default() -> bool:
    from nvdsl.driver.device import simulated

    _is_sim(os.environ.get("NVDSL_TARGET") or "sim")
    return simulated()


def record(blocks: int = 16) -> AbstractContextManager[Any]:
    """A context in which simulations are recorded (see `nvdsl.sim.recording`), up to ``blocks`` blocks of each launch:
    ``with record() as recording: ...; recording.write_trace(path)``."""
    from nvdsl.sim import recording

    return recording.record(blocks)


executables = 0
"""How many host functions this process has simulated, or is about to."""


def executable(
    module: Any,
    name: str,
    *,
    written: frozenset[int] | None = None,
    names: Sequence[str] | None = None,
    options: Options | None = None,
) -> Any:
    """The host function ``name`` of a traced module as an executable `driver.executable.Executable` on the simulator.

    ``written``: indices of the arguments that kernels write (None: all that they see). ``names``: the arguments' names.
    ``options``: default the environment's. Raises SimError for an op that has no semantics.
    """
    from nvdsl.sim.build import build

    global executables
    executables += 1
    return build(module, name, written, names, options or Options.from_environment())


def run(
    module: Any,
    name: str,
    values: Sequence[Any],
    specs: Sequence[Any],
    *,
    written: frozenset[int] | None = None,
    names: Sequence[str] | None = None,
    options: Options | None = None,
) -> Any:
    """Run a traced module's host function once. ``values`` and ``specs``: as `driver.executable.Executable` takes them.

    Raises SimError for a deadlock, a race, or anything else that is wrong with a kernel.
    """
    return executable(module, name, written=written, names=names, options=options)(values, specs)
