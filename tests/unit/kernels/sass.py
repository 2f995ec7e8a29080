"""Reading machine code: the instructions of a kernel, and of its main loop."""

from __future__ import annotations

import re

_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?) ;")
_LABEL = re.compile(r"\s*(\.L\w+):")


def main_loop(text: str) -> list[str]:
    """The shortest of the loops with wgmmas and exponentials."""
    return min(loops(text), key=len)


def loops(text: str) -> list[list[str]]:
    """The loops with wgmmas and exponentials. A jump forward within one ends in ``+`` and how many instructions it is
    to its target."""
    code: list[str] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(code)
        elif instruction := _INSTRUCTION.match(line):
            code.append(instruction[2])
    jumps = {i: labels.get(jump[1], i) for i, x in enumerate(code) if (jump := re.search(r"BRA.*`\((\.L\w+)\)", x))}
    found = []
    for end, start in jumps.items():
        if start < end:
            inside = {i: target for i, target in jumps.items() if start <= i < target <= end}
            found.append([f"{code[i]} +{inside[i] - i}" if i in inside else code[i] for i in range(start, end + 1)])
    wgmma = re.compile("[HQ]GMMA")
    return [loop for loop in found if sum("MUFU.EX2" in x for x in loop) > 8 and any(map(wgmma.search, loop))]
