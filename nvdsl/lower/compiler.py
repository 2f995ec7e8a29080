"""`lower`: the whole way from a traced module to cubins."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from nvdsl.errors import VerifyError
from nvdsl.hopper import arch
from nvdsl.lower import advisories, ahead, binaries, kernels, passes, prepare, ptx, ptxas, steps
from nvdsl.lower.device_log import Watch
from nvdsl.lower.dump import Dump
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.options import Options
from nvdsl.lower.ptx import Ptx
from nvdsl.lower.result import KernelBinary, Lowered, Resources
from nvdsl.mlir import ir, threads

Meanwhile = Callable[[Any], None]
"""What is done with the outlined module while ptxas runs."""


def _nothing(host: Any) -> None: ...


def lower(module: Any, options: Options | None = None, meanwhile: Meanwhile = _nothing) -> Lowered:
    """Compile the kernels of a traced module for sm_90a.

    ``module``: host functions with ``gpu.launch`` regions; it is left as it is. ``options``: default the environment's.
    What was compiled before may come from the disk (`binaries`). ``meanwhile`` is called where something is compiled.
    Raises VerifyError (shared memory), LowerError (a pass, the backend or ptxas refuses it; in strict mode any
    advisory of ptxas), ToolchainError (ptxas or libdevice is missing), with the user's line where there is
    one. Warns AdvisoryWarning at the user's line.
    """
    options = options or Options.from_environment()
    found_by = binaries.key(module, options)
    if found_by is None:
        lowered, advice = _compile(module, options, meanwhile)
    else:
        lowered, advice = _kept(found_by, module, options) or _compile_once(found_by, module, options, meanwhile)
    if not options.debug:  # ptxas's advice is about what debug mode added, too
        advisories.report(advice, strict=options.strict)
    return lowered


def _kept(found_by: str, module: Any, options: Options) -> tuple[Lowered, list[advisories.Advisory]] | None:
    """What the disk has of a module. Only JSON, PTX and cubins come from there: the host module is made anew."""
    start = time.perf_counter()
    kept = binaries.load(found_by)
    if kept is None:
        return None
    made, advice = kept
    with threads.mlir, module.context, ir.Location.unknown():
        host = outline(module, options, Dump(options, module))
    return Lowered(host, made, {"look-up": time.perf_counter() - start}, found_by), advice


def _compile_once(
    found_by: str, module: Any, options: Options, meanwhile: Meanwhile
) -> tuple[Lowered, list[advisories.Advisory]]:
    """Compile and keep it; or wait for a process that is doing that."""
    with binaries.alone(found_by) as waited_for:
        kept = _kept(found_by, module, options) if waited_for else None
        if kept is None:
            lowered, advice = _compile(module, options, meanwhile)
            kept = replace(lowered, found_by=found_by), advice
            binaries.save(found_by, *kept)
    return kept


def _compile(
    module: Any, options: Options, meanwhile: Meanwhile = _nothing
) -> tuple[Lowered, list[advisories.Advisory]]:
    dump = Dump(options, module)
    stages = {"passes": 0.0, "ptx": 0.0}
    with threads.mlir, module.context, ir.Location.unknown(), _timed(stages, "passes"):
        host = outline(module, options, dump)
        found = kernels.read(host)
    outlined = stages["passes"]
    with closing(_current(host, to_ptx(host, found, options, dump, stages))) as codes, _timed(stages, "ptxas"):
        assembled = ptxas.assemble(codes, options, lambda: ahead.beside_ptxas(lambda: meanwhile(host)))
        assembled = [_without_spills(one, _of(one.ptx, found), options, dump) for one in assembled]
    stages["ptxas"] -= stages["passes"] - outlined + stages["ptx"]
    order = [kernel.module for kernel in found.values()]
    assembled.sort(key=lambda one: order.index(one.ptx.module))
    made = _binaries(found, assembled, options)
    for symbol, binary in made.items():
        dump.binary(symbol, binary)
    return Lowered(host, made, stages), [
        advisory for one in assembled for advisory in advisories.read(one.log, one.ptx, _of(one.ptx, found))
    ]


def _current(host: Any, codes: Iterator[Ptx]) -> Generator[Ptx, None, None]:
    with threads.mlir, host.context, ir.Location.unknown():
        yield from codes


def to_ptx(
    host: Any, found: dict[str, Kernel], options: Options, dump: Dump, stages: dict[str, float]
) -> Iterator[Ptx]:
    """The PTX of an outlined module's kernels, one ``gpu.module`` after the other: the largest first, so that its
    ptxas runs beside all that follows. ``found``: `kernels.read`. Needs the context to be current."""
    sizes = {kernel.module: 0 for kernel in found.values()}
    for kernel in found.values():
        sizes[kernel.module] += kernel.size
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        with _timed(stages, "passes"):
            device = prepare.device_module(host, name)
            own = {symbol: kernel for symbol, kernel in found.items() if kernel.module == name}
            steps.run_all(passes.DEVICE, device, own, options, dump)
        with _timed(stages, "ptx"):
            steps.generate_ptx(device)
            codes = ptx.read(device, lineinfo=options.lineinfo)
        for code in codes:
            dump.text("ptx", code.module, "ptx", code.text)
            yield code


def outline(module: Any, options: Options, dump: Dump) -> Any:
    """A copy of a traced module with its kernels in ``gpu.module``s. Needs ``module``'s context to be current."""
    dump.module("trace", module)
    host = _copy(module)
    attributes = prepare.launch_attributes(host)
    steps.run_all(passes.HOST, host, {}, options, dump)
    prepare.restore_launch_attributes(host, attributes)
    dump.module("host", host)
    return host


