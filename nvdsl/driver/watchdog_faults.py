"""What a warp that stopped its kernel did wrong, in the words of the simulator's reports."""

from __future__ import annotations

from collections.abc import Callable

from nvdsl.driver.printf import formatted
from nvdsl.driver.watchdog_log import Warp
from nvdsl.errors import WatchdogError
from nvdsl.hopper import arch
from nvdsl.lower.device_log import MAX_VALUES, number
from nvdsl.values.elements import ELEMENTS

ELSEWHERE = "nv.debug.run(f, ...) calls f in a process of its own"
LOST = f"the kernel was stopped, and this process can use the GPU no more: {ELSEWHERE}"


def _assert(warp: Warp, others: int) -> WatchdogError:
    site = warp.site
    values = [number(bits, type) for bits, type in zip(warp.values, site.types, strict=False)]
    text = formatted(site.what, values + [0] * MAX_VALUES).removeprefix(f"{site.where}: ")
    return WatchdogError(
        f"device assert failed in {warp.name}, thread {warp.thread}: {text}",
        kind="assert",
        where=site.where,
        details=(*_more(others, "failed it, too"), LOST),
    )


def _out_of_bounds(warp: Warp, others: int) -> WatchdogError:
    site = warp.site
    values = [number(bits, type) for bits, type in zip(warp.values, site.types, strict=False)]
    indices, logged = values[: len(site.extents)], iter(values[len(site.extents) :])
    extents = [next(logged, None) if extent is None else extent for extent in site.extents]
    shown = str(indices[0]) if len(indices) == 1 else str(tuple(indices))
    pairs = enumerate(zip(indices, extents, strict=True))
    axis = next((i for i, (n, below) in pairs if n < 0 or below is not None and n >= below), 0)
    what = "byte" if site.of.endswith("shared memory") and len(indices) == 1 else "index"
    axis_ = f"on axis {axis} " if len(indices) > 1 else ""
    below = extents[axis]
    largest = f"{axis_}the largest legal {what} is {'unknown' if below is None else below - 1}"
    if site.count > 1:
        largest += f", and it is a multiple of {site.count}"
    return WatchdogError(
        f"{site.what} out of bounds by {warp.name}, thread {warp.thread}: {what} {shown} of {site.of}",
        kind="out-of-bounds",
        where=site.where,
        details=(
            largest,
            *_more(others, "made such an access, too"),
            LOST,
        ),
        rule="an access stays inside of its allocation; negative indices don't wrap in a kernel",
        fix="check the index, and the condition that guards the last block",
    )


def _misaligned(warp: Warp, others: int) -> WatchdogError:
    site = warp.site
    return WatchdogError(
        f"misaligned {site.what} of {site.count} bytes by {warp.name}, thread {warp.thread}: its address is "
        f"{number(warp.values[0], 'index')} past a multiple of {site.count}",
        kind="misaligned",
        where=site.where,
        details=(*_more(others, "made such an access, too"), LOST),
        rule="an access is aligned to its size (PTX ISA, Addresses as operands)",
        fix="align the start of the array and the index, or take fewer elements",
    )


def _illegal_copy(warp: Warp, others: int) -> WatchdogError:
    site, dtype = warp.site, ELEMENTS[warp.site.of]
    at = tuple(number(bits, type) for bits, type in zip(warp.values, site.types, strict=False))
    if at[0] % site.count:
        found = f"innermost coordinate {at[0]} is {at[0] * dtype.bytes:,} bytes of {dtype.name}"
        rule = f"it is a multiple of {arch.TMA_COORDINATE_MULTIPLE} bytes"
        fix = f"start the box at {at[0] // site.count * site.count}, or use ordinary loads and stores"
    else:
        found = f"coordinates {at}, innermost first"
        rule, fix = "what goes to global memory has no negative coordinate", "start the box inside of the array"
    return WatchdogError(
        f"{site.what} by {warp.name}, thread {warp.thread}: {found}",
        kind="illegal-copy",
        where=site.where,
        details=(*_more(others, "made such a copy, too"), LOST),
        rule=f"{rule}, else it is an illegal instruction (measured on an H200: docs/hardware.md)",
        fix=fix,
    )


def _division(warp: Warp, others: int) -> WatchdogError:
    site = warp.site
    dividend, divisor = (number(bits, site.of) for bits in warp.values[:2])
    overflows = divisor != 0
    return WatchdogError(
        f"{warp.name}, thread {warp.thread}, divides {dividend} by {divisor} ({site.what})"
        + (f": the quotient has no {site.of}" if overflows else ""),
        kind="division",
        where=site.where,
        details=(*_more(others, "did so, too"), LOST),
        rule="a signed division that overflows is undefined (LLVM)"
        if overflows
        else "an integer division or remainder by 0 is undefined (LLVM), its value unspecified (PTX ISA, div)",
        fix="guard it with an `if`, or compute in a wider type"
        if overflows
        else "guard it with an `if`, or divide by nv.max(y, 1)",
    )


def _loop_step(warp: Warp, others: int) -> WatchdogError:
    site = warp.site
    return WatchdogError(
        f"{warp.name}, thread {warp.thread}, is at a loop with a step of {number(warp.values[0], site.of)}",
        kind="loop-step",
        where=site.where,
        details=(*_more(others, "came to it, too"), LOST),
        rule="a loop counts up: with a step of 0 it never ends, with a negative one it is not entered or never ends "
        "(MLIR, scf.for)",
        fix="nv.range with a step above 0; to count down, a negative int as a literal",
    )


FAULTS: dict[str, Callable[[Warp, int], WatchdogError]] = {
    "assert": _assert,
    "out-of-bounds": _out_of_bounds,
    "misaligned": _misaligned,
    "illegal-copy": _illegal_copy,
    "division": _division,
    "loop-step": _loop_step,
}


def _more(others: int, did: str) -> tuple[str, ...]:
    return (f"{others} more warp{'s' if others > 1 else ''} {did}",) if others else ()
