"""``gemm``: one matrix product by one named configuration. The low-level entry; it chooses nothing."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import nvdsl as nv
from nvdsl import sim
from nvdsl.call.specialize import describe_argument
from nvdsl.driver.device import devices
from nvdsl.driver.stream import Stream
from nvdsl.hopper import arch
from nvdsl.hopper.occupancy import occupancy
from nvdsl.kernels.gemm.config import BESIDE_ONE, Config

if TYPE_CHECKING:
    from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp


def gemm(
    a: Any,
    b: Any,
    out: Any,
    *operands: Any,
    config: Config | None = None,
    acc_dtype: nv.DType | None = None,
    epilogue_op: EpilogueOp | None = None,
    blocks: int | None = None,
    stream: Stream | None = None,
    target: str | None = None,
) -> None:
    """Compute ``out = a @ b``, (M, K) times (K, N), by one configuration.

    ``a``, ``b``: 2-D arrays of one dtype (f16, bf16, f32 as tf32, e4m3, e5m2, i8), each with one contiguous axis:
    ``x.T`` is as good as ``x``, except that wgmma takes 8- and 32-bit types with K contiguous only. The other
    stride is a multiple of 16 bytes. ``out``: rows contiguous. ``acc_dtype``: f32 (default), f16, or i32 (default for
    i8). ``epilogue_op``, ``operands``: see `nvdsl.kernels.blocks.epilogue_visitor.EpilogueOp`. ``blocks``: of the
    grid, at most; default: as many as the GPU can hold at once. There are no more than tiles, or parts of tiles;
    split-K has ``config.split`` for each.
    """
    kernels = _kernels()
    a_spec, b_spec = (describe_argument(x)[0] for x in (a, b))
    config = config or Config()
    nv.require(
        config.schedule in kernels,
        f"gemm with schedule {config.schedule!r}",
        rule=f"a schedule is one of {list(kernels)}",
        fix="choose one of these",
    )
    acc_dtype = acc_dtype or (nv.i32 if a_spec.dtype in (nv.i8, nv.u8) else nv.f32)
    a_major = "k" if _rows_contiguous(a_spec) else "mn"
    b_major = "mn" if _rows_contiguous(b_spec) else "k"
    if config.schedule == "splitk":
        persistent = {"clusters": resident_splits(config, a_spec.dtype, b_major, sms(target))}
    else:
        persistent = {"blocks": blocks or resident_blocks(config, sms(target))}
    kernels[config.schedule](
        a if a_major == "k" else a.T,
        b if b_major == "mn" else b.T,
        out,
        *operands,
        config=config,
        **persistent,
        a_major=a_major,
        b_major=b_major,
        acc_dtype=acc_dtype,
        epilogue_op=epilogue_op,
        stream=stream,
        target=target,
    )


@functools.cache
def _kernels() -> dict[str, nv.Jit[...]]:
    """The host function of each schedule. They are imported where they are used: most functions need none of them."""
    from nvdsl.kernels.gemm import cooperative, pingpong, splitk, streamk

    return {x.__name__.rpartition(".")[2]: x.matmul for x in (cooperative, pingpong, streamk, splitk)}


def resident_blocks(config: Config, sms: int) -> int:
    """Blocks of a persistent kernel: as many as ``sms`` SMs hold at once. (It takes no more than it has work for.)"""
    return config.cluster * resident_clusters(config.cluster, sms)


def resident_clusters(size: int, sms: int) -> int:
    """Clusters of ``size`` blocks, one block an SM, that run at the same time.

    A cluster lies within a GPC, and GPCs differ in their number of SMs: of an H200's 132 SMs, clusters of 2 use all, of
    4 and 8 use 120 (cuOccupancyMaxActiveClusters gave 66, 30 and 15).
    """
    return sms // size if size <= 2 else sms * 10 // 11 // size


def _rows_contiguous(spec: Any) -> bool:
    return spec.strides[1] == 1


def resident_splits(config: Config, dtype: nv.DType, b_major: str, sms: int) -> int:
    """Clusters of a split-K kernel that run at the same time."""
    return blocks_of_an_sm(config, dtype, b_major) * resident_clusters(config.split, sms)


@functools.cache
def blocks_of_an_sm(config: Config, dtype: nv.DType, b_major: str) -> int:
    """Blocks that an SM holds at the same time. One takes all registers, but for split-K."""
    if config.schedule != "splitk":
        return 1
    registers = config.accumulator_registers(nv.f32) + BESIDE_ONE
    return occupancy(config.threads, registers, config.smem_bytes(dtype, b_major)).blocks


@functools.cache
def sms(target: str | None) -> int:
    """SMs of the default device; in the simulator as on an H200."""
    if sim.wanted(target):
        return arch.SMS
    ordinal = devices.default().ordinal
    return devices.cuda.multiprocessors(ordinal)
