"""What ptxas says about a kernel that it compiled, but not as it was meant: in words, at the user's line.

ptxas numbers its messages, and numbers them anew between releases (C7519 is one thing in 13.0 and another in
13.5): they are known here by their words.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable

from nvdsl.errors import AdvisoryWarning, LowerError, Where
from nvdsl.errors.records import dataclass
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.ptx import Ptx


@dataclass(frozen=True)
class Meaning:
    """``words``: what ptxas's message has in it. ``about``: the op whose line it belongs to where it names none."""

    words: str
    about: str
    text: str
    fix: str


_SERIALIZED = "the wgmmas of a pipeline stage run one after the other, each waited for, "
_WAIT_FIRST = "read and change an accumulator only after the wgmma_wait that completes it"

MEANINGS = (
    Meaning("Extern calls", "wgmma", _SERIALIZED + "because the kernel calls a function that ptxas can't see",
            "remove the call; printf and assert belong into a kernel that is being debugged only"),
    Meaning("function boundary at a function call", "wgmma",
            _SERIALIZED + "because a function (printf, assert, an operation that is no instruction) is called "
            "between their fence and their wait",
            "call it after the wgmma_wait, or not at all"),
    Meaning("insufficient register resources", "wgmma", _SERIALIZED + "because the registers don't suffice",
            "use smaller accumulators per warpgroup, more warpgroups, or a larger setmaxnreg_inc"),
    Meaning("defining input registers", "wgmma",
            _SERIALIZED + "because registers that a wgmma in flight reads as A are written",
            "write the fragment before the fence, and use another one until the wgmma_wait"),
    Meaning("reading accumulator registers", "wgmma",
            _SERIALIZED + "because an accumulator is read while its wgmmas are in flight", _WAIT_FIRST),
    Meaning("defining accumulator registers", "wgmma",
            _SERIALIZED + "because an accumulator is written while its wgmmas are in flight", _WAIT_FIRST),
    Meaning("ill formed pipeline stage", "wgmma",
            _SERIALIZED + "because fence, commit and wait don't pair up on every path",
            "put the fence, the wgmmas, the commit and the wait on the same side of every if and loop"),
    Meaning("in divergent path", "wgmma",
            _SERIALIZED + "because they depend on a fence or wait in a branch that may not be uniform",
            "branch on values that are equal in the whole warpgroup (warpgroup_id), put fence, commit and wait on "
            "the same path as their wgmmas, and no printf or assert between them"),
    Meaning("wait_group is injected", "wgmma",
            "ptxas added a wait: an accumulator is used before the kernel waits for its wgmmas", _WAIT_FIRST),
    Meaning("warpgroup.wait is injected", "wgmma",
            "ptxas added a wait: an accumulator is used before the kernel waits for its wgmmas", _WAIT_FIRST),
    Meaning("arrive is injected", "wgmma",
            "ptxas added a fence: registers of a wgmma are touched after the kernel's wgmma_fence",
            "put wgmma_fence() after the last write to an accumulator or A fragment"),
    Meaning("unable to determine register count at entry", "setmaxnreg",
            "setmaxnreg has no effect, because ptxas does not know the block's size",
            "launch with a block of Python ints"),
    Meaning("to maintain minimum register requirements", "setmaxnreg",
            "setmaxnreg has no effect, because the code behind it needs more registers than it leaves",
            "decrease to more registers, or keep less alive in that warpgroup"),
    Meaning("to allow debugging", "setmaxnreg",
            "setmaxnreg has no effect at opt_level=0", "use opt_level=1 or more"),
    Meaning("'setmaxnreg' ignored", "setmaxnreg",
            "setmaxnreg has no effect, because the kernel calls functions that keep their own registers",
            "remove the call (printf, assert) from the kernel"),
    Meaning("Registers are spilled", "kernel",
            "the kernel needs more registers than a thread has, and keeps some in local memory",
            "use a smaller tile or more warps, hold less across loops, or raise setmaxnreg_inc"),
    Meaning("Local memory used", "kernel",
            "the kernel has an array in local memory, which is off the chip",
            "index arrays of a thread (alloca, vectors) with Python ints, in unrolled loops"),
    Meaning("Stack size", "kernel", "ptxas can't tell how much stack the kernel needs",
            "remove recursion and calls through pointers"),
    Meaning("multicast::cluster", "kernel", "multicast is slow on this target",
            "compile for sm_90a, as nvdsl does by itself"),
)  # fmt: skip

