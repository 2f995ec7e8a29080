"""TMA: tensor maps and the bulk copies that use them.

PTX ISA, ``cp.async.bulk.tensor``, ``cp.reduce.async.bulk.tensor``, ``cp.async.bulk.prefetch.tensor``,
``cp.async.bulk``; CUDA driver API, ``cuTensorMapEncodeTiled``. Coordinates are in elements, the innermost
(contiguous) dimension first, as the instructions take them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, memref, nvgpu, nvvm
from nvdsl.ops.mbarrier import Mbarrier
from nvdsl.ops.pointer import (
    GENERIC,
    GLOBAL,
    SHARED,
    SHARED_CLUSTER,
    address_of,
    i32,
    index,
    pointer_type,
    predicate,
    under,
)
from nvdsl.values import scope
from nvdsl.values.python_numbers import plain
from nvdsl.values.traced import Value, const
from nvdsl.values.typing import Bool, Coords, Int, Pointer

L2_EVICT_NORMAL = 0x1000000000000000
L2_EVICT_FIRST = 0x12F0000000000000
L2_EVICT_LAST = 0x14F0000000000000
"""Cache policies for ``l2_hint`` (the encodings that ``createpolicy.fractional`` gives for the whole
access; PTX ISA, ``createpolicy``)."""


STORED = "nvdsl.stored"
"""Attribute of a tensor map through which a kernel stores or reduces."""


class TMA:
    """A tensor map of one array (``nvgpu.tma.create.descriptor``) and the copies through it.

    ``tma_box_shape``: elements of one box, outermost dimension first. ``memref_ty``: the array's
    memref type. ``swizzle``, ``l2promo``, ``oob`` and ``interleave`` are nvgpu's enums.
    """

    def __init__(
        self,
        tma_box_shape: Sequence[int],
        memref_ty: ir.MemRefType,
        swizzle: nvgpu.TensorMapSwizzleKind = nvgpu.TensorMapSwizzleKind.SWIZZLE_NONE,
        l2promo: nvgpu.TensorMapL2PromoKind = nvgpu.TensorMapL2PromoKind.L2PROMO_NONE,
        oob: nvgpu.TensorMapOOBKind = nvgpu.TensorMapOOBKind.OOB_ZERO,
        interleave: nvgpu.TensorMapInterleaveKind = nvgpu.TensorMapInterleaveKind.INTERLEAVE_NONE,
    ) -> None:
        self.tma_box_shape = list(tma_box_shape)
        self.memref_ty = memref_ty
        self.swizzle, self.l2promo, self.oob, self.interleave = swizzle, l2promo, oob, interleave
        self.tma_memref = ir.MemRefType.get(self.tma_box_shape, memref_ty.element_type)

    @property
    def tensormap_descriptor_ty(self) -> ir.Type:
        """The descriptor's type: the box in shared memory, swizzle, L2 promotion, fill, interleave."""
        box = ir.MemRefType.get(
            self.tma_box_shape, self.memref_ty.element_type, memory_space=ir.Attribute.parse("3")
        )
        return nvgpu.TensorMapDescriptorType.get(
            box, self.swizzle, self.l2promo, self.oob, self.interleave
        )

    def create_descriptor(self, device_ptr: ir.Value, box: Sequence[Int] | None = None) -> ir.Value:
        """Encode the tensor map for the array ``device_ptr`` (a memref in device memory), on the host. ``box``: what it
        copies, where that is less than `tma_box_shape`."""
        scope.outside("a tensor map was created", "make it in the host function; the kernel uses it directly")
        unranked = memref.CastOp(
            ir.UnrankedMemRefType.get(self.memref_ty.element_type, self.memref_ty.memory_space),
            device_ptr,
        )
        sizes = [index(size) for size in box or self.tma_box_shape]
        self.tma_descriptor = nvgpu.TmaCreateDescriptorOp(
            self.tensormap_descriptor_ty, unranked, sizes
        )
        return self.tma_descriptor.result

    def prefetch(self, predicate: Bool | None = None) -> None:
        """Bring the tensor map itself into the cache (``prefetch.tensormap``)."""
        nvgpu.tma_prefetch_descriptor(self._descriptor, predicate=_i1(predicate))

    def load(
        self,
        dest: ir.Value,
        mbarrier: Mbarrier,
        coords: Coords = (0,),
        predicate: Bool | None = None,
        *,
        multicast_mask: Int | None = None,
        l2_hint: Int | None = None,
    ) -> None:
        """Copy one box from global to shared memory; its bytes complete on ``mbarrier``.

        ``dest``: shared memref of the box's shape, 128-byte aligned (or as the swizzle needs).
        ``multicast_mask``: bit ``r`` writes the box at the same offset in cluster block ``r`` too, and
        completes on the same mbarrier there. ``l2_hint``: one of ``L2_EVICT_*``, or a traced i64 of them.
        """
        self._check_rank(coords)
        _check_barrier(mbarrier)
        if l2_hint is None:
            nvgpu.TmaAsyncLoadOp(
                dest,
                mbarrier.mbar_group_op,
                self._descriptor,
                coordinates=[index(c) for c in coords],
                mbarId=mbarrier.id_op,
                multicastMask=_mask(multicast_mask),
                predicate=_i1(predicate),
            )
            return
        nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
            _cluster_pointer(dest),
            self.pointer,
            [i32(c) for c in coords],
            mbarrier.pointer,
            [],
            multicastMask=_mask(multicast_mask),
            l2CacheHint=_policy(l2_hint),
            predicate=_i1(predicate),
        )

    def store(
        self,
        src: ir.Value,
        coords: Coords,
        predicate: Bool | None = None,
        *,
        l2_hint: Int | None = None,
    ) -> None:
        """Copy one box from shared to global memory, in the thread's current bulk group.

        Ordinary stores into ``src`` need `fence_proxy_async` and a barrier before. Follow with
        `bulk_commit_group` and `bulk_wait_group` in the same thread.
        """
        self._check_rank(coords)
        self._descriptor.operation.attributes[STORED] = ir.UnitAttr.get()
        if l2_hint is None:
            nvgpu.TmaAsyncStoreOp(
                src, self._descriptor, [index(c) for c in coords], predicate=_i1(predicate)
            )
            return
        # nvvm's op takes a hint or a predicate, not both.
        with under(predicate):
            nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(
                self.pointer, address_of(src), [i32(c) for c in coords], l2CacheHint=_policy(l2_hint)
            )

    def reduce(
        self, src: ir.Value, coords: Coords, kind: str = "add", *, l2_hint: Int | None = None
    ) -> None:
        """Combine one box of shared memory into global memory (``cp.reduce.async.bulk.tensor``).

        ``kind``: add, min, max, and, or, xor, as far as the element type has it (`arch.TMA_REDUCTIONS`). Like
        `store`, in the thread's bulk group.
        """
        self._check_rank(coords)
        self._descriptor.operation.attributes[STORED] = ir.UnitAttr.get()
        element = str(self.memref_ty.element_type)
        kinds = arch.TMA_REDUCTIONS.get(element, ())
        if kind not in kinds:
            raise trace_error(
                f"TMA reduction {kind!r} of {element}",
                rule=f"TMA can {', '.join(kinds) or 'reduce nothing'} here (PTX ISA, cp.reduce.async.bulk.tensor)",
                fix="use one of these, or add in f32 or f16",
            )
        nvvm.CpAsyncBulkTensorReduceOp(
            self.pointer,
            address_of(src),
            ir.Attribute.parse(f"#nvvm.tma_redux_kind<{kind}>"),
            [i32(c) for c in coords],
            l2CacheHint=_policy(l2_hint),
        )

    def reduce_add(self, src: ir.Value, coords: Coords, *, l2_hint: Int | None = None) -> None:
        """`reduce` with ``kind="add"``."""
        self.reduce(src, coords, "add", l2_hint=l2_hint)

    def prefetch_box(self, coords: Coords, *, l2_hint: Int | None = None) -> None:
        """Bring one box into L2 (``cp.async.bulk.prefetch.tensor``)."""
        self._check_rank(coords)
        nvvm.CpAsyncBulkTensorPrefetchOp(
            self.pointer,
            [i32(c) for c in coords],
            [],
            l2CacheHint=_policy(l2_hint),
        )

    @property
    def _descriptor(self) -> Any:
        descriptor = getattr(self, "tma_descriptor", None)
        if descriptor is None:
            raise trace_error(
                "a TMA without a descriptor was used",
                rule="the host encodes a tensor map before the kernel uses it",
                fix="call tma.create_descriptor(device_array) in the host function",
            )
        return descriptor

    @property
    def pointer(self) -> Pointer:
        """Address of the tensor map, as nvvm's instructions take it."""
        return _cast(self._descriptor, pointer_type(GENERIC))

    def _check_rank(self, coords: Coords) -> None:
        if len(coords) != len(self.tma_box_shape):
            raise trace_error(
                f"{len(coords)} coordinates for a box of shape {self.tma_box_shape}",
                rule="a TMA copy takes one coordinate for each dimension, innermost first "
                "(PTX ISA, cp.async.bulk.tensor)",
                fix=f"pass {len(self.tma_box_shape)} coordinates",
            )


