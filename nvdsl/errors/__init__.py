"""One exception type per stage, each carrying the user's file and line.

A message has the same four parts everywhere: what happened, where (``file:line``), the rule that
was broken, and what to write instead.
"""

from __future__ import annotations

from nvdsl.errors.frames import Where as Where
from nvdsl.errors.frames import caller


class NvdslError(Exception):
    """Base of all errors that nvdsl raises.

    Attributes: ``message`` (what happened, with the values), ``where`` (the user's file and line, or
    None), ``rule`` (the rule that was broken, with its source) and ``fix`` (what to write instead).
    """

    stage = "nvdsl"

    def __init__(
        self, message: str, *, where: Where | None = None, rule: str = "", fix: str = ""
    ) -> None:
        self.message, self.where, self.rule, self.fix = message, where, rule, fix
        super().__init__(message)

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        if self.rule:
            lines.append(f"  rule: {self.rule}")
        if self.fix:
            lines.append(f"  fix:  {self.fix}")
        return "\n".join(lines)


class ToolchainError(NvdslError):
    """MLIR, ptxas or another tool is missing or not usable."""

    stage = "toolchain"


class TraceError(NvdslError):
    """The Python of a host function or a kernel can't be traced."""

    stage = "trace"


class LayoutError(NvdslError, ValueError):
    """No layout is what was asked for: shapes that don't match, a composition that is no layout, no inverse."""

    stage = "trace"


class ScheduleError(NvdslError):
    """A step of a schedule does not fit what the steps before it have made, or the payload."""

    stage = "schedule"


class VerifyError(NvdslError):
    """The traced module breaks a rule of the hardware."""

    stage = "verify"


class LowerError(NvdslError):
    """A pass, the PTX backend or ptxas refused the module."""

    stage = "lower"


class ArgumentError(NvdslError):
    """An argument of a call does not fit: dtype, layout, alignment, device."""

    stage = "launch"


class DeviceError(NvdslError):
    """No usable GPU, or the CUDA driver reported an error."""

    stage = "launch"


class SimError(NvdslError):
    """The simulator found a kernel wrong: a deadlock, a race, an access out of bounds, an op without semantics.

    ``kind`` names the rule for programs and tests, e.g. "deadlock", "raw", "proxy-fence"; ``details`` are further
    lines: the other side of a race, every blocked warp of a deadlock.
    """

    stage = "simulate"

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        where: Where | None = None,
        rule: str = "",
        fix: str = "",
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, where=where, rule=rule, fix=fix)
        self.kind, self.details = kind, details

    def __str__(self) -> str:
        return _with_details(super().__str__(), self.details)


class WatchdogError(DeviceError):
    """Debug mode stopped a kernel on the GPU, or saw that it hangs.

    ``kind``: "deadlock", "assert", "out-of-bounds", as `SimError` has them, or "hang": the kernel waits where no wait
    can end. ``details``: every warp's wait. ``running``: the kernel could not be stopped and still holds the GPU;
    else it is gone. Either way this process can use the GPU no more.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        where: Where | None = None,
        rule: str = "",
        fix: str = "",
        details: tuple[str, ...] = (),
        running: bool = False,
    ) -> None:
        super().__init__(message, where=where, rule=rule, fix=fix)
        self.kind, self.details, self.running = kind, details, running

    def __str__(self) -> str:
        return _with_details(super().__str__(), self.details)


def _with_details(text: str, details: tuple[str, ...]) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" for line in details), *rest])


class TuneError(NvdslError):
    """No configuration could be chosen: all were refused, failed, or disagreed about the result."""

    stage = "tune"


class TuneWarning(UserWarning):
    """Tuning was asked for and is not possible here, or it found something that the kernel's author should know."""


class AdvisoryWarning(UserWarning):
    """The kernel runs, but perhaps not as it was meant: ptxas spilled registers or serialized wgmma, f32 arithmetic
    became f64, or rows of a matrix lie in the same banks of shared memory."""


def trace_error(message: str, *, rule: str = "", fix: str = "") -> TraceError:
    """A TraceError at the user's line that is being traced."""
    return TraceError(message, where=caller(), rule=rule, fix=fix)


def layout_error(message: str, *, rule: str = "", fix: str = "") -> LayoutError:
    """A LayoutError at the user's line that called the layout algebra."""
    return LayoutError(message, where=caller(), rule=rule, fix=fix)
