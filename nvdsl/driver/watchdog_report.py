"""Why a kernel stopped itself or does not end, as its launch's log says, in the words of the simulator's reports."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from nvdsl.driver.mbarrier_word import hint
from nvdsl.driver.watchdog_faults import ELSEWHERE, FAULTS, LOST
from nvdsl.driver.watchdog_log import Launch, Warp
from nvdsl.errors import WatchdogError
from nvdsl.lower.device_log import BEFORE, FAULT, PAST, Watch

_LINES = 24
"""Of a report that lists warps."""

_RUNS = f"the kernel still runs, and ends with this process: {ELSEWHERE}"


def stopped(kernel: str, launch: Launch, watch: Watch) -> WatchdogError | None:
    """The error of a kernel that stopped itself; None where none of its warps says so."""
    faults = [w for w in launch.warps if w.state == FAULT]
    for kind, make in FAULTS.items():
        of_kind = [w for w in faults if w.site.kind == kind]
        if of_kind:
            return make(of_kind[0], len(of_kind) - 1)
    return _deadlock(kernel, faults, launch, watch) if faults else None


def _deadlock(kernel: str, faults: list[Warp], launch: Launch, watch: Watch) -> WatchdogError:
    many = "s" if len(faults) != 1 else ""
    return WatchdogError(
        f"deadlock: in kernel {kernel} {len(faults)} warp{many} waited for {watch.timeout:g} s at an mbarrier whose "
        "phase did not complete",
        kind="deadlock",
        where=faults[0].site.where,
        details=(*_waits(launch), LOST, *_likely(launch)),
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
        details=(f"the launch ends with this process: {ELSEWHERE}",),
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