def host_text(host: Any) -> str:
    """An outlined module as text, with its locations; of the kernels only what they are called with."""
    with threads.mlir, host.context, ir.Location.unknown():
        copy = _copy(host)
        for _, kernel in kernels.kernels_of(copy):
            for block in list(kernel.regions[0].blocks)[1:]:
                block.erase()
            body = kernel.regions[0].blocks[0]
            for op in reversed(list(body.operations)):
                op.operation.erase()
            with ir.InsertionPoint(body):
                ir.Operation.create("gpu.return")
        return str(copy.operation.get_asm(enable_debug_info=True))


@contextmanager
def _timed(stages: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    stages[name] = stages.get(name, 0.0) + time.perf_counter() - start


def _copy(module: Any) -> Any:
    copy = ir.Module.create(module.operation.location)
    for name in module.operation.attributes:
        copy.operation.attributes[name] = module.operation.attributes[name]
    for op in module.body.operations:
        op.operation.clone(ip=ir.InsertionPoint(copy.body))
    return copy


def _of(code: Ptx, found: dict[str, Kernel]) -> list[Kernel]:
    return [kernel for kernel in found.values() if kernel.module == code.module]


def _without_spills(one: ptxas.Assembled, own: list[Kernel], options: Options, dump: Dump) -> ptxas.Assembled:
    """Assembled again for fewer blocks on an SM, where that may be and registers are spilled otherwise."""
    blocks = {kernel.name: kernel.blocks_per_sm for kernel in own}
    while True:
        code = one.ptx
        for kernel in own:
            less = kernel.fewer_blocks(blocks[kernel.name])
            if less and one.resources.get(kernel.name, Resources()).spilled:
                code, blocks[kernel.name] = code.for_blocks(kernel.name, less), less
        if code is one.ptx:
            return one
        dump.text("ptx", code.module, "ptx", code.text)
        (one,) = ptxas.assemble([code], options)


def _binaries(found: dict[str, Kernel], assembled: list[ptxas.Assembled], options: Options) -> dict[str, KernelBinary]:
    made = {}
    for one in assembled:
        for kernel in _of(one.ptx, found):
            resources = one.resources.get(kernel.name, Resources())
            _check_smem(kernel, resources.static_smem)
            made[kernel.symbol] = _binary(kernel, one.ptx, one.cubin, resources, options)
    return made


def _binary(kernel: Kernel, code: Ptx, cubin: bytes, resources: Resources, options: Options) -> KernelBinary:
    x, y, z = kernel.block or (arch.MAX_THREADS_PER_BLOCK, 1, 1)
    return KernelBinary(
        name=kernel.name,
        symbol=kernel.symbol,
        ptx=code.text,
        cubin=cubin,
        smem_bytes=kernel.smem_bytes,
        user_smem_bytes=kernel.user_smem_bytes,
        max_threads=x * y * z,
        block=kernel.block,
        cluster=kernel.cluster,
        resources=resources,
        where=kernel.where,
        watch=Watch(tuple(kernel.sites), options.debug_timeout) if options.debug else None,
    )


def _check_smem(kernel: Kernel, static: int) -> None:
    total, limit = kernel.smem_bytes + static, arch.MAX_SMEM_PER_BLOCK
    if static and total > limit:
        raise VerifyError(
            f"kernel {kernel.name} needs {total:,} bytes of shared memory: {kernel.smem_bytes:,} dynamic and "
            f"{static:,} static",
            where=kernel.where,
            rule=f"a block has at most {limit:,} bytes (CUDA programming guide, compute capability 9.0)",
            fix="keep everything in the dynamic block (nv.smem), without workgroup attributions",
        )
