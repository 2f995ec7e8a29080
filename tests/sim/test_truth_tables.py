"""Truth tables: every combination of each fence, wait and meeting, and the exact verdict in every schedule.

A table's rule says for one combination which kind of report comes, at which line (a piece of its text), or None.
Where two things are missing, either may be found first: then both kinds are given.
"""

import inspect
import itertools

import numpy as np
import pytest

from nvdsl import sim
from tests.exhaustive import exhaustive
from tests.sim import orders, orders_global
from tests.sim.simulate import traced, verdict_of, zeros

BOTH = (True, False)
ORDERS = ("order", "fence", "relaxed")
SCHEDULES = [
    sim.Options(),
    sim.Options.random(0),
    sim.Options(level="nvvm"),
    sim.Options.random(1),
    sim.Options(delivery="eager"),
    sim.Options.random(2),
    sim.Options(order="reverse"),
    sim.Options.random(3),
    sim.Options.random(4),
]


def floats(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def halves(*shape):
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float16)


def ints(*shape):
    return zeros(*shape, dtype=np.int32)


def stored(fence, meet):
    """fence.proxy.async and the barrier between ordinary stores and a TMA store."""
    if fence and meet:
        return None
    kinds = "raw" if fence else "proxy-fence" if meet else ("raw", "proxy-fence")
    return kinds, "out_tma.store"


def multiplied(fence, meet):
    """The same between ordinary stores and a wgmma that reads them: of its own stores a warp lacks the fence."""
    if fence and meet:
        return None
    return "raw" if fence else "proxy-fence", "acc += A @ B"


def loaded(meet, wait):
    """The block's meeting after mbarrier.init, and the wait for a copy's bytes."""
    if not wait:
        return "undelivered", "out[i, t] ="
    return None if meet else ("init-sync", "full.wait(0)")


def fenced(fence, commit, wait):
    """wgmma.fence, commit_group and wait_group."""
    if not fence:
        return "wgmma-fence", "result ="
    return None if commit and wait else ("accumulator-in-flight", ".store(d")


def bulk(commit, wait, read, reuse):
    """commit_group and wait_group (.read or not) between a bulk store and the end, or a store to its source."""
    if commit and wait:
        return None
    if reuse:
        return "war-store", "tile[0, t] = 2.0"
    return "exit-unread" if commit else "uncommitted-store", "out_tma.store"


def stored_and_read(wait, read, meet):
    """wait_group says that the bytes are in global memory, wait_group.read does not; a barrier tells others."""
    if wait and not read and meet:
        return None
    if meet:
        return "undelivered", "copy[i, t] ="
    return ("undelivered", "war"), "copy[i, t] =|out_tma.store"


def clustered(fence, meet):
    """The cluster's meeting after init: the block's is too little, and a relaxed one needs fence.mbarrier_init."""
    if meet == "cluster" or (meet == "relaxed" and fence):
        return None
    return "init-sync", "full.arrive_expect_tx|x_tma.load|full.wait(0)"


def refilled(empty, arrive):
    """The producer's wait at a slot's empty barrier, and the consumers' arrival there."""
    if empty:
        return None if arrive else ("deadlock", "free.wait(|full.wait(k)")
    return ("over-arrival", "mixed-rounds", "waw", "war"), "full.arrive_expect_tx|x_tma.load"


def named(producer, consumer):
    """bar.arrive and bar.sync of a named barrier."""
    if not consumer:
        return "raw", "out[t - 32] ="
    return None if producer else ("deadlock", "named_barrier_sync")


def crossed(sync, fence, bulk):
    """bar.warp.sync between lanes of a warp; before a bulk store the proxy fence, too."""
    if bulk and not fence:
        return "proxy-fence", "tma.bulk_store"
    return None if sync else ("warp-sync", "tma.bulk_store" if bulk else "out[t] = s[31 - t]")


def matrices(sync):
    """stmatrix stores for other lanes."""
    return None if sync else ("warp-sync", "out[t] = s[63 - t]")


