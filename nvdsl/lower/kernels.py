"""What the host says about each kernel: its block, its cluster, its shared memory, its arguments."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from nvdsl.errors import VerifyError, Where
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.ir import declared
from nvdsl.ir.declared import Declared
from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, integers, mbarriers, named, string
from nvdsl.ir.walk import walk
from nvdsl.lower.device_log import Site
from nvdsl.mlir import ir
from nvdsl.trace.launch import BLOCKS_PER_SM, FEWEST_BLOCKS_PER_SM

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Kernel:
    """One kernel of an outlined module.

    ``block`` and ``cluster``: threads and blocks; block is None where the host computes it. ``user_smem_bytes``:
    dynamic shared memory that the launch asks for. ``mbarriers``: how many the kernel creates.
    ``tensor_maps``: positions of such arguments. ``op_names``: what it was traced with; ``size``: how many ops.
    ``wgmma`` and ``setmaxnreg``: the first such op's line. ``blocks_per_sm``: what its registers shall leave room for;
    ``fewest_blocks``: for how many it does if they would be spilled otherwise.
    ``tiles``: what `nv.smem` made.
    ``sites``: what debug mode's steps put into it, by number.
    """

    module: str
    name: str
    where: Where | None
    block: Dim3 | None
    cluster: Dim3
    user_smem_bytes: int
    mbarriers: int
    tensor_maps: tuple[int, ...]
    op_names: frozenset[str]
    wgmma: Where | None
    setmaxnreg: Where | None
    blocks_per_sm: int = 1
    fewest_blocks: int = 1
    tiles: tuple[Declared, ...] = ()
    size: int = 0
    sites: list[Site] = field(default_factory=list, compare=False)

    @property
    def symbol(self) -> str:
        return f"{self.module}::{self.name}"

    def fewer_blocks(self, blocks: int) -> int | None:
        """The most below ``blocks`` that leave a thread more registers than these do; None where none may."""
        x, y, z = self.block or (1, 1, 1)
        has = arch.launch_registers(x * y * z * blocks)
        less = range(blocks - 1, self.fewest_blocks - 1, -1)
        return next((n for n in less if arch.launch_registers(x * y * z * n) > has), None)

    @property
    def mbarrier_offset(self) -> int:
        """Byte of the shared block where the mbarriers start: behind the user's bytes, aligned."""
        return -(-self.user_smem_bytes // arch.MBARRIER_BYTES) * arch.MBARRIER_BYTES

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory to launch with: the user's bytes and the mbarriers."""
        if not self.mbarriers:
            return self.user_smem_bytes
        return self.mbarrier_offset + self.mbarriers * arch.MBARRIER_BYTES


def read(host: Any) -> dict[str, Kernel]:
    """The kernels of an outlined module by symbol, ``module::name``.

    Raises VerifyError for a kernel whose shared memory is not known, or more than a block can have.
    """
    launches = launches_of(host)
    kernels: dict[str, Kernel] = {}
    for module, function in kernels_of(host):
        symbol = f"{symbol_name(module)}::{symbol_name(function)}"
        kernels[symbol] = _read_kernel(module, function, launches.get(symbol, []))
    return kernels


_SIZES = {"known_block_size": "blockSize", "known_cluster_size": "clusterSize"}


def know_sizes(host: Any, kernels: dict[str, Kernel], _: Any) -> None:
    """Write the block and the cluster that all launches of a kernel have on its ``gpu.func``. Outlining does that in
    LLVM 23; LLVM 22 leaves out the cluster, and a module that was outlined before may have neither."""
    launches = launches_of(host)
    for module, function in kernels_of(host):
        mine = launches.get(f"{symbol_name(module)}::{symbol_name(function)}", [])
        for name, operand in _SIZES.items():
            if name not in function.attributes and mine:
                sizes = {_size(launch, operand) for launch in mine}
                size = sizes.pop()
                if size is not None and not sizes:
                    function.attributes[name] = ir.DenseI32ArrayAttr.get(list(size))


def _size(launch: Any, operand: str) -> Dim3 | None:
    """The block or cluster of a launch, if it has one of constants."""
    values = [getattr(launch.opview, operand + axis) for axis in "XYZ"]
    numbers = [None if value is None else _constant(value) for value in values]
    return None if None in numbers else (numbers[0], numbers[1], numbers[2])  # type: ignore[return-value]


def kernels_of(host: Any) -> list[tuple[Any, Any]]:
    """(gpu.module, gpu.func) of each kernel of an outlined module."""
    modules = [op for op in host.body.operations if op.operation.name == "gpu.module"]
    return [(module, op) for module in modules for op in module.regions[0].blocks[0].operations if is_kernel(op)]


def is_kernel(op: Any) -> bool:
    """Whether ``op`` is a ``gpu.func`` that is a kernel. (LLVM 23 made the attribute a property, ``kernel``.)"""
    attributes = op.attributes
    return op.operation.name == "gpu.func" and ("kernel" in attributes or "gpu.kernel" in attributes)


def symbol_name(op: Any) -> str:
    return string(op, "sym_name")


def launches_of(host: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for top in host.body.operations:
        if top.operation.name == "gpu.module":
            continue
        for op in walk(top):
            if op.name == "gpu.launch_func":
                symbol = "::".join(ir.SymbolRefAttr(op.attributes["kernel"]).value)
                found.setdefault(symbol, []).append(op)
    return found


def _blocks_per_sm(launch: Any) -> tuple[int, int]:
    """The least and the most."""
    found = launch.attributes
    most = ir.IntegerAttr(found[BLOCKS_PER_SM]).value if BLOCKS_PER_SM in found else 1
    return ir.IntegerAttr(found[FEWEST_BLOCKS_PER_SM]).value if FEWEST_BLOCKS_PER_SM in found else most, most


def _read_kernel(module: Any, function: Any, launches: list[Any]) -> Kernel:
    ops = walk(function)
    name = symbol_name(function)
    kernel = Kernel(
        module=symbol_name(module),
        name=name,
        where=where(function),
        block=_known(function, "known_block_size"),
        cluster=_known(function, "known_cluster_size") or (1, 1, 1),
        user_smem_bytes=max((_smem_bytes(launch, name) for launch in launches), default=0),
        mbarriers=sum(mbarriers(op.results[0]) for op in ops if op.name == "nvgpu.mbarrier.create"),
        tensor_maps=tuple(
            i
            for i, argument in enumerate(function.regions[0].blocks[0].arguments)
            if str(argument.type).startswith("!nvgpu.tensormap")
        ),
        op_names=frozenset(op.name for op in ops),
        wgmma=next((where(op) for op in ops if _is_wgmma(op)), None),
        setmaxnreg=next((where(op) for op in ops if op.name == "nvvm.setmaxregister"), None),
        blocks_per_sm=max((_blocks_per_sm(launch)[1] for launch in launches), default=1),
        fewest_blocks=max((_blocks_per_sm(launch)[0] for launch in launches), default=1),
        tiles=declared.read(launches[0]) if len(launches) == 1 else (),
        size=len(ops),
    )
    _check_smem(kernel, where(launches[0]) if launches else kernel.where)
    return kernel


def _known(function: Any, name: str) -> Dim3 | None:
    if name not in function.attributes:
        return None
    x, y, z = integers(function, name)
    return x, y, z


def _is_wgmma(op: Any) -> bool:
    if op.name == "llvm.inline_asm":
        return "wgmma.mma_async" in string(op, "asm_string")
    return op.name in ("nvvm.wgmma.mma_async", "nvgpu.warpgroup.mma")


def _smem_bytes(launch: Any, name: str) -> int:
    operand = named(launch).dynamicSharedMemorySize
    if operand is None:
        return 0
    size = _constant(operand)
    if size is None:
        raise VerifyError(
            f"kernel {name}: the dynamic shared memory of its launch is computed by the host function",
            where=where(launch),
            rule="the mbarriers are placed behind the kernel's data, so its size must be known when it is compiled",
            fix="pass a Python int as the shared memory size",
        )
    return size


def _constant(value: Any) -> int | None:
    """The int that a host value always has; casts of integers are looked through."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "arith.constant":
        return integer(op, "value")
    if op.name in ("arith.index_cast", "arith.index_castui", "arith.extui", "arith.extsi", "arith.trunci"):
        return _constant(op.operands[0])
    return None


def _check_smem(kernel: Kernel, place: Where | None) -> None:
    total, limit = kernel.smem_bytes, arch.MAX_SMEM_PER_BLOCK
    if total <= limit:
        return
    barriers = kernel.mbarriers * arch.MBARRIER_BYTES
    raise VerifyError(
        f"kernel {kernel.name} needs {total:,} bytes of shared memory: {kernel.user_smem_bytes:,} of data and "
        f"{barriers:,} of {kernel.mbarriers} mbarriers",
        where=place,
        rule=f"a block has at most {limit:,} bytes (CUDA programming guide, compute capability 9.0)",
        fix=f"save {total - limit:,} bytes: fewer stages or smaller tiles",
    )
