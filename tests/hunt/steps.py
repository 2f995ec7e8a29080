"""The steps of a random kernel: each hands the value of every thread on, in its own way, all of them right.

A step is a function of a `Draft`. It adds lines to it, which change the variable ``v`` of each thread, and changes the
model ``draft.values``, an array (blocks, threads), in the same way. Numbers are small integers: every sum is exact.
The lines know ``tid``, ``lane``, ``warp``, ``block`` and, in clusters, ``rank``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Draft:
    """A kernel that is being written. ``given``: input arrays by name; ``scratch``: arrays in global memory that every
    launch finds as they are here; ``host``, ``setup``, ``body``: lines before the kernel, at its start, and of it."""

    rng: random.Random
    warps: int
    blocks: int
    cluster: int
    given: dict[str, np.ndarray] = field(default_factory=dict)
    scratch: dict[str, np.ndarray] = field(default_factory=dict)
    host: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    values: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    names: int = 0
    barriers: int = 0

    @property
    def threads(self) -> int:
        return 32 * self.warps

    def name(self, what: str) -> str:
        self.names += 1
        return f"{what}{self.names}"

    def integers(self, *shape: int) -> np.ndarray:
        generator = np.random.default_rng(self.rng.getrandbits(32))
        return generator.integers(-4, 5, shape).astype(np.float32)

    def meet(self) -> str:
        """A barrier of the block, plain or named."""
        if self.barriers < 14 and self.rng.random() < 0.4:
            self.barriers += 1
            return f"nv.named_barrier_sync({self.barriers}, {self.threads})"
        return "nv.sync_threads()"

    def tile(self, rows: int = 0, cols: int = 0) -> str:
        """Shared memory of one row, or of a stack of ``rows`` rows."""
        name, shape = self.name("s"), (1, cols or self.threads)
        self.setup.append(f"{name} = nv.smem({(rows, *shape) if rows else shape}, nv.f32)")
        return name

    def mbarriers(self, count: int, arrivals: int) -> str:
        name = self.name("bars")
        self.setup.append(f"{name} = nv.Mbarriers({count}, arrivals={arrivals}, sync=False)")
        return name

    def lane_0(self) -> str:
        """One lane of a warp whose lanes are all there."""
        return self.rng.choice(["lane == 0", "nv.elect()"])


def through_the_block(draft: Draft) -> None:
    """Each thread reads what another one stored, some rounds."""
    by, plus, rounds = draft.rng.randrange(1, draft.threads), draft.rng.randrange(5), draft.rng.randint(1, 3)
    s, meet = draft.tile(), draft.meet()
    lines = [f"{s}[0, tid] = v", meet, f"v = {s}[0, (tid + {by}) % {draft.threads}] + {plus}.0"]
    draft.body += repeated(draft, rounds, lines, meet)
    for _ in range(rounds):
        draft.values = np.roll(draft.values, -by, axis=1) + plus


def through_the_warp(draft: Draft) -> None:
    """The same among the lanes of each warp."""
    by, rounds = draft.rng.randrange(1, 32), draft.rng.randint(1, 3)
    s = draft.tile()
    lines = [f"{s}[0, tid] = v", "nv.sync_warp()", f"v = {s}[0, warp * 32 + (lane + {by}) % 32]"]
    draft.body += repeated(draft, rounds, lines, "nv.sync_warp()")
    draft.values = np.roll(draft.values.reshape(draft.blocks, -1, 32), -by * rounds, axis=2).reshape(draft.values.shape)


def by_shuffle(draft: Draft) -> None:
    mask = draft.rng.randrange(1, 32)
    draft.body += [f"v = v + nv.shuffle_xor(v, {mask})"]
    lanes = draft.values.reshape(draft.blocks, -1, 32)
    draft.values = (lanes + lanes[..., np.arange(32) ^ mask]).reshape(draft.values.shape)


def ring_of_copies(draft: Draft) -> None:
    """One warp loads rows by TMA into a ring; the others add them up."""
    stages, steps, producer = draft.rng.randint(1, 4), draft.rng.randint(1, 6), draft.rng.randrange(draft.warps)
    x, s = draft.name("x"), draft.tile(stages)
    rows = draft.integers(draft.blocks, steps, draft.threads)
    draft.given[x] = rows.reshape(-1, draft.threads)
    draft.host.append(f"{x}_tma = nv.TMA({x}, tile=(1, {draft.threads}))")
    full, empty = draft.mbarriers(stages, 1), draft.mbarriers(stages, draft.warps - 1)
    i = draft.name("i")
    at, turn = f"{i} % {stages}", f"{i} // {stages}"
    draft.body += [
        f"if warp == {producer}:",
        f"    if {draft.lane_0()}:",
        f"        for {i} in nv.range({steps}):",
        *([f"            if {i} >= {stages}:", f"                {empty}[{at}].wait(({turn} + 1) % 2)"]
          if steps > stages else []),
        f"            {full}[{at}].arrive_expect_tx({4 * draft.threads})",
        f"            {x}_tma.load({s}[{at}], {full}[{at}], (block * {steps} + {i}, 0))",
        "else:",
        f"    for {i} in nv.range({steps}):",
        f"        {full}[{at}].wait({turn} % 2)",
        f"        v += {s}[{at}][0, tid]",
        "        nv.sync_warp()",
        f"        if {draft.lane_0()}:",
        f"            {empty}[{at}].arrive()",
    ]  # fmt: skip
    others = np.arange(draft.threads) // 32 != producer
    draft.values = draft.values + rows.sum(axis=1) * others


def ring_of_stores(draft: Draft) -> None:
    """One warp stores its value, step by step one larger, into a ring; another one adds them up."""
    stages, steps = draft.rng.randint(1, 3), draft.rng.randint(1, 6)
    producer, consumer = draft.rng.sample(range(draft.warps), 2)
    all_arrive = draft.rng.random() < 0.5
    s, i = draft.tile(stages, 32), draft.name("i")
    full, empty = draft.mbarriers(stages, 32 if all_arrive else 1), draft.mbarriers(stages, 1)
    at, turn = f"{i} % {stages}", f"{i} // {stages}"
    arrive = [f"{full}[{at}].arrive()"]
    if not all_arrive:
        arrive = ["nv.sync_warp()", f"if {draft.lane_0()}:", f"    {full}[{at}].arrive()"]
    draft.body += [
        f"if warp == {producer}:",
        f"    for {i} in nv.range({steps}):",
        *([f"        if {i} >= {stages}:", f"            {empty}[{at}].wait(({turn} + 1) % 2)"]
          if steps > stages else []),
        f"        {s}[{at}][0, lane] = v + nv.f32({i})",
        *[f"        {line}" for line in arrive],
        f"if warp == {consumer}:",
        f"    for {i} in nv.range({steps}):",
        f"        {full}[{at}].wait({turn} % 2)",
        f"        v += {s}[{at}][0, lane]",
        "        nv.sync_warp()",
        f"        if {draft.lane_0()}:",
        f"            {empty}[{at}].arrive()",
    ]  # fmt: skip
    warps = draft.values.reshape(draft.blocks, -1, 32).copy()
    warps[:, consumer] += steps * warps[:, producer] + sum(range(steps))
    draft.values = warps.reshape(draft.values.shape)


def to_the_peer(draft: Draft) -> None:
    """Each block stores into the shared memory of another one of its cluster, and all of these meet."""
    by, s = draft.rng.randrange(1, draft.cluster), draft.tile()
    peer = f"nv.mapa({s}.pointer(), (rank + {by}) % {draft.cluster})"
    draft.body += [
        f"llvm.store(v, byte_offset({peer}, tid * 4), alignment=4)",
        *draft.rng.choice([["nv.cluster_sync()"], ["nv.cluster_arrive()", "nv.cluster_wait()"]]),
        f"v = v + {s}[0, tid]",
    ]
    clusters = draft.values.reshape(-1, draft.cluster, draft.threads)
    draft.values = (clusters + np.roll(clusters, by, axis=1)).reshape(draft.values.shape)


def to_all_peers(draft: Draft) -> None:
    """One block loads a row for all blocks of its cluster."""
    x, s, full = draft.name("x"), draft.tile(), draft.mbarriers(1, 1)
    rows = draft.integers(draft.blocks // draft.cluster, draft.threads)
    draft.given[x] = rows
    draft.host.append(f"{x}_tma = nv.TMA({x}, tile=(1, {draft.threads}))")
    draft.body += [
        "if tid == 0:",
        f"    {full}[0].arrive_expect_tx({4 * draft.threads})",
        f"    if rank == {draft.rng.randrange(draft.cluster)}:",
        f"        {x}_tma.load({s}, {full}[0], (block // {draft.cluster}, 0), multicast_mask={2**draft.cluster - 1})",
        f"{full}[0].wait(0)",
        f"v += {s}[0, tid]",
    ]
    draft.values = draft.values + np.repeat(rows, draft.cluster, axis=0)


def by_a_flag(draft: Draft) -> None:
    """Each block publishes its values in global memory, and waits for another one's."""
    by, data, flags = draft.rng.randrange(1, draft.blocks), draft.name("data"), draft.name("flags")
    draft.scratch[data] = np.full((draft.blocks, draft.threads), np.nan, np.float32)
    draft.scratch[flags] = np.zeros(draft.blocks, np.int32)
    other = f"(block + {by}) % {draft.blocks}"
    draft.body += [
        f"{data}[block, tid] = v",
        draft.meet(),
        "if tid == 0:",
        f"    store_release({flags}, block, 1)",
        f"    while load_acquire({flags}, {other}) == 0:",
        "        pass",
        draft.meet(),
        f"v += {data}[{other}, tid]",
    ]
    draft.values = draft.values + np.roll(draft.values, -by, axis=0)


