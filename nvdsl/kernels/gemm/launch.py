"""``gemm``: one matrix product by one named configuration. The low-level entry; it chooses nothing."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import nvdsl as nv
from nvdsl import sim
from nvdsl.driver.device import devices
from nvdsl.driver.stream import Stream
from nvdsl.errors.tracebacks import at_call
from nvdsl.hopper import arch
from nvdsl.hopper.occupancy import occupancy
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.gemm.arguments import check_disjoint, matrix, operand
from nvdsl.kernels.gemm.config import BESIDE_ONE, Config
from nvdsl.kernels.gemm.problem import Matrix, fits_tma, types
from nvdsl.kernels.options import is_whole

if TYPE_CHECKING:
    from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp


@at_call
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
    split-K has ``config.split`` for each. An ``out`` without elements is left as it is.

    Raises ArgumentError for arrays that don't fit together or that TMA can't read, and for a configuration or an
    epilogue that is none.
    """
    given = {"a": operand("a", a), "b": operand("b", b), "out": Argument.of("out", out, written=True)}
    matrices = {name: matrix(x) for name, x in given.items()}
    config = config or Config()
    _check(matrices, config, blocks, epilogue_op, len(operands), on_host=given["a"].host is not None)
    check_disjoint(given)
    check_operands(epilogue_op, operands, config, matrices["out"])
    if 0 in matrices["out"].shape:
        return
    of_a, of_b = matrices["a"], matrices["b"]
    acc_dtype = acc_dtype or (nv.i32 if of_a.dtype is nv.i8 else nv.f32)
    a_major = "k" if of_a.fits_tma(1) else "mn"
    b_major = "mn" if of_b.fits_tma(1) else "k"
    if config.schedule == "splitk":
        persistent = {"clusters": resident_splits(config, of_a.dtype, b_major, sms(target))}
    else:
        persistent = {"blocks": blocks or resident_blocks(config, sms(target))}
    _kernels()[config.schedule](
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
        direct_store=not fits_tma(matrices["out"]),
        stream=stream,
        target=target,
    )


@functools.cache
def _kernels() -> dict[str, nv.Jit[...]]:
    """The host function of each schedule. They are imported where they are used: most functions need none of them."""
    from nvdsl.kernels.gemm import cooperative, pingpong, splitk, streamk

    return {x.__name__.rpartition(".")[2]: x.matmul for x in (cooperative, pingpong, streamk, splitk)}


def _check(
    matrices: dict[str, Matrix], config: Config, blocks: Any, epilogue_op: Any, operands: int, on_host: bool
) -> None:
    """Raises ArgumentError for what the kernels would not notice, or say at a line of their own."""
    for name, x in matrices.items():
        nv.require(len(x.shape) == 2, f"{name} is an array of shape {x.shape}",
                   rule="it is a matrix, an array of two axes", fix="nv.matmul takes batches and vectors")  # fmt: skip
    a, b, out = (matrices[name] for name in ("a", "b", "out"))
    nv.require(
        isinstance(config, Config) and config.schedule in _kernels(),
        f"gemm with {config!r}",
        rule=f"config is a Config, whose schedule is one of {list(_kernels())}",
        fix="config=Config(128, 256), say",
    )
    config.check_counts()
    nv.require(blocks is None or isinstance(blocks, int) and blocks >= 1, f"gemm with blocks={blocks!r}",
               rule="a grid has one block or more", fix="leave it out: as many as run at once")  # fmt: skip
    nv.require(epilogue_op is None or callable(epilogue_op) or hasattr(epilogue_op, "visitor"),
               f"gemm with epilogue_op={epilogue_op!r}",
               rule="it is a function of (value, batch, row, col, *operands), an Elementwise or a TileOp")  # fmt: skip
    nv.require(epilogue_op is not None or not operands, f"gemm with {operands} more arrays",
               rule="operands are what epilogue_op takes", fix="pass epilogue_op=")  # fmt: skip
    halves = getattr(epilogue_op, "halves", 1)
    wanted = (a.shape[0], b.shape[1] // halves)
    nv.require(a.shape[1] == b.shape[0] and out.shape == wanted,
               f"a of shape {a.shape} times b of shape {b.shape} into out of shape {out.shape}",
               rule="(M, K) times (K, N) into (M, N)" + (", of a gated product (K, 2 N)" if halves > 1 else ""),
               fix="transpose one of them: x.T costs nothing")  # fmt: skip
    types(a.dtype, b.dtype, None, None, None)
    nv.require(a.shape[1] > 0, f"a of shape {a.shape}", rule="K is 1 or more", fix="nv.matmul takes K = 0")
    for name, x in (("a", a), ("b", b)):
        nv.require(
            x.fits_tma(0) or x.fits_tma(1) or 0 in out.shape,
            f"{name} of shape {x.shape} {x.dtype.name} with strides of {x.strides} elements",
            rule="TMA reads arrays with a contiguous axis, another stride of whole 16 bytes, from an address that is a "
            "multiple of 16",
            fix="nv.matmul takes any; or "
            + ("pad the contiguous axis: a host's arrays are copied without what lies between rows" if on_host
               else "pad the rows: x = torch.zeros((rows, more), dtype=dtype, device='cuda')[:, :columns]"),
        )


def check_operands(op: Any, operands: Sequence[Any], config: Config, out: Matrix) -> None:
    """Raises ArgumentError where ``op`` is one of whole tiles that says what it takes, and these are others: what has
    no place in an array would be left out."""
    expects = getattr(getattr(op, "function", None), "expects", None)
    if expects is None:
        return
    expected = expects(config, out)
    least = len([x for x in expected if not x.optional])
    names = [x.name for x in expected]
    nv.require(least <= len(operands) <= len(names), f"{op} with {len(operands)} operands",
               rule=f"it takes {', '.join(names)}", fix=f"pass {names[0]} behind out")  # fmt: skip
    for one, x in zip(expected, operands, strict=False):
        if one.shape is None:
            nv.require(is_whole(x), f"{op} with {one.name}={reprlib.repr(x)}", rule=f"{one.name} is an integer")
            continue
        spec = Argument.of(one.name, x).spec
        nv.require(
            spec.shape == one.shape and one.dtype in (None, spec.dtype),
            f"{one.name} of shape {spec.shape}, {spec.dtype.name}, for {op}",
            rule=f"for a result of {out.shape} in this configuration it is {one.shape}"
            + (f", {one.dtype.name}" if one.dtype else ""),
            fix="make it anew where the configuration changes",
        )


def resident_blocks(config: Config, sms: int) -> int:
    """Blocks of a persistent kernel: as many as ``sms`` SMs hold at once. (It takes no more than it has work for.)"""
    return config.cluster * resident_clusters(config.cluster, sms)


def resident_clusters(size: int, sms: int) -> int:
    """Clusters of ``size`` blocks, one block an SM, that run at the same time.

    A cluster lies within a GPC, and GPCs differ in their number of SMs: of an H200's 132 SMs, clusters of 2 use all, of
    4 and 8 use 120 (cuOccupancyMaxActiveClusters gave 66, 30 and 15).
    """
    return sms // size if size <= 2 else sms * 10 // 11 // size


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


def sms(target: str | None) -> int:
    """SMs of the default device; in the simulator as on an H200."""
    return arch.SMS if sim.wanted(target) else _multiprocessors()


@functools.cache
def _multiprocessors() -> int:
    return devices.cuda.multiprocessors(devices.default().ordinal)