def bulk_commit_group() -> None:
    """Close the thread's current group of bulk stores (``cp.async.bulk.commit_group``)."""
    nvvm.cp_async_bulk_commit_group()


def bulk_wait_group(pending: int = 0, *, read: bool = False) -> None:
    """Wait until at most ``pending`` of the thread's bulk groups are in flight (``cp.async.bulk.wait_group``).

    ``read=True`` waits only until their sources in shared memory have been read.
    """
    pending = plain(pending)
    if not isinstance(pending, int) or pending < 0:
        raise trace_error(
            f"bulk_wait_group({pending!r})",
            rule="the number of groups left in flight is a constant, 0 or more (PTX ISA, cp.async.bulk.wait_group)",
            fix="bulk_wait_group(0) waits for all",
        )
    nvvm.cp_async_bulk_wait_group(pending, read=True if read else None)


def bulk_load(
    dest: ir.Value, src: ir.Value, bytes: Int, mbarrier: Mbarrier, *, multicast_mask: Int | None = None,
    l2_hint: Int | None = None,
) -> None:  # fmt: skip
    """Copy ``bytes`` (a multiple of 16) contiguous bytes from global memref ``src`` to shared memref ``dest``
    (``cp.async.bulk.shared::cluster.global``); they complete on ``mbarrier``. ``l2_hint``: as for `TMA.load`."""
    _check_bulk(bytes, dest, src)
    _check_barrier(mbarrier)
    nvvm.CpAsyncBulkGlobalToSharedClusterOp(
        _cluster_pointer(dest),
        address_of(src, space=GLOBAL),
        mbarrier.pointer,
        i32(bytes),
        multicastMask=_mask(multicast_mask),
        l2CacheHint=_policy(l2_hint),
    )


