"""What a launch's log says, in the words of the simulator's reports."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nvdsl.driver.mbarrier_word import State, decode, hint
from nvdsl.driver.printf import formatted
from nvdsl.errors import WatchdogError
from nvdsl.hopper import arch
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.lower.device_log import BEFORE, FAULT, MAX_VALUES, PAST, Site, Watch, number
from nvdsl.values.elements import ELEMENTS

_LINES = 24
"""Of a report that lists warps."""

_ELSEWHERE = "nv.debug.run(f, ...) calls f in a process of its own"
_LOST = f"the kernel was stopped, and this process can use the GPU no more: {_ELSEWHERE}"
_RUNS = f"the kernel still runs, and ends with this process: {_ELSEWHERE}"


@dataclass(frozen=True)
class Warp:
    """One warp's slot. ``at``: its block's index as it is shown; ``thread``: the lane's that wrote, x counted first."""

    order: int
    number: int
    at: str
    thread: int
    state: int
    site: Site
    index: int
    parity: int
    barrier: State | None
    values: tuple[int, ...]
    returned: bool

    @property
    def name(self) -> str:
        return f"warp {self.number}{self.at}"


@dataclass(frozen=True)
class Launch:
    """``warps``: those that have begun. ``count``: all of the launch."""

    warps: list[Warp]
    count: int


