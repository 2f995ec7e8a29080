"""Hypothesis strategy for the text of `programs.Program`: every expression has a known type, and nothing undefined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.differential.case import dtype
from tests.differential.programs import Program

INTS = ("i32", "i32", "i64", "u32", "u8", "i8", "i16", "u16", "u64")
FLOATS = ("f32", "f32", "f64", "f16", "bf16")
_LITERALS = (0.5, -0.75, 2.0, 3.0, 1e-3, 100.0)


class Writer:
    """Draws statements and expressions. ``variables``: their types; ``fixed``: those that nothing may assign."""

    def __init__(self, draw: Callable[..., Any], sources: tuple[str, ...], threads: int) -> None:
        self.draw, self.threads = draw, threads
        self.variables = {f"v{i}": t for i, t in enumerate(sources)}
        self.fixed = {"u": "i32", "tid": "i32", "t": "i32"}
        self.counters = 0

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    # --- expressions

    def expression(self, t: str, depth: int) -> str:
        """Text of type ``t``, with a variable in it."""
        if depth == 0 or self.number(0, 3) == 0:
            return self.leaf(t)
        return self.floating(t, depth - 1) if dtype(t).is_float else self.integer(t, depth - 1)

    def leaf(self, t: str) -> str:
        names = {**self.variables, **self.fixed}
        same = [name for name, kind in names.items() if kind == t]
        if same and self.number(0, 3):
            return self.pick(same)
        usable = [name for name, kind in names.items() if dtype(t).is_float or not dtype(kind).is_float]
        name = self.pick(usable)
        return f"nv.{t}({name})"

    def integer(self, t: str, depth: int) -> str:
        a = self.expression(t, depth)
        bits = dtype(t).bits
        form = self.pick("op op literal // % << >> min abs ~ if select larger f".split())
        match form:
            case "literal":
                return f"({a} {self.pick('+-*&|^')} {self.number(1, 100)})"
            case "//" | "%":
                if self.number(0, 1):
                    return f"({a} {form} {self.number(1, 9)})"
                b = self.expression(t, depth)
                return f"({a} {form} (({b} & 31) + 1))"
            case "<<" | ">>":
                return f"({a} {form} ({self.expression(t, depth)} & {bits - 1}))"
            case "min":
                return f"nv.{self.pick(['min', 'max'])}({a}, {self.expression(t, depth)})"
            case "abs":
                return f"abs({a})"
            case "~":
                return f"{self.pick('~-')}({a})"
            case "if":
                return f"({a} if {self.condition(depth)} else {self.expression(t, depth)})"
            case "select":
                return f"nv.select({self.condition(depth)}, {a}, {self.expression(t, depth)})"
            case "larger":
                return f"larger({a}, {self.expression(t, depth)})"
            case "f":
                high = min(dtype(t).max, 100)
                low = -high if dtype(t).signed else 0
                x = self.expression(self.pick(FLOATS), depth)
                return f"nv.{t}(nv.clamp({x}, {float(low)}, {float(high)}))"
        return f"({a} {self.pick('+-*&|^')} {self.expression(t, depth)})"

    def floating(self, t: str, depth: int) -> str:
        a = self.expression(t, depth)
        form = self.pick("op op op literal / min fma neg if cast round larger sqrt".split())
        match form:
            case "literal":
                return f"({a} {self.pick('+-*/')} {self.pick(_LITERALS)})"
            case "/":
                return f"({a} / {self.expression(t, depth)})"
            case "min":
                return f"nv.{self.pick(['min', 'max'])}({a}, {self.expression(t, depth)})"
            case "fma":
                return f"nv.math.fma({a}, {self.expression(t, depth)}, {self.expression(t, depth)})"
            case "neg":
                return f"{self.pick(['-', 'abs'])}({a})"
            case "if":
                return f"({a} if {self.condition(depth)} else {self.expression(t, depth)})"
            case "cast":
                return f"nv.{t}({self.expression(self.pick(FLOATS + INTS), depth)})"
            case "round":
                return f"nv.math.{self.pick(['floor', 'ceil', 'trunc', 'round'])}({a})"
            case "larger":
                return f"larger({a}, {self.expression(t, depth)})"
            case "sqrt":
                return f"nv.math.sqrt(abs({a}))"
        return f"({a} {self.pick('+-*')} {self.expression(t, depth)})"

    def condition(self, depth: int) -> str:
        form = self.number(0, 6) if depth else 0
        if form == 5:
            return f"({self.condition(depth - 1)} {self.pick(['and', 'or'])} {self.condition(depth - 1)})"
        if form == 6:
            return f"(not {self.condition(depth - 1)})"
        t = self.pick(INTS + FLOATS)
        a, b = self.expression(t, depth and depth - 1), self.expression(t, depth and depth - 1)
        if form == 4:
            return f"({a} {self.pick(['<', '<='])} {b} {self.pick(['<', '<='])} {self.leaf(t)})"
        return f"({a} {self.pick(['<', '<=', '>', '>=', '==', '!='])} {b})"

    # --- statements

    def block(self, depth: int, count: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.number(1, count)):
            lines += self.statement(depth)
        return lines

    def statement(self, depth: int) -> list[str]:
        form = self.pick(["let", "let", "let", "if", "for", "while", "unroll"]) if depth else "let"
        match form:
            case "if":
                lines = [f"if {self.condition(1)}:", *_indented(self.block(depth - 1, 2))]
                if self.number(0, 1):
                    lines += [f"elif {self.condition(1)}:", *_indented(self.block(depth - 1, 2))]
                return lines + (["else:", *_indented(self.block(depth - 1, 2))] if self.number(0, 1) else [])
            case "for":
                return self.counted(depth)
            case "unroll":
                return [f"for j in range({self.number(1, 3)}):", *_indented(self.block(depth - 1, 2))]
            case "while":
                self.counters += 1
                name = f"n{self.counters}"
                body = self.block(depth - 1, 2)
                test = f"{name} < {self.number(1, 5)}" + (f" and {self.condition(1)}" if self.number(0, 1) else "")
                return [f"{name} = nv.i32(0)", f"while {test}:", *_indented([*body, f"{name} += 1"])]
        name = self.pick(self.variables)
        return [f"{name} = {self.expression(self.variables[name], 3)}"]

    def counted(self, depth: int) -> list[str]:
        self.counters += 1
        name = f"i{self.counters}"
        bounds = self.pick(["{n}", "{n}", "1, {n}, 2", "{v} & 3", "0, {v} & 7, 3", "{v} & 3, {n}"])
        bounds = bounds.format(n=self.number(0, 5), v=self.leaf("i32"))
        self.fixed[name] = "i32"
        body = self.block(depth - 1, 2)
        if self.number(0, 3) == 0:
            body = [f"if {self.condition(0)}:", "    continue", *body]
        del self.fixed[name]
        return [f"for {name} in nv.range({bounds}):", *_indented(body)]

    def top(self) -> list[str]:
        """A statement that all threads execute together."""
        form = self.pick(["any", "any", "any", "exchange", "shuffle", "halvings", "return"])
        words = [name for name, t in self.variables.items() if t in ("i32", "u32", "f32")]
        name = self.pick(self.variables)
        t = self.variables[name]
        match form:
            case "exchange":
                self.counters += 1
                s = f"s{self.counters}"
                return [f"{s} = nv.smem({self.threads}, nv.{t})", f"{s}[tid] = {name}", "nv.sync_threads()",
                        f"{name} = {s}[(tid + {self.number(1, 40)}) % {self.threads}]"]  # fmt: skip
            case "shuffle" if words and self.threads % 32 == 0:  # lanes that don't exist give anything
                name = self.pick(words)
                how = self.pick(["shuffle_xor", "shuffle_down", "shuffle"])
                return [f"{name} = nv.{how}({name}, {self.number(0, 31)})"]
            case "halvings":
                ints = [v for v, kind in self.variables.items() if not dtype(kind).is_float]
                target = [v for v, kind in self.variables.items() if kind == "i32"]
                if ints and target:
                    return [f"{self.pick(target)} = halvings({self.pick(ints)})"]
        return self.statement(2)


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def programs(draw: Any) -> Program:
    sources = tuple(draw(st.lists(st.sampled_from(INTS + FLOATS), min_size=2, max_size=5)))
    uniform = tuple(draw(st.lists(st.booleans(), min_size=len(sources), max_size=len(sources))))
    threads = draw(st.sampled_from([32, 64, 96, 40]))
    writer = Writer(draw, sources, threads)
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        lines += writer.top()
    kept = tuple(writer.variables.items())
    if draw(st.integers(0, 3)) == 0:
        names = ", ".join(name for name, _ in kept)
        lines += [f"if {writer.condition(1)}:", f"    keep(out, t, {names})", "    return", *writer.statement(1)]
    blocks = draw(st.integers(1, 3))
    return Program(threads, blocks, sources, uniform, "\n".join(lines), kept, draw(st.integers(0, 2**31)))
