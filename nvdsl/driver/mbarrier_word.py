"""An mbarrier's state, as a kernel in debug mode read it (`nvdsl.lower.device_log`), in words."""

from __future__ import annotations

from nvdsl.errors.records import dataclass


@dataclass(frozen=True)
class State:
    """``pending``: arrivals that the phase still needs; ``bytes``: those that it still waits for, negative where more
    came than were expected; ``parity``: of the phase under way."""

    parity: int
    pending: int
    bytes: int

    def __str__(self) -> str:
        needs = [f"{self.pending} arrival{'s' if self.pending != 1 else ''}"] if self.pending or not self.bytes else []
        needs += [f"{self.bytes} bytes"] if self.bytes else []
        return f"its phase (parity {self.parity}) still needs {' and '.join(needs)}"


def decode(word: int) -> State | None:
    """None where the kernel did not come to read it."""
    if not word >> 63:
        return None
    size = word & 0xFFFFFFFF
    return State(word >> 52 & 1, word >> 32 & 0xFFFFF, size - ((size & 0x80000000) << 1))


def hint(name: str, state: State, waited: int) -> str:
    """The likely cause of a wait for parity ``waited`` that does not end."""
    if state.bytes < 0:
        return f"{-state.bytes} more bytes were copied to {name} than it was told to expect"
    if state.bytes and not state.pending:
        return f"{state.bytes} bytes that {name} expects are in no copy: expect_tx says more than the boxes hold"
    if state.parity != waited:
        return f"{name} completed the phase that is waited for only after the wait had been given up"
    missing = "a missing arrive, an init count that is too high, or a wait for a phase that is not the next one"
    return f"{name} still needs {state.pending} arrival{'s' if state.pending != 1 else ''}: {missing}"
