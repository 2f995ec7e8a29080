"""C's printf of numbers, as a kernel prints them."""

from __future__ import annotations

import re
from typing import Any

_SPEC = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:ll|l|h|z)?([a-zA-Z%])")


def formatted(text: str, values: list[Any]) -> str:
    """C's printf of numbers."""
    coming = iter(values)

    def one(match: re.Match[str]) -> str:
        flags, letter = match[1], match[2]
        if letter == "%":
            return "%"
        x = next(coming)
        if letter in "uxXo":
            wide = 64 if isinstance(x, int) or x.dtype.itemsize == 8 else 32
            x = int(x) & ((1 << (64 if "ll" in match[0] else min(wide, 32))) - 1)
            letter = "d" if letter == "u" else letter
        elif letter in "di":
            x = int(x)
        else:
            x = float(x)
        return f"%{flags}{letter}" % x

    return _SPEC.sub(one, text)
