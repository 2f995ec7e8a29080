"""What a user can ask of the lowering, in Python or through the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypedDict, Unpack

from nvdsl.errors import LowerError
from nvdsl.errors.records import dataclass
from nvdsl.errors.settings import is_on
from nvdsl.lower import passes

DUMPS = ("all", "trace", "host", "ptx", "sass", "resources")
"""What can be dumped beside the module before and after each pass."""


class ChosenOptions(TypedDict, total=False):
    """`Options`, as keyword arguments: ``dump`` is one name or several."""

    opt_level: int
    strict: bool
    lineinfo: bool
    dump: str | Iterable[str]
    dump_dir: str | None
    ptxas: str | None
    ptxas_flags: tuple[str, ...]
    debug: bool
    debug_timeout: float


@dataclass(frozen=True)
class Options:
    """Options of `nvdsl.lower.lower`; hashable, so that they can be part of a cache's key.

    =============  ====================  ==============================================================
    field          environment           meaning
    =============  ====================  ==============================================================
    opt_level                            0 to 3, for LLVM and for ptxas
    strict         NVDSL_STRICT=1        what ptxas advises against (spills, ...) is a LowerError
    lineinfo       NVDSL_LINEINFO=1      the cubin knows the user's lines, for ncu and compute-sanitizer
    dump           NVDSL_DUMP=a,b        what to print: names of `DUMPS`, ``before:PASS``, ``after:PASS``
    dump_dir       NVDSL_DUMP_DIR=DIR    write what is dumped to files there, not to stderr
    ptxas          NVDSL_PTXAS=PATH      another ptxas than the installed wheel's or PATH's
    ptxas_flags    NVDSL_PTXAS_FLAGS     more flags for it, separated by spaces
    debug          NVDSL_DEBUG=1         waits with a deadline, asserts, indices checked (docs/debugging.md)
    debug_timeout  NVDSL_DEBUG_TIMEOUT   seconds that one wait may take in debug mode
    =============  ====================  ==============================================================

    ``PASS`` is a name that `nvdsl.lower.passes.NAMES` lists; alone it means ``after:PASS``. Raises
    LowerError for a name to dump that does not exist.
    """

    opt_level: int = 3
    strict: bool = False
    lineinfo: bool = False
    dump: frozenset[str] = frozenset()
    dump_dir: str | None = None
    ptxas: str | None = None
    ptxas_flags: tuple[str, ...] = ()
    debug: bool = False
    debug_timeout: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dump", _names(self.dump))
        if self.opt_level not in (0, 1, 2, 3):
            raise LowerError(f"opt_level={self.opt_level!r}", fix="use 0, 1, 2 or 3 (the default)")
        if not 0.01 <= self.debug_timeout <= 3600:
            raise LowerError(f"debug_timeout={self.debug_timeout!r}", fix="use 0.01 to 3600 seconds (default 2)")

    @classmethod
    def from_environment(cls, **chosen: Unpack[ChosenOptions]) -> Options:
        """The environment's options; those in ``chosen`` win over it."""
        found: dict[str, Any] = {
            "strict": is_on("NVDSL_STRICT"),
            "lineinfo": is_on("NVDSL_LINEINFO"),
            "dump": os.environ.get("NVDSL_DUMP", ""),
            "dump_dir": os.environ.get("NVDSL_DUMP_DIR") or None,
            "ptxas": os.environ.get("NVDSL_PTXAS") or None,
            "ptxas_flags": tuple(os.environ.get("NVDSL_PTXAS_FLAGS", "").split()),
            "debug": is_on("NVDSL_DEBUG"),
            "debug_timeout": _seconds("NVDSL_DEBUG_TIMEOUT", cls.debug_timeout),
        }
        return cls(**{**found, **chosen})


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name) or str(default)
    try:
        return float(text)
    except ValueError:
        raise LowerError(f"{name}={text}", rule="it is a number of seconds", fix=f"{name}=5") from None


def _names(dump: str | Iterable[str]) -> frozenset[str]:
    """The names in ``dump`` (a set, or a text with commas), each ``before:``/``after:`` or one of `DUMPS`."""
    names = dump.split(",") if isinstance(dump, str) else dump
    found = set()
    for name in filter(None, map(str.strip, names)):
        when, _, what = name.rpartition(":")
        if when in ("before", "after", "") and what in passes.NAMES:
            found.add(f"{when or 'after'}:{what}")
        elif name in DUMPS:
            found.add(name)
        else:
            raise LowerError(
                f"nothing called {name!r} can be dumped",
                rule=f"NVDSL_DUMP takes {', '.join(DUMPS)}, and before:PASS or after:PASS",
                fix=f"the passes are {', '.join(passes.NAMES)}",
            )
    return frozenset(found)
