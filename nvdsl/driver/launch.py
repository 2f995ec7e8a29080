"""One gpu.launch_func: its parameters packed where the driver reads them, and cuLaunchKernelEx."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from nvdsl.driver.cuda import STICKY, Cuda, CudaError, Dim3
from nvdsl.errors import ArgumentError, DeviceError, Where
from nvdsl.hopper import arch
from nvdsl.lower.device_log import Watch

if TYPE_CHECKING:
    from nvdsl.driver.run import Run

Shape = tuple[int, ...]  # grid x y z, block x y z, and cluster x y z where there is one


class KernelBinary(Protocol):
    """What a compiled kernel must say (``nvdsl.lower`` makes them)."""

    @property
    def name(self) -> str:
        """Entry name in the cubin."""

    @property
    def cubin(self) -> bytes: ...

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a launch, in bytes."""

    @property
    def max_threads(self) -> int:
        """Threads of a block that the kernel was compiled for (maxntid)."""

    @property
    def watch(self) -> Watch | None:
        """What its messages mean, in debug mode."""


class Parameter:
    """One kernel parameter: the slot it comes from, and what is written for it.

    ``bits`` gives the value's bit pattern, of which the driver reads the parameter's size (little endian);
    None for a device pointer that is written as it is. ``is_map``: the slot holds an ``EncodedMap``, whose
    128 bytes the driver reads from its own address. ``settled``: the shapes of a call's arrays decide it."""

    __slots__ = ("bits", "is_map", "settled", "slot")

    def __init__(
        self, slot: int, bits: Callable[[Any], int] | None = None, is_map: bool = False, settled: bool = False
    ) -> None:
        self.slot, self.bits, self.is_map, self.settled = slot, bits, is_map, settled


class _Record:
    """Parameter memory and launch configuration for one launch at a time. ``settled``: that of the run whose settled
    parameters it has."""

    __slots__ = ("_memory", "address", "config", "maps", "settled", "shape", "stream", "words")

    def __init__(self, parameters: int) -> None:
        # void* of each parameter, then 8 bytes for each value
        self._memory = (ctypes.c_uint64 * max(2 * parameters, 1))()
        self.address = ctypes.addressof(self._memory)
        self.words = memoryview(self._memory).cast("B").cast("Q")
        for i in range(parameters):
            self.words[i] = self.address + 8 * (parameters + i)
        self.config: Any = None
        self.maps: list[Any] = []  # kept while the record points to them
        self.shape: Shape = ()
        self.stream = -1
        self.settled: object = None


class Recorded:
    """A launch, or a fill, with its parameters written. ``again()`` puts it into the stream, and raises CudaError or
    gives the driver's code for `Cuda.check`, in a tuple; `failure` explains the error. ``record``: what lives as long.
    """

    __slots__ = ("_record", "again", "failure")

    def __init__(
        self,
        again: Callable[[], tuple[Any, ...] | None],
        failure: Callable[[CudaError], DeviceError],
        record: _Record | None = None,
    ) -> None:
        self.again, self.failure, self._record = again, failure, record


