"""Stores of the lower bits of a register go through a register of their own.

PTX lets ``st.b32`` take a 64-bit register, of which it stores the lower half (PTX ISA, Operand size exceeding
instruction-type size), and LLVM writes that where a value was truncated. If the register holds the result of float
arithmetic, ptxas 13.0.88 stores its conversion to an integer (an ``F2I`` before the store); 13.4 does not. What
a ``cvt`` has truncated is stored as it is, and newer versions make the same machine code of both.
"""

from __future__ import annotations

import re

_STORE = re.compile(r"^(\s*)((?:@!?%p\d+\s+)?st\.[\w.:]*\.[bus](8|16|32)\s+\[[^\]]*\],\s*)(\{[^}]*\}|%\w+);\s*$")
_REGISTER = re.compile(r"%(rd|r)\d+\b")
_BITS = {"rd": 64, "r": 32}


def through_registers(line: str) -> str:
    """``line`` of PTX; or, if it stores a part of a 32-bit or 64-bit register, a block with the same effect."""
    store = _STORE.match(line)
    if not store:
        return line
    indent, head, bits, values = store.groups()
    wide = [(x[0], _BITS[x[1]]) for x in _REGISTER.finditer(values) if _BITS[x[1]] > int(bits)]
    if not wide:
        return line
    part = 32 if bits == "32" else 16  # no register has 8 bits: st.b8 takes the lower half of one of 16
    names = {old: (f"%part{i}", size) for i, (old, size) in enumerate(dict(wide).items())}
    cuts = "".join(f"cvt.u{part}.u{size} {new}, {old}; " for old, (new, size) in names.items())
    values = _REGISTER.sub(lambda x: names.get(x[0], (x[0],))[0], values)
    return f"{indent}{{ .reg .b{part} {', '.join(new for new, _ in names.values())}; {cuts}{head}{values}; }}"
