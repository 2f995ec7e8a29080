"""The mutants that nobody reports, or at another line, and why that is right. Each entry must fit at least one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.sim.mutants.judge import Verdict
from tests.sim.mutants.operators import Mutant

_FENCE = (
    "no bug here: threads of the block see the init after its barrier, those of a cluster after the cluster's, whose "
    "arrive releases what came before; the fence alone counts where that arrive is relaxed"
)
_GROUP = (
    "no bug here: a wgmma and its group are the warpgroup's, so that the wait before it says that all four warps' "
    "products are done (PTX ISA, wgmma.wait_group)"
)
_TWICE = "no bug here: the program waits, and the wrapper of the store waits once more; each makes the other redundant"


@dataclass(frozen=True)
class Entry:
    """Patterns, each for all of it: the subject's name, the mutation's kind and text. ``reason``: for the table."""

    subject: str
    kind: str
    name: str
    reason: str

    def fits(self, subject: str, mutant: Mutant) -> bool:
        given = ((self.subject, subject), (self.kind, mutant.kind), (self.name, mutant.name))
        return all(re.fullmatch(pattern, text) for pattern, text in given)


_FIRST = (
    "no bug here: a block stores one tile, and this comes before the first time that a piece of shared memory is "
    "written, which no store has read"
)
_STARTED = "cooperative.*|pingpong.*|split-K.*|stream-K|A of 32 bits.*"  # loads begin before the block has met
_STRAIGHT = "ch[7-9]|(?!ch|compat).*"  # the first product of a tile starts the sum
_WGMMA_WAIT = "(without|one more group left in) nvvm.wgmma.wait.group.sync.aligned"

ENTRIES = (
    Entry("gathered.*", "tile index|slot of a tile",
          "one further in dimension 0|(32|64) further in dimension [01]|the next slot's tile .*",
          "reported at the product that reads the slot; or in a piece of the result that lies beyond its edge"),
    Entry("gathered.*", ".*", "the next barrier in nvgpu.mbarrier.try_wait.parity",
          "no bug here: the same threads fill one slot after the other, and the one behind is full later"),
    Entry("gathered.*", "tile index", "one further in dimension 1",
          "no rule is broken: the element beside it is inside of the piece; the numbers tell"),
    Entry("gathered, cp.async", "swizzle of wgmma", "swizzle 64, not 128",
          "reported where sums of what nobody wrote are stored, with the line of the product that read it"),
    Entry("gathered(, by words)?", ".*", "without nvgpu.mbarrier.try_wait.parity|a phase that never flips",
          "a deadlock, reported at the wait of the other side of the ring"),
    Entry("split-K, (clusters|groups of parts)|gathered.*|cooperative, cluster of rows and columns", "named barrier",
          "another number in nvvm.barrier",
          "no bug here: the only consumer stores, and all of it meets at the other number"),
    Entry("cooperative.*|pingpong.*|stream-K|split-K.*|gathered.*|attention(?!.*backward).*|"
          "(small|short|flat|weights|groups|pack).*|block sc.*|A .*", ".*", "without nvvm.griddepcontrol wait",
          "no bug here: it waits for kernels before this one in the stream, and there is none"),
    Entry("attention,.* backward", "griddepcontrol deleted", ".*",
          "reported at the load that it guards, which another function makes"),
    Entry(_STARTED, ".*", "[+-]1 in arith.addi|compared with ., not .",
          "no bug here: before the block has met one slice is loaded, and nobody asks for the place after it (later "
          "another tile is computed: the numbers tell)"),
    Entry("cooperative, ragged", ".*", "compared with 25, not 24",
          "no bug here: tiles at the edge are multiplied like any others, by products that are told their size"),
    Entry("attention.* backward", ".*", "without nvvm.wgmma.commit.group.sync.aligned",
          "reported at the wait for the group behind, which has both products then"),
    Entry("attention, packed backward", ".*", "(without|the next barrier in) nvgpu.mbarrier.arrive|[+]1 in arith.addi",
          "no bug here: no sequence takes a third slot before the first one is free again"),
    Entry("rows, (cross entropy|moments.*)", ".*", "(without|[+]1 arrivals in) nvgpu.mbarrier.init|without gpu.barrier",
          "no bug here: numbers are exchanged once, two of three mbarriers are not used, and the cluster meets behind"),
    Entry(".*", "fence deleted", "without nvvm.fence.mbarrier.init", _FENCE),
    Entry("ch4|ch1[45]|compat ch4", "barrier deleted", "without gpu.barrier", _GROUP),
    Entry("attention", ".*", "lane 0 alone in nvgpu.mbarrier.try_wait.parity",
          "no bug here: a wgmma is the whole warp's, and its lanes come to it with lane 0"),
    Entry("attention", ".*", "a phase that never flips|compared with 3, not 2",
          "no bug here: a block has one tile of queries"),
    Entry("attention", "tile index|slot of a tile", "one further in dimension 0|the next slot's tile .*",
          "no rule is broken: it multiplies another tile of values, which is there; the numbers tell"),
    Entry("split-K.*", ".*", "lane 0 alone in nvgpu.mbarrier.try_wait.parity", "no bug here: lane 0 alone loads"),
    Entry("small.*", ".*", "one further in dimension 0",
          "no rule is broken: the row behind is another one's sum in the same memory; the numbers tell"),
    Entry("GEMV, rows.*|simple.*", ".*", "all threads, not one", "no bug here: all lanes of a warp have its sum"),
    Entry("gathered.*", ".*", "lane 0 alone in nvgpu.mbarrier.try_wait.parity",
          "no bug here: lanes meet before they write, and lane 0 has waited"),
    Entry("gathered.*", "barrier deleted", "without nvvm.barrier",
          "no bug here: a block stores one tile, of which the second piece lies beyond the edge: no store reads it, or "
          "has read the first one before it is written"),
    Entry("gathered.*|rows, (moments.*|ends|backward of clusters)", "sync_warp deleted", ".*",
          "no bug here: it keeps loads from moving up, and orders nothing"),
    Entry("rows, cross entropy", "tile index", "one further in dimension 0",
          "reported where the next row is read, which it wrote over"),
    Entry("rows, ends", ".*", "without nvgpu.device_async_copy|one further in dimension 0",
          "no rule is broken: the place holds the zeros that stand for what the row lacks; the numbers tell"),
    Entry("rows, backward.*", ".*", "without nvvm.bar.warp.sync|lane 0 alone in nvgpu.mbarrier.try_wait.parity",
          "no bug here: shuffles before and after it keep the warp together"),
    Entry("rows, backward of clusters", ".*",
          "(without|the next barrier in|other parity in) nvgpu.mbarrier.try_wait.parity",
          "no bug here before the first turn, when nobody has read; or reported where a st.async is left under way"),
    Entry("rows, backward", "stage distance", "-1 in arith.addi",
          "no rule is broken: it is what was given or copied for another turn; the numbers tell"),
    Entry("gathered.*", ".*", ".* nvvm.vote.sync|(relaxed|block's, not device's,) in llvm.load",
          "no bug here: one cluster has all of K, and nobody waits for others' sums"),
    Entry("schedule, wgmma.*", ".*", "the next barrier in nvgpu.mbarrier.*|without nvgpu.mbarrier.arrive|"
          "a ring of 1 slots, not 2|a phase .*|[+-]1 in arith.subi|other parity.*",
          "a deadlock, reported at the wait of the other side of the ring, which is in the same rewritten loop"),
    Entry("double buffering", "tile index", "one further in dimension 0",
          "no rule is broken: the row behind is inside of the tile; the numbers tell"),
    Entry("attention, e4m3", ".*", "lane 0 alone in nvgpu.mbarrier.try_wait.parity|without nvvm.bar.warp.sync",
          "no bug here, or reported where V is read: ldmatrix and wgmma are whole warps', and lane 0 comes last"),
    Entry("attention, e4m3", ".*",
          "the next slot's tile .*|(without|the next barrier in) nvgpu.mbarrier.try_wait.parity|-1 arrivals .*",
          "reported where V is read from the slot, of another turn, and not where its place is computed"),
    Entry("attention, e4m3", ".*", "one further in dimension 0",
          "no rule is broken: it multiplies another tile of values, which is there; the numbers tell"),
    Entry("attention, e4m3", ".*", "(without|another number in) nvvm.barrier",
          "no bug here: the only consumer has read all keys, and all of it meets at the other number"),
    Entry("attention, e4m3", ".*", "without nvgpu.mbarrier.arrive",
          "no bug here: the last release of a block's only tile, which nobody waits for"),
    Entry("attention, paged", ".*", "without nvvm.(barrier|bar.warp.sync|cluster.wait)",
          "no bug here: the only consumer has read all keys, and warps that store nothing need not wait"),
    Entry("attention, paged", ".*", "(the next barrier in|without) nvgpu.mbarrier.(arrive|try_wait.parity)",
          "no bug here: a block has one tile of queries: its first slots are free, and nobody waits for the last ones"),
    Entry("attention.* backward", ".*", "the next barrier in nvgpu.mbarrier.(arrive.expect_tx|try_wait.parity)",
          "no bug here: two slots are filled one after the other, and each expects the other's bytes: as many"),
    Entry("attention.* backward", ".*", "without nvgpu.mbarrier.try_wait.parity",
          "no bug here: a slot of Q is freed after the slot of dO of the same number, and waited for before"),
    Entry("attention.* backward", ".*", "all threads, not one", "no bug here: lanes without bulk groups wait for none"),
    Entry("attention.* backward", ".*", "without nvvm.bar.warp.sync",
          "no bug here: the named barrier behind it counts all lanes, and so the one that has waited"),
    Entry("attention.* backward", ".*", "the next slot's tile .*",
          "reported where the numbers are read from the slot, and not where its place is computed"),
    Entry("attention.* backward", ".*", "(without|lane 0 alone in) nvvm.fence.proxy|global, not shared",
          "no bug here: a consumer fences again, a step later, between the other's stores and the product of them"),
    Entry("attention, backward", ".*", "(without|the next barrier in) nvgpu.mbarrier.arrive",
          "no bug here: the slots of a block's last tile, which nobody waits for"),
    Entry("attention.* backward", ".*", "another number in nvvm.barrier",
          "no bug here: both consumers meet at the other number, which nobody else has"),
    Entry("attention.* backward", ".*", "(without|-32 threads in) nvvm.barrier",
          "reported at the product that reads what the other consumer stores"),
    Entry("attention.* backward", ".*", "(without|one more group left in) nvvm.wgmma.wait.group.sync.aligned",
          "no bug here: the slot of dO that is freed is filled after that of Q, and Q is freed behind the next wait"),
    Entry("attention, packed backward", ".*", "without nvvm.cp.async.bulk.wait_group|a phase that never flips",
          "no bug here: no sequence takes a slot, or a buffer of dQ, for the second time"),
    Entry("attention, packed backward", "tile index", "one further in dimension 0",
          "in rows beyond the sequence's end, which nobody adds"),
    Entry("attention, packed backward", ".*", "compared with 1, not 0|-1 in arith.addi",
          "a deadlock, reported at the wait of the other side of the ring"),
    Entry("attention, parts", "lane predicate", "all threads, not one",
          "no bug here: all lanes of the warp store the same number"),
    Entry("attention, packed backward", "arrival count", "[+-]1 arrivals in nvgpu.mbarrier.init",
          "no bug here: no block takes a slot of K for the second time"),
    Entry("attention, packed backward", ".*", "other parity in nvgpu.mbarrier.try_wait.parity",
          "reported at a wait of the warp that draws tiles, which is lapped then"),
    Entry("attention, packed backward", ".*", "a phase of 128 steps, not 64",
          "no bug here: a tile of keys begins with rows that see none of it, which the mask makes zeros"),
    Entry("attention, backward", ".*", "[+-]1 in arith.addi|a ring of 1 slots, not 2",
          "reported where the warps that add up dQ store another tile's numbers, or wait for them"),
    Entry("attention, backward", ".*", "block's, not device's, in llvm.atomicrmw",
          "no bug here: one block draws all tiles"),
    Entry("attention, backward", "tile index", "one further in dimension 0",
          "no rule is broken: the row behind is another tile's; the numbers tell"),
    Entry("attention(, packed)? backward|attention, backward", ".*", "compared with 3, not 2",
          "no bug here: no sequence takes a third slot before the first one is free again"),
    Entry("rnn|lstm, backward", "named barrier", "another number in nvvm.barrier",
          "no bug here: one warpgroup multiplies, and all of it meets at the other number, which nobody else has"),
    Entry("rnn|lstm, backward", "stage distance", "-1 in arith.addi",
          "reported where h is written anew: this warpgroup went on without a slice that is on its way yet"),
    Entry("rows, backward", "slot of a tile", "the next slot's tile .*",
          "reported where the row is read from the slot, of another turn, and not where its place is computed"),
    Entry("ch16", ".*", "one further in dimension 0",
          "reported where the undefined sums are divided and stored, and not at the product that reads beyond V"),
    Entry("ch16", "barrier deleted", "without gpu.barrier",
          _GROUP + "; and of two barriers after the inits of mbarriers the first one is not needed"),
    Entry("ch18", "barrier deleted", "without gpu.barrier",
          "of two barriers after the inits of mbarriers the first one is not needed; and the one between two layers is "
          "reported at the next product, which reads what other warps store"),
    Entry("mlp", ".*", "the next slot's tile .*",
          "reported where the weights are loaded or multiplied, which lie behind the only slot of x"),
    Entry("mlp", ".*", "the next barrier in nvgpu.mbarrier.get",
          "no bug here: the first of two slots waits for the second one's release then, and is taken before it"),
    Entry("mlp", "named barrier", "another number in nvvm.barrier",
          "no bug here: this barrier is the only one of its number, and any free one does"),
    Entry("compat ch5", "barrier deleted", "without nvvm.barrier", _GROUP),
    Entry("compat ch[45]", "wait deleted|one more in flight", _WGMMA_WAIT, _TWICE),
    Entry("compat ch2", "swizzle of TMA", "swizzle_128b, not none",
          "no rule is broken: the other side are ordinary accesses, which compute their addresses themselves, and that "
          "they mean a swizzle is in no instruction; the numbers tell"),
    Entry("attention, packed backward", "swizzle of TMA", "none, not swizzle_.*",
          "no bug here: threads store the gradients of packed sequences, and no copy uses the map"),
    Entry(_STARTED, "slot of a barrier", "the next barrier in nvgpu.mbarrier.arrive.expect_tx",
          "no bug here: before the block meets, the bytes of all slots are expected, once each; the order is free"),
    Entry("(cooperative|pingpong), cluster.*", ".*",
          "the next barrier in nvgpu.mbarrier.try_wait.parity|a phase that never flips",
          "of the waits with which a block of a cluster ends: the other block is never so late here that it releases a "
          "slot after that; the numbers can't tell"),
    Entry("split-K, clusters", ".*", ".* nvvm.vote.sync|(relaxed|block's, not device's,) in llvm.load",
          "one other cluster hands sums on here, and has done so before the wait in each schedule"),
    Entry("cooperative, ragged", ".*",
          "none, not swizzle_128b|the next barrier in nvgpu.mbarrier.get|without nvvm.cp.async.bulk.*",
          "no bug here: of the maps for the last rows one is not used where the tile is whole"),
    Entry("split-K.*", "barrier deleted", "without nvvm.cluster.wait",
          "no bug here: the producer has nothing left to do, and its block stays for the consumers, who wait"),
    Entry("cooperative, direct|split-K, memory", "named barrier", "another number in nvvm.barrier",
          "no bug here: one warpgroup is alone with its barriers, and any number does"),
    Entry("cooperative, ragged", "barrier deleted", "without nvvm.barrier",
          "reported at the first product, which reads the zeros that the barrier is for"),
    Entry("cooperative, ragged", "named barrier", "another number in nvvm.barrier",
          "no bug here: this barrier is the only one of its number, and any free one does"),
    Entry("cooperative, ragged", "stage distance", "compared with (-1, not 0|(1|3), not 2|(127|129), not 128)",
          "no bug here: a tile at the edge may be loaded whole, or short once its slot was filled"),
    Entry(_STRAIGHT, "fence deleted", "without nvvm.wgmma.fence.aligned",
          "no bug here: wgmmas of one shape on one accumulator need no fence between them (PTX ISA, wgmma.fence)"),
    Entry("(?!ch|compat).*", "commit deleted", "without nvvm.cp.async.bulk.commit.group",
          "no bug here: the store joins the next one's group, which is waited for where its own was"),
    Entry("ch6|split-K.*|cooperative, swapped", "wait deleted|one more in flight",
          ".* nvvm.cp.async.bulk.wait_group", _FIRST),
    Entry("ch6|split-K.*|cooperative, swapped", "barrier deleted", "without nvvm.barrier", _FIRST),
    Entry("ch9|pingpong.*|stream-K", "named barrier", "another number in nvvm.barrier.arrive",
          "reported at the wgmma that runs ahead: a turn that came too early lets it wait for a phase that is over"),
    Entry("flag|flag by fences", "lane predicate", "all threads, not one",
          "no bug here: all threads of the block store the same flag, or look at it"),
    Entry("collectives", "barrier deleted", "without gpu.barrier",
          "no bug here: since the scratch was used in the round before, all have met at another collective's barrier"),
    Entry("warp sums|collectives.*|rows, backward", "lane predicate", "all threads, not one",
          "no bug here: all lanes hold the sum, and store the same number at the same place"),
    Entry("pack.*", "tile index", "one further in dimension .",
          "no rule is broken: it is another element of the same tile (the numbers tell), or one that nobody moves"),
    Entry("flat.*", "tile index", "one further in dimension 1",
          "no rule is broken: it is another element of the same run; the numbers tell"),
    Entry("warp exchange|GEMM in specifications", "tile index", "one further in dimension .",
          "no rule is broken: it is another element of the same tile; the numbers tell"),
    Entry("compat ch5", "lane predicate", "lane 0 alone in nvgpu.mbarrier.try_wait.parity",
          "no bug here: the producer's other lanes do nothing"),
    Entry("cooperative, (epilogue|gated)|attention", "sync_warp deleted", ".*",
          "no bug here: it keeps loads from moving up, and orders nothing"),
    Entry("split-K.*", "sync_warp deleted", ".*",
          "the cluster's barrier wants whole warps, and the simulator lets lanes meet where a branch ends"),
    Entry("cooperative, (f16|epilogue|ragged|gated|swapped|cluster of.*)|split-K.*|pingpong, cluster", "tile index",
          "one further in dimension 0",
          "no bug here: a consumer stores one piece, and its other buffer is as free"),
    Entry("turns", "named barrier", "another number in nvvm.barrier.arrive",
          "reported where the turns overlap: who waits got another one's turn, and reads while that one stores"),
    Entry("privatized", "tile index", "one further in dimension 0",
          "no rule is broken: it counts in another bin; the numbers tell"),
    Entry("released by a lane", "stage distance", "compared with 1, not 2",
          "no bug here: a wait for the phase before the first one returns at once"),
    Entry("groups of rows", "membermask", "half of the lanes in nvvm.shfl.sync",
          "no bug here: a block looks for few tiles, and not every place where it does goes on to 32 groups more"),
    Entry("groups of rows", "named barrier", "another number in nvvm.barrier.arrive",
          "reported where a turn is waited for that nobody passes on"),
    Entry("groups of rows", "tile index", "one further in dimension 0",
          "no rule is broken: it is another row of the same piece, or the consumer's other buffer, which is as free"),
    Entry("weights of 4 bits.*", "lane predicate", "all threads, not one",
          "no bug here: all threads of the block store the same number"),
    Entry("weights of 4 bits", ".*", "lane 0 alone in nvgpu.mbarrier.try_wait.parity",
          "no bug here: whose turn it is says nothing of memory"),
    Entry("weights of 4 bits", ".*", "-1 arrivals in nvgpu.mbarrier.init|one further in dimension 1",
          "reported where a turn is passed on, which came between and speaks for one lane"),
    Entry("weights of 4 bits, in turns", ".*",
          "-1 arrivals in nvgpu.mbarrier.init|.* in nvgpu.mbarrier.arrive|.*nvgpu.mbarrier.try_wait.parity",
          "no bug here: turns are for speed, as slots are one team's; or reported where a turn is passed on"),
    Entry("weights of 4 bits", ".*", "twice the stride",
          "no rule is broken: it reads bytes of the slot beside it, which are there; the numbers tell"),
    Entry("weights of 4 bits", "slot of a barrier", "the next barrier in nvgpu.mbarrier.(arrive|try_wait.parity)",
          "no bug here: slots are filled and freed in their order, so that the next one says as much or more"),
    Entry("weights of 4 bits, few rows", "slot of a barrier", "the next barrier in nvgpu.mbarrier.arrive.expect_tx",
          "no bug here: at the start each slot expects the bytes of another one, and all have as many"),
    Entry("weights of 4 bits.*", "slot of a tile", "the next slot's tile .*",
          "reported where the weights of that slot are read, whose barrier the warp did not wait for either"),
    Entry("weights of 4 bits.*", "tile index", "one further in dimension 0",
          "no rule is broken: it is the sum of another row (the numbers tell), or all rows move by one"),
    Entry("groups along K.*", ".*", "-1 in arith.subi|compared with -1, not 0",
          "reported where slots are waited for: who loads and who multiplies take another group's slices"),
    Entry("cooperative, swapped|split-K, memory", "arrive deleted", "without nvgpu.mbarrier.arrive",
          "no bug here: the slots of a block's last slices, which nobody waits for"),
    Entry("A of 32 bits in registers", "stage distance", "compared with .*",
          "no bug here: no tile's end lies between the two"),
    Entry("A of 32 bits in registers", "tile index", "one further in dimension .",
          "no rule is broken: it is another element of the same tile; the numbers tell"),
    Entry("cooperative, ragged|A of 32 bits in registers", "copy deleted|slot of a barrier",
          "(without|the next barrier in) nvgpu.tma.async.load|the next barrier in nvgpu.mbarrier.get",
          "no bug here: before the block has met, a tile at the edge is loaded whole, not through the short box"),
)  # fmt: skip


def explain(subject: str, mutant: Mutant, verdict: Verdict) -> Entry | None:
    """The entry for a mutant that was not reported, or at another line; None where nothing explains it."""
    if verdict.good:
        return None
    return next((entry for entry in ENTRIES if entry.fits(subject, mutant)), None)