class Launch:
    """A launch, called once a run with the frame of slots.

    ``shape_slots``: of grid and block, then cluster where there is one; ``known``: their values where all
    are constants. A grid with a zero in it launches nothing. Records are kept in a pool and taken out
    while in use, so that threads may call at the same time."""

    def __init__(
        self,
        index: int,
        kernel: KernelBinary,
        parameters: Sequence[Parameter],
        shape_slots: Sequence[int],
        known: Shape | None,
        programmatic: bool = False,
        where: Where | None = None,
    ) -> None:
        self.index, self.kernel, self.where = index, kernel, where
        self._count = len(parameters)
        self._shape_slots, self._known, self._programmatic = tuple(shape_slots), known, programmatic
        self._watch = kernel.watch
        numbered = list(enumerate(parameters))
        self._maps = [(i, p.slot) for i, p in numbered if p.is_map]
        self._pointers = [(self._count + i, p.slot) for i, p in numbered if not p.is_map and p.bits is None]
        patterns = [(p.settled, (self._count + i, p.slot, p.bits)) for i, p in numbered if p.bits is not None]
        self._settled, self._patterns = (
            [each for settled, each in patterns if settled is way] for way in (True, False)
        )
        self._pool: list[_Record] = []
        if known is not None:
            self._check(known)

    @property
    def needs_large_cluster(self) -> bool:
        """Whether a launch may use more than 8 blocks a cluster."""
        if len(self._shape_slots) < 9:
            return False
        return self._known is None or math.prod(self._known[6:]) > arch.MAX_CLUSTER_SIZE

    def __call__(self, frame: list[Any]) -> None:
        shape = self._known
        if shape is None:
            shape = tuple([frame[slot] for slot in self._shape_slots])
        if not (shape[0] and shape[1] and shape[2]):
            return
        try:
            record = self._pool.pop()
        except IndexError:
            record = _Record(self._count)
        self._fill(record, frame, shape)
        self.launch(frame[0], record)
        self._pool.append(record)

    def recorded(self, frame: list[Any]) -> Recorded | None:
        """A launch to be repeated with the very same parameters on the same stream, by several threads at a time. None
        for a grid with a zero in it."""
        shape = self._known or tuple([frame[slot] for slot in self._shape_slots])
        if 0 in shape[:3]:
            return None
        run, record = frame[0], _Record(self._count)
        self._fill(record, frame, shape)
        record.maps = [frame[slot] for _, slot in self._maps]
        failure = functools.partial(self._not_launched, shape=shape)
        if run.sync or self._watch is not None:
            return Recorded(functools.partial(self.launch, run, record), failure, record)
        launch = run.cuda.prepared(record.config, run.functions[self.index], record.address)
        return Recorded(launch, failure, record)

    def launch(self, run: Run, record: _Record) -> None:
        """Launch what a record says. Raises DeviceError, or in debug mode WatchdogError."""
        try:
            if self._watch is None:
                run.cuda.launch(record.config, run.functions[self.index], record.address)
            else:
                self._watched(run, record, self._watch)
        except CudaError as error:
            raise self._not_launched(error, record.shape) from error
        if run.sync:
            try:
                run.cuda.synchronize(run.stream)
            except CudaError as error:
                raise self._failure("failed while it ran", error, "", record.shape) from error

    def _fill(self, record: _Record, frame: list[Any], shape: Shape) -> None:
        run: Run = frame[0]
        if record.shape is not shape and record.shape != shape:
            self._configure(run.cuda, record, shape)
        if record.stream != run.stream:
            run.cuda.set_stream(record.config, run.stream)
            record.stream = run.stream
        words = record.words
        for i, slot in self._maps:
            words[i] = frame[slot].address
        for i, slot in self._pointers:
            words[i] = frame[slot]
        for i, slot, bits in self._patterns:
            words[i] = bits(frame[slot])
        if run.settled is None or record.settled is not run.settled:
            for i, slot, bits in self._settled:
                words[i] = bits(frame[slot])
            record.settled = run.settled

    def _watched(self, run: Run, record: _Record, watch: Watch) -> None:
        """Launch in debug mode: alone, and until it ends. Raises WatchdogError."""
        from nvdsl.driver import watchdog  # debug mode's

        grid, block, _ = _split(record.shape)
        with watchdog.log(run.cuda, run.stream) as log:
            log.clear(grid, block)
            run.cuda.launch(record.config, run.functions[self.index], record.address)
            try:
                log.watch(self.kernel.name, watch)
            except CudaError as error:
                raise self._failure("failed while it ran", error, "", record.shape) from error

    def _configure(self, cuda: Cuda, record: _Record, shape: Shape) -> None:
        self._check(shape)
        grid, block, cluster = _split(shape)
        record.config = cuda.launch_config(grid, block, cluster, self.kernel.smem_bytes, self._programmatic)
        record.shape, record.stream = shape, 0

    def _check(self, shape: Shape) -> None:
        problems = violations(self.kernel, *_split(shape))
        if problems:
            raise ArgumentError(
                f"kernel {self.kernel.name} can't be launched: " + "; ".join(problems),
                where=self.where,
                rule="PTX ISA and CUDA programming guide, limits of compute capability 9.0",
                fix="change the grid, the block or the cluster of the launch",
            )

    def _not_launched(self, error: CudaError, shape: Shape) -> DeviceError:
        earlier = " (perhaps by a kernel before it)" if error.code in STICKY else ""
        return self._failure("could not be launched", error, earlier, shape)

    def _failure(self, did: str, error: CudaError, earlier: str, shape: Shape) -> DeviceError:
        grid, block, cluster = _split(shape)
        return DeviceError(
            f"kernel {self.kernel.name} {did}: {error.code} ({error.text}){earlier}; grid {grid}, "
            f"block {block}, cluster {cluster or 'none'}, {self.kernel.smem_bytes} bytes of shared memory",
            where=self.where,
            fix=error.fix or "compare the launch with the limits of the GPU and of the kernel",
        )


def _split(shape: Shape) -> tuple[Dim3, Dim3, Dim3 | None]:
    gx, gy, gz, bx, by, bz, *cluster = shape
    return (gx, gy, gz), (bx, by, bz), (cluster[0], cluster[1], cluster[2]) if cluster else None


def violations(kernel: KernelBinary, grid: Dim3, block: Dim3, cluster: Dim3 | None) -> list[str]:
    """Every limit of sm_90 that a launch breaks, one sentence each. A grid of zero blocks is legal."""
    problems = []
    for axis, size, limit in zip("xyz", grid, arch.MAX_GRID_DIM, strict=True):
        if not 0 <= size <= limit:
            problems.append(f"the grid has {size} blocks along {axis}, where 0 to {limit} are allowed")
    for axis, size, limit in zip("xyz", block, arch.MAX_BLOCK_DIM, strict=True):
        if not 1 <= size <= limit:
            problems.append(f"the block has {size} threads along {axis}, where 1 to {limit} are allowed")
    threads, limit = math.prod(block), kernel.max_threads or arch.MAX_THREADS_PER_BLOCK
    if threads > limit:
        problems.append(f"the block has {threads} threads, the kernel was compiled for at most {limit}")
    if kernel.smem_bytes > arch.MAX_SMEM_PER_BLOCK:
        problems.append(f"{kernel.smem_bytes} bytes of shared memory, where a block has {arch.MAX_SMEM_PER_BLOCK}")
    if cluster is not None:
        problems += _cluster_violations(grid, cluster)
    return problems


def _cluster_violations(grid: Dim3, cluster: Dim3) -> list[str]:
    problems, count, limit = [], math.prod(cluster), arch.MAX_CLUSTER_SIZE_NON_PORTABLE
    if min(cluster) < 1 or count > limit:
        problems.append(f"the cluster {cluster} has {count} blocks, where 1 to {limit} are allowed")
    for axis, blocks, size in zip("xyz", grid, cluster, strict=True):
        if size > 0 and blocks % size:
            problems.append(f"the grid has {blocks} blocks along {axis}, no multiple of the cluster's {size}")
    return problems
