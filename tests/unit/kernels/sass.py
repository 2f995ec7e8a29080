"""Reading machine code: the instructions of a kernel, and of its main loop."""

from __future__ import annotations

import re

_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?) ;")
_LABEL = re.compile(r"\s*(\.L\w+):")


def main_loop(text: str) -> list[str]:
    """The shortest of the loops with wgmmas and exponentials."""
    return min(loops(text), key=len)


def loops(text: str) -> list[list[str]]:
    """The loops with wgmmas and exponentials."""
    code: list[str] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(code)
        elif instruction := _INSTRUCTION.match(line):
            code.append(instruction[2])
    found = []
    for end, text in enumerate(code):
        jump = re.search(r"BRA.*`\((\.L\w+)\)", text)
        if jump and labels.get(jump[1], end) < end:
            found.append(code[labels[jump[1]] : end + 1])
    wgmma = re.compile("[HQ]GMMA")
    return [loop for loop in found if sum("MUFU.EX2" in x for x in loop) > 8 and any(map(wgmma.search, loop))]
