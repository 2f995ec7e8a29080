"""What is known about the kernel that is being traced: its block, its cluster and its shared memory.

Tracing a launch pushes a `Kernel`; wrappers ask `current()` for it. Nothing else is global.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass


@dataclass
class Kernel:
    """Facts of one launch, in threads, blocks and bytes.

    ``named_barriers``: the numbers that the kernel's own code names. ``group_barriers``: the first number that groups
    of so many threads got. ``at_start``: what is made once, where the kernel starts. ``recomputing``: see
    `ops.order.recomputing`. ``converted``: what to call for a
    function of the user's, so that its control flow is traced.
    """

    name: str
    grid: tuple = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    smem_bytes: int = 0
    tiles: list[Any] = field(default_factory=list)  # `declared.Declared`
    named_barriers: set[int] = field(default_factory=set)
    group_barriers: dict[int, int] = field(default_factory=dict)
    at_start: dict[str, Any] = field(default_factory=dict)
    recomputing: bool = False
    converted: Callable[[Any], Any] = lambda function: function

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    @property
    def cluster_size(self) -> int:
        x, y, z = self.cluster
        return x * y * z

    def allocate(self, size: int, alignment: int) -> int:
        """Byte offset of ``size`` new bytes in the dynamic shared memory of a block."""
        offset = -(-self.smem_bytes // alignment) * alignment
        self.smem_bytes = offset + size
        return offset


_current: ContextVar[Kernel | None] = ContextVar("nvdsl_kernel", default=None)


def current(what: str = "this operation") -> Kernel:
    """The kernel being traced. Raises TraceError outside of one."""
    kernel = _current.get()
    if kernel is None:
        raise trace_error(
            f"{what} was used outside of a kernel",
            rule="device operations are traced inside a function decorated with @nv.kernel(...)",
            fix="call it in the kernel's body, inside a host function decorated with @nv.jit",
        )
    return kernel


def traced() -> Kernel | None:
    """The kernel being traced; None in a host function, and where nothing is traced."""
    return _current.get()


def outside(what: str, fix: str) -> None:
    """Raises TraceError inside of a kernel: ``what`` is the host's."""
    kernel = _current.get()
    if kernel is not None:
        raise trace_error(
            f"{what} inside of kernel `{kernel.name}`",
            rule="tensor maps, launches and device memory belong to the host function",
            fix=fix,
        )


def is_host() -> bool:
    """Whether what is traced now is a host function's own."""
    return traced() is None


def within(kernel: Kernel, function: Callable[[], None]) -> None:
    """Call ``function``, in which ``kernel`` is the current one."""
    outer = _current.get()
    try:
        _current.set(kernel)  # here, not before: Ctrl-C may come as soon as it is set
        function()
    finally:
        _current.set(outer)