def read(slots: Any, grid: tuple[int, int, int], block: tuple[int, int, int], watch: Watch) -> Launch:
    threads = math.prod(block)
    per_block = -(-threads // WARP_SIZE)
    dimensions = 3 if grid[2] > 1 else 2 if grid[1] > 1 else 1
    read = {_mbarrier_key(slot): state for slot in slots if (state := decode(int(slot["barrier"])))}
    warps = []
    for slot in slots[slots["state"] != 0]:
        x, y, z = (int(i) for i in slot["block"])
        n = int(slot["thread"]) // WARP_SIZE
        index = (x, y, z)[:dimensions]
        at = "" if math.prod(grid) == 1 else f" of block {x if dimensions == 1 else index}"
        lanes = min(WARP_SIZE, threads - WARP_SIZE * n)
        warps.append(
            Warp(
                order=((z * grid[1] + y) * grid[0] + x) * per_block + n,
                number=n,
                at=at,
                thread=int(slot["thread"]),
                state=int(slot["state"]),
                site=watch.sites[int(slot["site"])],
                index=int(slot["index"]),
                parity=int(slot["parity"]),
                barrier=_barrier(slot, read),
                values=tuple(int(v) for v in slot["values"]),
                returned=bool(slot["returned"][:lanes].all()),
            )
        )
    return Launch(sorted(warps, key=lambda w: w.order), math.prod(grid) * per_block)


def _mbarrier_key(slot: Any) -> tuple[Any, ...]:
    return (*map(int, slot["block"]), int(slot["site"]), int(slot["index"]))


def _barrier(slot: Any, read: dict[Any, State]) -> State | None:
    """One warp reads an mbarrier's state for all that wait there."""
    return read.get(_mbarrier_key(slot)) if slot["state"] == FAULT else None


# --- a kernel that stopped itself


def stopped(kernel: str, launch: Launch, watch: Watch) -> WatchdogError | None:
    """The error of a kernel that stopped itself; None where none of its warps says so."""
    faults = [w for w in launch.warps if w.state == FAULT]
    for kind, make in _FAULTS.items():
        of_kind = [w for w in faults if w.site.kind == kind]
        if of_kind:
            return make(of_kind[0], len(of_kind) - 1)
    return _deadlock(kernel, faults, launch, watch) if faults else None


def _assert(warp: Warp, others: int) -> WatchdogError:
    site = warp.site
    values = [number(bits, type) for bits, type in zip(warp.values, site.types, strict=False)]
    text = formatted(site.what, values + [0] * MAX_VALUES).removeprefix(f"{site.where}: ")
    return WatchdogError(
        f"device assert failed in {warp.name}, thread {warp.thread}: {text}",
        kind="assert",
        where=site.where,
        details=(*_more(others, "failed it, too"), _LOST),
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
            _LOST,
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
        details=(*_more(others, "made such an access, too"), _LOST),
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
        details=(*_more(others, "made such a copy, too"), _LOST),
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
        details=(*_more(others, "did so, too"), _LOST),
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
        details=(*_more(others, "came to it, too"), _LOST),
        rule="a loop counts up: with a step of 0 it never ends, with a negative one it is not entered or never ends "
        "(MLIR, scf.for)",
        fix="nv.range with a step above 0; to count down, a negative int as a literal",
    )


_FAULTS: dict[str, Callable[[Warp, int], WatchdogError]] = {
    "assert": _assert,
    "out-of-bounds": _out_of_bounds,
    "misaligned": _misaligned,
    "illegal-copy": _illegal_copy,
    "division": _division,
    "loop-step": _loop_step,
}


def _more(others: int, did: str) -> tuple[str, ...]:
    return (f"{others} more warp{'s' if others > 1 else ''} {did}",) if others else ()


# --- a kernel whose warps wait


def _deadlock(kernel: str, faults: list[Warp], launch: Launch, watch: Watch) -> WatchdogError:
    many = "s" if len(faults) != 1 else ""
    return WatchdogError(
        f"deadlock: in kernel {kernel} {len(faults)} warp{many} waited for {watch.timeout:g} s at an mbarrier whose "
        "phase did not complete",
        kind="deadlock",
        where=faults[0].site.where,
        details=(*_waits(launch), _LOST, *_likely(launch)),
        rule="a phase completes when its arrivals and its bytes have all come; a barrier when all its threads have",
        fix="compare the arrival count, the bytes and the phase of the barriers above with who arrives on them "
        "(a wait that is meant to be long: NVDSL_DEBUG_TIMEOUT=seconds)",
    )


def hung(kernel: str, launch: Launch, watch: Watch) -> WatchdogError:
    """The error of a kernel that does not end, and stops in none of its mbarrier waits."""
    if not launch.warps:
        return _not_begun(kernel, launch)
    stuck = [w for w in launch.warps if w.state == BEFORE and not w.returned and w.site.kind != "entry"]
    blocked = next(iter([w for w in stuck if w.site.kind == "setmaxnreg"] or stuck or launch.warps), None)
    seconds = f"{2 * watch.timeout + 1:g} s"
    return WatchdogError(
        f"hang: kernel {kernel} has not ended, and for {seconds} none of its warps came to another wait",
        kind="hang",
        where=blocked.site.where if blocked else None,
        details=(*_waits(launch), _RUNS, *_likely(launch)),
        rule="barriers and setmaxnreg end when all that they wait for come; once entered, they can't be left",
        fix="look at who is missing above (where a kernel computes that long: NVDSL_DEBUG_TIMEOUT=seconds)",
        running=True,
    )


def _not_begun(kernel: str, launch: Launch) -> WatchdogError:
    return WatchdogError(
        f"hang: kernel {kernel} has been launched, and none of its {launch.count} warps has begun",
        kind="hang",
        details=(f"the launch ends with this process: {_ELSEWHERE}",),
        rule="a kernel begins when the GPU has room for one of its blocks",
        fix="look for a kernel of another stream or process that has the GPU and does not end (nvidia-smi)",
        running=True,
    )


def _waits(launch: Launch) -> list[str]:
    """A line for the warps that wait for the same thing at the same place, and for those that don't wait."""
    lines = []
    here = [w for w in launch.warps if not w.returned]
    for (does, _), warps in _grouped(here, lambda w: (_does(w), w.site.where)):
        at = f" at {warps[0].site.where}" if warps[0].site.where else ""
        lines.append(f"{_names(warps)} {does[len(warps) != 1]}{at}")
    if len(lines) > _LINES:
        lines[_LINES:] = [f"... and {len(lines) - _LINES} more places where warps wait"]
    gone = sum(w.returned for w in launch.warps)
    if gone:
        lines.append(f"{gone} warp{'s have' if gone > 1 else ' has'} returned from the kernel")
    if launch.count > len(launch.warps):
        lines.append(f"{launch.count - len(launch.warps)} warps have not begun")
    return lines


def _grouped(warps: Iterable[Warp], key: Callable[[Warp], Any]) -> list[tuple[Any, list[Warp]]]:
    groups: dict[Any, list[Warp]] = {}
    for warp in warps:
        groups.setdefault(key(warp), []).append(warp)
    return list(groups.items())


def _does(warp: Warp) -> tuple[str, str]:
    """What a warp does, and what several do."""
    if warp.site.kind == "entry":
        return "has come to no wait since it began", "have come to no wait since they began"
    what = _what(warp)
    if warp.state == PAST:
        return f"came past {what}, and to no other wait since", f"came past {what}, and to no other wait since"
    return f"waits for {what}", f"wait for {what}"


def _what(warp: Warp) -> str:
    site = warp.site
    if site.kind == "mbarrier":
        known = f": {warp.barrier}" if warp.barrier else ""
        return f"mbarrier {_mbarrier(warp)}, parity {warp.parity}{known}"
    return {
        "barrier": "the block's barrier",
        "named-barrier": f"named barrier {warp.index}",
        "cluster": "the cluster's barrier",
        "grid": "the grids before this one (griddepcontrol.wait)",
        "warp": "the other lanes of its warp",
        "setmaxnreg": f"registers (setmaxnreg.inc to {site.count})",
    }.get(site.kind, f"something at its {site.kind}")


def _mbarrier(warp: Warp) -> str:
    if warp.site.count == 1:
        return warp.site.what
    return f"{warp.site.what} {warp.index}" if warp.site.count == 0 else f"{warp.site.what}[{warp.index}]"


def _names(warps: list[Warp]) -> str:
    """E.g. "warp 3, thread 96," or "warps 0 to 3, 5 of block 0 and 12 more"."""
    if len(warps) == 1:
        return f"{warps[0].name}, thread {warps[0].thread},"
    same = [w.number for w in warps if w.at == warps[0].at]
    parts: list[str] = []
    for _, run in itertools.groupby(enumerate(same), lambda pair: pair[1] - pair[0]):
        numbers = [n for _, n in run]
        parts += [f"{numbers[0]} to {numbers[-1]}"] if len(numbers) > 2 else map(str, numbers)
    rest = len(warps) - len(same)
    return f"warp{'s' if len(same) > 1 else ''} {', '.join(parts)}{warps[0].at}" + (f" and {rest} more" if rest else "")


def _likely(launch: Launch) -> list[str]:
    """Causes in words, the likeliest first."""
    waiting = [w for w in launch.warps if not w.returned and w.state != PAST]
    found = []
    for warp in waiting:
        if warp.site.kind == "setmaxnreg":
            found.append(
                "setmaxnreg waits for registers that no warpgroup gives back: together, the warpgroups may ask for "
                "what the block started with (384 threads with 64,512)"
            )
        elif warp.site.kind in ("barrier", "named-barrier"):
            found.append(
                f"not all threads that {_what(warp)} counts come to it: the others are elsewhere, have returned, or a "
                "condition keeps them away"
            )
        elif warp.site.kind == "mbarrier" and warp.barrier:
            found.append(hint(_mbarrier(warp), warp.barrier, warp.parity))
    order = sorted(dict.fromkeys(found), key=lambda text: not text.startswith("setmaxnreg"))
    return [f"likely: {text}" for text in order[:6]]
