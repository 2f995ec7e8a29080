"""Random programs over i32 variables, to be run in Python and traced."""

from __future__ import annotations

import random

NAMES = ["a", "b", "c", "d", "p.x", "v[0]", "v[1]"]


class Program:
    """``source`` of ``f(a, b, c)``, which returns all its variables.

    Its loops run over ``span``: Python's ``range`` or ``nv.range``; its literals go through ``n``. It has
    attributes (``p``), elements (``v``), a nested function that assigns (``bump``), a helper (``helper``), and exits
    where they can be folded.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counters = 0
        self.budget = 16
        self.lines = [
            "def f(a, b, c):",
            "    d, p, v, w = n(1), Part(n), [n(2), n(3)], n(0)",
            "    def bump(x):",
            "        nonlocal d",
            "        if x > d:",
            "            d += 1",
            "        return d",
        ]
        self.block("    ", depth=0, loops=0, tail=True)
        self.lines.append("    return a, b, c, d, p.x, v[0], v[1]")
        self.source = "\n".join(self.lines) + "\n"

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def number(self, depth: int = 0) -> str:
        kind = self.random.random()
        if depth > 2 or kind < 0.35:
            return self.pick(*NAMES)
        if kind < 0.5:
            return f"n({self.random.randint(-3, 5)})"
        one, two = self.number(depth + 1), self.number(depth + 1)
        if kind < 0.75:
            return f"({one} {self.pick('+', '-', '*', '&', '|', '^')} {two})"
        if kind < 0.83:
            return f"({one} if {self.condition(depth + 1)} else {two})"
        if kind < 0.9:
            return f"{self.pick('min', 'max')}({one}, {two})"
        if kind < 0.95 or depth:  # in an operand that a condition guards, a call must not change `d`
            return f"helper({one}, {two})"
        return f"bump({one})"

    def condition(self, depth: int = 0) -> str:
        kind = self.random.random()
        if depth > 2 or kind < 0.5:
            operator = self.pick("<", "<=", ">", ">=", "==", "!=")
            return f"({self.number(depth + 1)} {operator} {self.number(depth + 1)})"
        if kind < 0.8:
            return f"({self.condition(depth + 1)} {self.pick('and', 'or')} {self.condition(depth + 1)})"
        if kind < 0.9:
            return f"(not {self.condition(depth + 1)})"
        return f"({self.number(depth + 1)} < {self.number(depth + 1)} <= {self.number(depth + 1)})"

    def block(self, indent: str, depth: int, loops: int, tail: bool) -> None:
        """``loops``: how many loops are around; ``tail``: may an `if` here leave early?"""
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth, loops, tail)

    def statement(self, indent: str, depth: int, loops: int, tail: bool) -> None:
        self.budget -= 1
        kind = self.random.random()
        if depth > 3 or self.budget < 0 or kind < 0.4:
            self.lines.append(indent + self.assignment())
        elif kind < 0.7:
            self.branch(indent, depth, loops, tail)
        elif kind < 0.87 and loops < 3:
            self.for_loop(indent, depth, loops)
        elif loops < 3:
            self.while_loop(indent, depth, loops)

    def assignment(self) -> str:
        kind = self.random.random()
        if kind < 0.5:
            return f"{self.pick(*NAMES)} = {self.number()}"
        if kind < 0.8:
            return f"{self.pick(*NAMES)} {self.pick('+=', '-=', '^=')} {self.number()}"
        if kind < 0.9:
            return f"{self.pick(*NAMES)}, {self.pick(*NAMES)} = {self.number()}, {self.number()}"
        return self.pick("v = [v[1], v[0]]", "v[:] = [v[1], a]", "bump(b)", "p = Part(n)", "p, w = p, c")

    def branch(self, indent: str, depth: int, loops: int, tail: bool) -> None:
        self.lines.append(f"{indent}if {self.condition()}:")
        self.block(indent + "    ", depth + 1, loops, False)
        if tail and self.random.random() < 0.3:
            self.lines.append(indent + "    " + ("continue" if loops else "return a, b, c, d, p.x, v[0], v[1]"))
        if self.random.random() < 0.3:
            self.lines.append(f"{indent}elif {self.condition()}:")
            self.block(indent + "    ", depth + 1, loops, False)
        if self.random.random() < 0.5:
            self.lines.append(f"{indent}else:")
            self.block(indent + "    ", depth + 1, loops, False)

    def for_loop(self, indent: str, depth: int, loops: int) -> None:
        self.counters += 1
        name = f"i{self.counters}"
        bounds = self.pick("3", "(a & 3)", "1, (c & 3)", "0, 3, 2", "3, (b & 1), -1", "a & 1, 2")
        loop = self.pick("span", "span", "range" if bounds in ("3", "0, 3, 2") else "span")
        self.lines += [f"{indent}for {name} in {loop}({bounds}):", f"{indent}    {self.pick(*NAMES)} += {name}"]
        self.block(indent + "    ", depth + 1, loops + 1, True)
        if self.random.random() < 0.2:
            self.lines.append(f"{indent}else:")
            self.block(indent + "    ", depth + 1, loops, False)

    def while_loop(self, indent: str, depth: int, loops: int) -> None:
        self.counters += 1
        name = f"w{self.counters}"
        start = self.pick("(d & 3)", "(a & 3)", "(b & 1)")
        more = f" and {self.condition()}" if self.random.random() < 0.4 else ""
        if self.random.random() < 0.3:
            test, first = f"({name} := {name} - 1) >= 0{more}", "w = c"
        else:
            test, first = f"{name} > 0{more}", f"{name} -= 1"
        self.lines += [f"{indent}{name} = {start}", f"{indent}while {test}:", f"{indent}    {first}"]
        self.block(indent + "    ", depth + 1, loops + 1, True)
