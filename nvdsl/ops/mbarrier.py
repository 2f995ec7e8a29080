"""mbarrier: barriers in shared memory that count arrivals and bytes.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". An mbarrier completes a
phase when its pending arrivals and its pending transaction bytes are both zero; it then starts the
next phase, whose parity is the other one. The first phase has parity 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, llvm, nvgpu, nvvm, scf
from nvdsl.ops.cluster import mapa
from nvdsl.ops.fence import fence_mbarrier_init
from nvdsl.ops.pointer import SHARED, i32, index, pointer_type, predicate, require_integer, under
from nvdsl.ops.warp import linear_thread_id, sync_threads
from nvdsl.values import scope
from nvdsl.values.extents import constant_fix
from nvdsl.values.python_numbers import plain
from nvdsl.values.traced import Value, as_value, const
from nvdsl.values.typing import Bool, Int, Pointer

DEFAULT_TICKS = 10_000_000
"""Upper bound in nanoseconds of one suspension inside ``try_wait``; the wait itself goes on."""

ACQUIRE_CLUSTER = "nvdsl.acquire_cluster"
"""The attribute of a wait that acquires at cluster scope: nvgpu's op has no scope."""


class Mbarriers:
    """A group of mbarriers in shared memory (``nvgpu.mbarrier.create``); ``group[i]`` is one of them.

    With ``arrivals`` the group is ready to use: thread 0 initializes every mbarrier to that many arrivals a phase, the
    inits are fenced, and with ``sync=True`` the block waits for them. It stands for

        bars = Mbarriers(n)
        if thread_id.x == 0:
            for i in range(n): bars[i].init(arrivals)
        fence_mbarrier_init(); sync_threads()

    In a cluster pass ``sync=False`` and call `cluster_sync` once after all groups.
    """

    def __init__(
        self, number_of_barriers: int = 1, *, arrivals: int | None = None, sync: bool = True
    ) -> None:
        scope.current("Mbarriers")
        number_of_barriers = plain(number_of_barriers)
        if not isinstance(number_of_barriers, int) or number_of_barriers < 1:
            raise trace_error(
                f"Mbarriers of {number_of_barriers!r}",
                rule="the number of barriers is a Python int of at least 1",
                fix=constant_fix("pass the number of pipeline stages", number_of_barriers),
            )
        self.number_of_barriers = number_of_barriers
        self.mbar_ty = ir.Type.parse(
            "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, "
            f"num_barriers = {number_of_barriers}>"
        )
        self.mbar_group_op = nvgpu.mbarrier_create(self.mbar_ty)
        if arrivals is not None:
            self._initialize(arrivals)
            if sync:
                sync_threads()

    def _initialize(self, arrivals: int) -> None:
        is_first = linear_thread_id() == 0
        with ir.InsertionPoint(scf.IfOp(is_first).then_block):
            for i in range(self.number_of_barriers):
                self[i].init(arrivals)
            fence_mbarrier_init()
            scf.yield_([])

    def __len__(self) -> int:
        return self.number_of_barriers

    if not TYPE_CHECKING:  # a type checker says that there is none

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or not hasattr(Mbarrier, name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise trace_error(
                f"{name} of {self.number_of_barriers} mbarriers",
                rule="threads arrive and wait at one of them",
                fix=f"barriers[stage].{name}(...), and barriers[0] of a single one",
            )

    def __getitem__(self, key: Int) -> Mbarrier:
        if isinstance(key, int) and not 0 <= key < self.number_of_barriers:
            raise trace_error(
                f"mbarrier {key} of a group of {self.number_of_barriers}",
                rule=f"a group's barriers are 0 to {self.number_of_barriers - 1}",
                fix="index with `k % stages`",
            )
        return Mbarrier(self, key)


class Mbarrier:
    """One mbarrier of a group, ``group[i]``. Taking it emits nothing but the index."""

    def __init__(self, group: Mbarriers, key: Int) -> None:
        self.group = group
        self.key = key
        self.id_op = index(key)

    @property
    def mbar_group_op(self) -> ir.Value:
        """The group that it belongs to, an ``!nvgpu.mbarrier.group`` value. (The name is that of LLVM's examples.)"""
        return self.group.mbar_group_op

    @property
    def pointer(self) -> Pointer:
        """Address of the mbarrier, ``!llvm.ptr<3>``."""
        i64 = ir.IntegerType.get_signless(64)
        address = nvgpu.mbarrier_get(i64, self.mbar_group_op, self.id_op)
        return llvm.inttoptr(pointer_type(SHARED), address)

    def init(self, count: Int, predicate: Bool | None = None) -> None:
        """Set the arrivals of each phase to ``count`` (``mbarrier.init``); by one thread, once."""
        if isinstance(count, int) and not 1 <= count <= arch.MBARRIER_MAX_COUNT:
            raise trace_error(
                f"mbarrier.init with {count} arrivals",
                rule=f"the count is 1 to {arch.MBARRIER_MAX_COUNT} (PTX ISA, mbarrier.init)",
                fix="count the arrive operations of one phase",
            )
        nvgpu.mbarrier_init(self.mbar_group_op, index(count), self.id_op, predicate=_i1(predicate))

    def arrive(self, txcount: Int = 0, predicate: Bool | None = None, *, count: Int = 1) -> None:
        """Arrive once (``mbarrier.arrive``); with ``txcount`` also expect so many bytes.

        ``txcount`` is in bytes (``mbarrier.arrive.expect_tx``). With ``predicate`` only the threads where it is true
        arrive, by one predicated instruction. ``count``: arrive so many times at once, for others, too; 1 or more.
        Raises TraceError for a count that is none, and with ``txcount``.
        """
        once = isinstance(count, int) and count == 1
        _check_count(count, txcount)
        if not isinstance(txcount, int) or txcount != 0:
            self.arrive_expect_tx(txcount, predicate)
            return
        with under(predicate):
            if once:
                nvgpu.mbarrier_arrive(self.mbar_group_op, self.id_op)
            else:
                nvvm.mbarrier_arrive(self.pointer, count=i32(count))

    def arrive_expect_tx(self, bytes: Int, predicate: Bool | None = None) -> None:
        """Expect ``bytes`` more bytes in this phase and arrive once (``mbarrier.arrive.expect_tx``)."""
        check_tx(bytes)
        nvgpu.mbarrier_arrive_expect_tx(
            self.mbar_group_op, index(bytes), self.id_op, predicate=_i1(predicate)
        )

    def expect_tx(self, bytes: Int) -> None:
        """Expect ``bytes`` more bytes in this phase without arriving (``mbarrier.expect_tx``)."""
        check_tx(bytes)
        nvvm.mbarrier_expect_tx(self.pointer, i32(bytes))

    def arrive_cluster(
        self, rank: Int, predicate: Bool | None = None, *, txcount: Int = 0, count: Int = 1, relaxed: bool = False
    ) -> None:
        """Arrive once at block ``rank``'s copy of this mbarrier (``mapa``, then
        ``mbarrier.arrive.release.cluster.shared::cluster``); with ``txcount`` also expect so many bytes there
        (``mbarrier.arrive.expect_tx``). ``predicate`` and ``count`` as in `arrive`.

        A release first makes this thread's writes visible to the cluster. sm_90 waits for all of them (MEMBAR.ALL.GPU),
        which takes some thousand cycles under load. ``relaxed=True`` leaves that out. It is right if the arrival only
        says that reads are done, above all those of a wgmma after `wgmma_wait`.
        """
        check_tx(txcount)
        _check_count(count, txcount)
        several = None if isinstance(count, int) and count == 1 else i32(count)
        cluster = nvvm.MemScopeKind.CLUSTER
        with under(predicate):
            remote = mapa(self.pointer, rank)
            if isinstance(txcount, int) and txcount == 0:
                nvvm.mbarrier_arrive(remote, count=several, scope=cluster, relaxed=relaxed)
            else:
                nvvm.mbarrier_arrive_expect_tx(remote, i32(txcount), scope=cluster, relaxed=relaxed)

    def try_wait(self, phase: Int = False, ticks: int = DEFAULT_TICKS, *, scope: str = "cta") -> None:
        """Wait until the phase of parity ``phase`` has completed (``mbarrier.try_wait.parity`` in a loop).

        ``phase`` is 0 or 1, a bool, or a traced i1 or integer. A wait for the parity *before* the current phase returns
        at once, so a producer's first wait names parity 1. ``scope`` says whose writes the wait acquires: those of
        this block ("cta"; what TMA brings is among them), or those of the cluster ("cluster", ``.acquire.cluster``).
        Data that another block stored here before it arrived needs the second. ``ticks``: nanoseconds, at most, that a
        warp is suspended at a time; the wait itself goes on. Raises TraceError for another scope.
        """
        if scope not in ("cta", "cluster"):
            raise trace_error(
                f"a wait with scope={scope!r}",
                rule="a wait acquires at the scope of the block or of its cluster (PTX ISA, mbarrier.try_wait, .scope)",
                fix='scope="cta", or scope="cluster" where another block of the cluster has written the data',
            )
        op = nvgpu.MBarrierTryWaitParityOp(self.mbar_group_op, parity_i1(phase), const(ticks), mbarId=self.id_op)
        if scope == "cluster":
            op.operation.attributes[ACQUIRE_CLUSTER] = ir.UnitAttr.get()

    wait = try_wait

    def test_wait(self, phase: Int = 0) -> Value:
        """True when the phase of parity ``phase`` has completed, without waiting (``mbarrier.test_wait``)."""
        parity = as_value(phase) if not isinstance(phase, int) else const(int(phase), i32_type())
        return nvvm.mbarrier_test_wait(self.pointer, i32(parity))

    def invalidate(self) -> None:
        """Make the mbarrier's memory usable for other data (``mbarrier.inval``)."""
        nvvm.mbarrier_inval(self.pointer)


def check_tx(bytes: Int) -> None:
    """Raises TraceError for a number of bytes that no mbarrier can expect."""
    require_integer(bytes)
    if isinstance(bytes, int) and not 0 <= bytes <= arch.MBARRIER_MAX_TX:
        raise trace_error(
            f"an mbarrier that expects {bytes} bytes",
            rule=f"an mbarrier's transaction count is 0 to {arch.MBARRIER_MAX_TX} bytes "
            "(PTX ISA, Tracking asynchronous operations by the mbarrier object)",
            fix="pass the bytes of the tiles that are loaded; split large tiles over two barriers",
        )


def _check_count(count: Int, txcount: Int) -> None:
    once = isinstance(count, int) and count == 1
    if isinstance(count, int) and not 1 <= count <= arch.MBARRIER_MAX_COUNT:
        raise trace_error(
            f"{count} arrivals at an mbarrier at once",
            rule=f"the count is 1 to {arch.MBARRIER_MAX_COUNT} (PTX ISA, mbarrier.arrive)",
            fix="leave the arrival out, predicate=, where there is none",
        )
    if not once and not (isinstance(txcount, int) and txcount == 0):
        raise trace_error(
            "an arrival with a count and with txcount",
            rule="mbarrier.arrive.expect_tx arrives once (PTX ISA, mbarrier.arrive)",
            fix="expect_tx(bytes), then arrive(count=...)",
        )


def i32_type() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def parity_i1(phase: Int) -> Value:
    """A phase parity as i1: a Python 0/1 or bool, a traced i1, or a traced integer (its lowest bit)."""
    i1 = ir.IntegerType.get_signless(1)
    if isinstance(phase, (bool, int)):
        if phase not in (0, 1):
            raise trace_error(
                f"mbarrier wait for phase {phase}",
                rule="a wait names a parity, 0 or 1 (PTX ISA, mbarrier.try_wait.parity)",
                fix="pass `phase & 1`",
            )
        return arith.constant(i1, bool(phase))
    value = as_value(phase)
    return value if value.type == i1 else arith.trunci(i1, i32(value))


_i1 = predicate