def handed_over(release, acquire, meet_before, meet_after):
    """A flag between blocks: released, acquired, with the blocks' barriers around it. Without one after it the reader
    may come first, where its block starts first; without one before it the release or its fence speaks for one lane."""
    right = "relaxed" not in (release, acquire) and meet_before and meet_after
    if right:
        return None
    alone = "|llvm.store(const(1|nv.threadfence()" if not meet_before else ""
    return ("raw", "war", "warp-sync"), "out[t] = data[t]|data[t] = t + 7" + alone


def copied_over(fence, release):
    """Ordinary stores to global memory that another block reads by TMA."""
    if not release:
        return "raw", "data_tma.load"
    return None if fence in ("global", "all") else ("proxy-fence", "data_tma.load")


def dependent(programmatic, wait):
    """griddepcontrol.wait in all threads of a launch that may start early."""
    return None if not programmatic or wait == "all" else ("grid-dependency", "z[nv.thread_id.x] =")


def in_registers(fence, wait):
    """wgmma.fence after A's registers are written, wait_group before they are written again."""
    if not fence:
        return "wgmma-fence", "struct = nv.ops.wgmma.mma_async"
    return None if wait else ("fragment-in-flight", "struct = nv.ops.wgmma.mma_async")


TABLES = {
    stored: (lambda: [zeros(16, 64)], {}),
    multiplied: (lambda: [halves(64, 64), zeros(64, 64)], {}),
    loaded: (lambda: [floats(16, 64), zeros(16, 64)], {}),
    fenced: (lambda: [halves(64, 16), halves(16, 64), zeros(64, 64)], {}),
    bulk: (lambda: [zeros(16, 64)], {}),
    stored_and_read: (lambda: [zeros(16, 64), zeros(16, 64)], {}),
    clustered: (lambda: [floats(16, 64), zeros(32, 64)], {"meet": ("cluster", "relaxed", "block", "")}),
    refilled: (lambda: [floats(32, 64), zeros(32, 64)], {}),
    named: (lambda: [ints(32)], {}),
    crossed: (lambda: [ints(32)], {}),
    matrices: (lambda: [zeros(32, dtype=np.float16)], {}),
    handed_over: (lambda: [ints(4), ints(64), ints(64)], {"release": ORDERS, "acquire": ORDERS}),
    copied_over: (lambda: [ints(4), zeros(16, 64), zeros(64)], {"fence": ("global", "all", "shared::cta", None)}),
    dependent: (lambda: [floats(64), zeros(64), zeros(64)], {"wait": ("all", "one", "")}),
    in_registers: (lambda: [halves(16, 64), zeros(64, 64)], {}),
}


def rows():
    for rule, (_, switches) in TABLES.items():
        names = list(inspect.signature(rule).parameters)
        for values in itertools.product(*(switches.get(name, BOTH) for name in names)):
            row = dict(zip(names, values, strict=True))
            yield pytest.param(rule, row, id=f"{rule.__name__}-" + "-".join(f"{k}={v}" for k, v in row.items()))


def lines(function, texts):
    code, first = inspect.getsourcelines(function)
    found = {first + i for i, line in enumerate(code) for text in texts.split("|") if text in line}
    assert found, texts
    return found


@pytest.mark.parametrize("schedules", [SCHEDULES[:3], pytest.param(SCHEDULES, marks=exhaustive)], ids=["some", "all"])
@pytest.mark.parametrize(("rule", "row"), list(rows()))
def test_verdict(rule, row, schedules):
    name, make = rule.__name__, TABLES[rule][0]
    kernel = getattr(orders, name, None) or getattr(orders_global, name)
    expected, arrays = rule(**row), make()
    program = traced(kernel, *arrays, **row)
    for options in schedules:
        for array, fresh in zip(arrays, make(), strict=True):
            array[...] = fresh
        error = verdict_of(program, options)
        if expected is None:
            assert error is None, f"{options}: {error}"
            continue
        kinds, texts = expected
        assert error is not None, f"{options}: nothing was reported"
        assert error.kind in ((kinds,) if isinstance(kinds, str) else kinds), f"{options}: {error}"
        assert error.where.line in lines(kernel._function, texts), f"{options}: {error}"