def stored(draft: Draft) -> None:
    """The end: ordinary stores, or TMA stores in some pieces through one part of shared memory."""
    pieces = draft.rng.choice([0, 1, 2])
    if not pieces:
        draft.body += ["out[block, tid] = v"]
        return
    width = draft.threads // pieces
    s = draft.tile(cols=width)
    draft.host.append(f"out_tma = nv.TMA(out, tile=(1, {width}))")
    for i in range(pieces):
        meet, last = draft.meet(), i == pieces - 1
        draft.body += [
            f"if tid // {width} == {i}:",
            f"    {s}[0, tid - {i * width}] = v",
            "    nv.fence_proxy_async()",
            meet,
            "if tid == 0:",
            f"    out_tma.store({s}, (block, {i * width}))",
            "    nv.bulk_commit_group()",
            f"    nv.bulk_wait_group(0{'' if last else ', read=True'})",
            *([] if last else [meet]),
        ]


def repeated(draft: Draft, rounds: int, lines: list[str], meet: str) -> list[str]:
    """The lines ``rounds`` times, with a meeting after each round."""
    if rounds == 1:
        return lines
    return [f"for {draft.name('i')} in nv.range({rounds}):", *("    " + line for line in [*lines, meet])]


ANYWHERE = (through_the_block, through_the_warp, by_shuffle, ring_of_copies, ring_of_stores)
CLUSTERS = (to_the_peer, to_all_peers)
BLOCKS = (by_a_flag,)