_MESSAGE = re.compile(r"^ptxas (?P<level>info|warning)\s*:\s*(?:\((?P<code>C\d+)\)\s*)?(?P<text>.*)$")
_FUNCTION = re.compile(r"function '([^']+)'")
_LINE = re.compile(r"\bline (\d+)")


@dataclass(frozen=True)
class Advisory:
    """``text``: ptxas's message. ``meaning``: None for one that nvdsl does not know. ``where``: the user's line."""

    kernel: str
    text: str
    meaning: Meaning | None
    where: Where | None

    def __str__(self) -> str:
        if self.meaning is None:
            return f"kernel {self.kernel}: {self.text}"
        return f"kernel {self.kernel}: {self.meaning.text}\n  ptxas: {self.text}\n  fix:   {self.meaning.fix}"


def read(log: str, ptx: Ptx, kernels: Iterable[Kernel]) -> list[Advisory]:
    """The advisories in ptxas's output for ``ptx``, of whose kernels ``kernels`` says the lines. No repetitions."""
    kernels = list(kernels)
    found: dict[tuple[str, str], Advisory] = {}
    for line in log.splitlines():
        message = _MESSAGE.match(line)
        if message is None:
            continue
        text = f"({message['code']}) {message['text']}" if message["code"] else message["text"]
        meaning = next((m for m in MEANINGS if m.words in text), None)
        if meaning is None and message["level"] == "info" and "Potential Performance Loss" not in text:
            continue
        kernel = _kernel(text, meaning, kernels)
        place = _where(text, meaning, kernel, ptx)
        key = (meaning.text if meaning else text, str(place))
        found.setdefault(key, Advisory(kernel.name if kernel else ptx.module, text, meaning, place))
    return _without_consequences(list(found.values()), ptx)


def _kernel(text: str, meaning: Meaning | None, kernels: list[Kernel]) -> Kernel | None:
    named = _FUNCTION.search(text)
    if named:
        return next((k for k in kernels if k.name == named[1]), None)
    if meaning and meaning.about == "setmaxnreg":
        return next((k for k in kernels if k.setmaxnreg), None)
    return kernels[0] if len(kernels) == 1 else None


def _where(text: str, meaning: Meaning | None, kernel: Kernel | None, ptx: Ptx) -> Where | None:
    line = _LINE.search(text)
    place = ptx.where(int(line[1])) if line else None
    if place or kernel is None:
        return place
    op = {"wgmma": kernel.wgmma, "setmaxnreg": kernel.setmaxnreg}.get(meaning.about if meaning else "")
    return op or kernel.where


def _without_consequences(found: list[Advisory], ptx: Ptx) -> list[Advisory]:
    """Leave out that local memory is used where spills say why, or where it holds printf's arguments."""
    explained = {a.kernel for a in found if a.meaning and a.meaning.words == "Registers are spilled"}
    calls = "vprintf" in ptx.text or "__assertfail" in ptx.text
    return [
        a
        for a in found
        if not (a.meaning and a.meaning.words == "Local memory used" and (calls or a.kernel in explained))
    ]


def report(found: list[Advisory], *, strict: bool) -> None:
    """Warn of each advisory at its line; ``strict``: raise LowerError instead."""
    if strict and found:
        raise LowerError(
            "\n".join(str(a) if a.where == found[0].where else f"{a.where}: {a}" for a in found),
            where=found[0].where,
            rule="in strict mode (NVDSL_STRICT=1) a kernel compiles as it was meant, or not at all",
        )
    for advisory in found:
        place = advisory.where or Where("<kernel>", 0)
        warnings.warn_explicit(str(advisory), AdvisoryWarning, place.file, place.line)
