"""What one specialization of a host function became: compiled for the GPU, or simulated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from nvdsl.call.garbage import none_collected
from nvdsl.errors.records import dataclass
from nvdsl.mlir.threads import Once

if TYPE_CHECKING:
    from nvdsl.driver.executable import Executable
    from nvdsl.lower.result import KernelBinary, Lowered
    from nvdsl.mlir import ir


class Stage(NamedTuple):
    """A module on its way from a payload: ``text`` is the module behind the step ``name``, which ``says`` what it
    does."""

    name: str
    says: str
    text: str


@dataclass
class Compiled:
    """One specialization: the traced module, its kernels, and the seconds each stage took.

    ``module``: the traced ``ir.Module``. ``kernels``: name -> `nvdsl.lower.result.KernelBinary` (``ptx``, ``cubin``,
    ``resources``, ``sass()``). ``seconds``: stage -> time. ``stages``: of a schedule, the module behind each of its
    steps. ``trace``: gives the module, which is traced when it is asked for where kernels were found without
    (`nvdsl.call.untraced`).
    """

    name: str
    trace: Callable[[], ir.Module]
    lowered: Lowered
    written: frozenset[int]
    arguments: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    _executable: Once[Executable] = field(default_factory=Once)

    @functools.cached_property
    def module(self) -> ir.Module:
        """The traced module."""
        return self.trace()

    @property
    def kernels(self) -> dict[str, KernelBinary]:
        """The compiled kernels by name; each has ``ptx``, ``cubin``, ``resources`` and ``sass()``."""
        return self.lowered.kernels

    @property
    def mlir(self) -> str:
        """The traced module as text."""
        return str(self.module)

    @property
    def ptx(self) -> str:
        """The PTX of all kernels, one after the other."""
        return "\n".join(k.ptx for k in self.kernels.values())

    def report(self) -> str:
        """A table of what each kernel uses, and where the compile time went."""
        lines = []
        for kernel in self.kernels.values():
            r = kernel.resources
            lines.append(
                f"{kernel.name}: {r.registers} registers a thread, {kernel.smem_bytes:,} bytes of shared memory, "
                f"{kernel.max_threads} threads, {r.stack} bytes of stack, "
                f"{r.spill_stores + r.spill_loads} bytes spilled, {len(kernel.cubin):,} bytes of cubin"
            )
        total = sum(self.seconds.values())
        parts = ", ".join(f"{stage} {1e3 * seconds:.0f} ms" for stage, seconds in self.seconds.items())
        lines.append(f"compiled in {1e3 * total:.0f} ms ({parts})")
        return "\n".join(lines)

    def executable(self) -> Executable:
        """The executable host body. It is made at the first launch."""
        from nvdsl.driver import executable

        host, names = self.lowered.host, self.arguments or None
        def make() -> Executable:
            with none_collected():
                return executable.build(host, self.name, self.kernels, written=self.written, names=names)

        return self._executable.make("", make)


@dataclass
class Simulated:
    """One specialization for the simulator: traced, and never lowered."""

    program: Executable

    def executable(self) -> Executable:
        return self.program