def bulk_store(dest: ir.Value, src: ir.Value, bytes: Int) -> None:
    """Copy ``bytes`` (a multiple of 16) contiguous bytes from shared memref ``src`` to global memref ``dest``
    (``cp.async.bulk.global.shared::cta``), in the thread's bulk group."""
    _check_bulk(bytes, src, dest)
    nvvm.CpAsyncBulkSharedCTAToGlobalOp(
        address_of(dest, space=GLOBAL), address_of(src), i32(bytes)
    )


def _check_bulk(bytes: Int, shared: ir.Value, device: ir.Value) -> None:
    for ref, space, is_shared in ((shared, "shared", True), (device, "global", False)):
        if not isinstance(ref, ir.Value) or ("workgroup" in str(ref.type)) is not is_shared:
            raise trace_error(
                f"bulk copy with {ref!r} in the place of {space} memory",
                rule="a bulk copy has one array in shared and one in global memory (PTX ISA, cp.async.bulk)",
                fix="bulk_load(shared, global, ...), bulk_store(global, shared, ...); nv.smem((n,), dtype) is such "
                "an array, so is tile.panel(0) of a dense tile, and nv.TMA copies tiles",
            )
    if isinstance(bytes, int) and (bytes <= 0 or bytes % arch.BULK_COPY_MULTIPLE):
        raise trace_error(
            f"bulk copy of {bytes} bytes",
            rule=f"the size is a positive multiple of {arch.BULK_COPY_MULTIPLE} bytes (PTX ISA, cp.async.bulk)",
            fix=f"pad the copy to {arch.BULK_COPY_MULTIPLE} bytes",
        )


def _check_barrier(mbarrier: Mbarrier) -> None:
    if not isinstance(mbarrier, Mbarrier):
        raise trace_error(
            f"a {type(mbarrier).__name__} in the place of an mbarrier",
            rule="the bytes of a copy complete on one mbarrier",
            fix="index the group: bars[stage]",
        )


def _mask(value: Int | None) -> Value | None:
    """A multicast mask as i16. Bits beyond the cluster's blocks would hang their barriers."""
    if value is None:
        return None
    blocks = scope.current("multicast").cluster_size
    if isinstance(value, int) and not 0 < value < 1 << blocks:
        raise trace_error(
            f"multicast_mask={value:#b} in a cluster of {blocks} blocks",
            rule=f"bit r stands for block r of the cluster, 0 to {blocks - 1} (PTX ISA, cp.async.bulk.tensor, ctaMask)",
            fix="launch with cluster=..., or clear the bits of the blocks that are not there",
        )
    return _i16(value)


def _cluster_pointer(ref: ir.Value) -> Pointer:
    return llvm.addrspacecast(pointer_type(SHARED_CLUSTER), address_of(ref, space=SHARED))


def _cast(value: Any, ty: ir.Type) -> ir.Value:
    """`builtin.unrealized_conversion_cast`: the lowering turns the tensor map into this pointer."""
    value = getattr(value, "result", value)
    return ir.Operation.create("builtin.unrealized_conversion_cast", [ty], [value]).results[0]


def _i16(value: Int) -> Value:
    from nvdsl.values.dtypes import i16

    return i16(value) if not isinstance(value, int) else const(value, ir.IntegerType.get_signless(16))


def _policy(value: Int | None) -> Value | None:
    """An L2 cache policy, one of ``L2_EVICT_*`` or a traced one, as i64."""
    if value is None or isinstance(value, Value):
        return value
    return const(value - (1 << 64) if value >= 1 << 63 else value, ir.IntegerType.get_signless(64))


_i1 = predicate
