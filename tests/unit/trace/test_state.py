"""State in traced code: what a traced statement changes is carried as Python means it, or refused at the line."""

import collections
import dataclasses
import itertools
import types

import numpy as np
import pytest

from nvdsl.errors import TraceError
from nvdsl.trace.carry import is_value
from nvdsl.trace.control import Range
from nvdsl.values import dtypes as nv
from tests.unit.trace.tracing import define, trace


class Part:
    total = 0
    seen: list = []

    def __init__(self, n=0):
        self.n = n


@dataclasses.dataclass(slots=True)
class Slotted:
    n: int = 0


NAMES = {
    "span": Range, "np": np, "itertools": itertools, "deque": collections.deque, "Counter": collections.Counter,
    "UserList": collections.UserList, "Part": Part, "Slotted": Slotted,
    "SimpleNamespace": types.SimpleNamespace,
}  # fmt: skip


def indented(source, by):
    return "".join(" " * by + line + "\n" for line in source.strip("\n").splitlines())


# What is changed in a loop, and what is returned: (before, in the loop, result). `n` passes, `i` counts them, `a` is
# traced. What Python gives is what the traced function must give.
CARRIED = {
    "flat list": ("s = [0, a]", "s[0] = s[0] + 1\ns[1] += i", "s[0], s[1]"),
    "list of lists": ("s = [[0], [0]]", "s[1][0] = s[1][0] + 1", "s[0][0], s[1][0]"),
    "2-D registers": (
        "s = [[0] * 3 for _ in range(2)]",
        "for r in range(2):\n    for c in range(3):\n        s[r][c] += r * 3 + c + i",
        "s[0][0], s[0][2], s[1][1], s[1][2]",
    ),
    "3-D registers": (
        "s = [[[a, 0], [0, 0]], [[0, 0], [0, 0]]]",
        "for r in range(2):\n    s[r][1 - r][r] += i\ns[0][0][0] -= 1",
        "s[0][0][0], s[0][1][0], s[1][0][1]",
    ),
    "negative indices": ("s = [[0], [1]]", "s[-1][-1] += 2", "s[1][0]"),
    "a slice": ("s = [[0, 1], [2, 3]]", "s[1][:] = [s[1][1], s[1][0] + i]", "s[1][0], s[1][1]"),
    "rows that are one list": ("r = [0]\ns = [r, r]", "s[0][0] += 1\ns[1][0] += 1", "s[0][0], s[1][0], r[0]"),
    "a row by name": ("s = [[0], [0]]\nr = s[1]", "s[1][0] += 1", "r[0]"),
    "lists in a tuple": ("s = ([0], [a])", "s[1][0] += i", "s[0][0], s[1][0]"),
    "lists in a dict": ("s = {'x': [0, 0], 'y': a}", "s['x'][1] += i", "s['x'][1], s['y']"),
    "a dict by constant keys": ("s = {'x': 0, 'y': a}", "s['x'] = s['x'] + s['y']\ns['y'] -= 1", "s['x'], s['y']"),
    "dicts in a list": ("s = [{'x': 0}, {'x': 1}]", "for d in range(2):\n    s[d]['x'] += i", "s[0]['x'], s[1]['x']"),
    "a list in an object": ("p = Part([[0], [0]])", "p.n[1][0] += i", "p.n[1][0]"),
    "an attribute": ("p = Part()", "p.n = p.n + i", "p.n"),
    "a slot": ("p = Slotted()", "p.n += i", "p.n"),
    "both, name and elements": ("s = [0, a]", "s[0] = s[0] + 1\ns = [s[1], s[0]]", "s[0], s[1]"),
    "what the loop makes": ("x = 0", "t = [i]\nt.append(a)\nd = {}\nd['x'] = sum(t)\nx += d['x']", "x"),
    "what a helper makes": ("x = 0\ndef make(y):\n    t = []\n    t.append(y)\n    return t", "x += make(i)[0]", "x"),
    "a loop in a helper": (
        "def count(s, m):\n    for j in span(m):\n        s[0][0] += j\n    return s[0][0]", "", "count([[a]], n)"
    ),
    "plain lists stay plain": ("s = [[0], [2]]", "for _ in range(s[1][0]):\n    s[0][0] += i", "s[0][0]"),
}  # fmt: skip


@pytest.mark.parametrize("case", CARRIED)
def test_carried_by_a_loop(case):
    before, body, result = CARRIED[case]
    source = "def f(n, a):\n" + indented(before, 4) + "    for i in span(n):\n"
    source += indented(body or "pass", 8) + f"    return {result},\n"
    check(source, [(0, 5), (1, 5), (4, -3)])
    condition = source.replace("    for i in span(n):\n", "    i = n + 1\n    if n > 0:\n")
    check(condition, [(0, 5), (2, 7)])
    looped = source.replace("    for i in span(n):\n", "    i = a - a\n    while i < n:\n")
    check(looped.replace(f"    return {result}", f"        i += 1\n    return {result}"), [(0, 5), (1, 5), (4, -3)])


def check(source, arguments):
    plain = define(source, **NAMES | {"span": range})
    traced = trace(define(source, **NAMES), nv.i32, nv.i32)
    for some in arguments:
        found = traced.run(*some) if any(map(is_value, traced.result)) else ()
        values = iter(found if isinstance(found, tuple) else (found,))
        assert tuple(next(values) if is_value(x) else x for x in traced.result) == plain(*some), f"{source}{traced}"


# In the branch of an `if`, what else stays as it was.
BRANCHES = [
    """
    s = old = [a, 1]
    if n > 0:
        s[0] = n
    else:
        s = [n, n]
    return s[0], s[1], old[0], old[1],
    """,
    """
    s = [[a], [1]]
    row = s[0]
    if n > 0:
        s[0][0] += 1
        s[1] = [7]
    return row[0], s[0][0], s[1][0],
    """,
    """
    s = [[a, 1], [2, 3]]
    if n > 0:
        if a > 0:
            s[n - n if False else 1][0] = 5
        else:
            s[0][1] = n
    else:
        s[0][0], s[1][1] = s[1][1], s[0][0]
    return s[0][0], s[0][1], s[1][0], s[1][1],
    """,
]


@pytest.mark.parametrize("source", BRANCHES)
def test_merged_by_a_branch(source):
    check("def f(n, a):" + source, [(0, 5), (1, 5), (1, -5), (-2, -3)])


# (before, in the statement, the name in the message). The line with `# <-` is the one to be named.
REFUSED = {
    "a list in a helper": ("s = [0]\ndef put(l):\n    l[0] = l[0] + 1  # <-", "put(s)", "s[0]"),
    "a list of lists in a helper": ("s = [[0], [0]]\ndef put(l):\n    l[1][0] += 1  # <-", "put(s)", "s[1][0]"),
    "a list in a closure": ("r = [0]\ndef mark():\n    r[0] = 1  # <-", "mark()", "r[0]"),
    "a list in a lambda": ("r = [0]\nmark = lambda: r.__setitem__(0, 1)  # <-", "mark()", "r[0]"),
    "a list in a method": ("p = Part([0])\ndef put(q):\n    q.n[0] += 1  # <-", "put(p)", "p.n[0]"),
    "a list through another name": ("s = [[0], [0]]\nr = s[1]", "r[0] = r[0] + 1\nf(s)", None),
    "an element of a call": ("s = [0]\ndef get():\n    return s", "get()[0] = 1  # <-", "s[0]"),
    "append": ("s = []", "s.append(i)  # <-", "s"),
    "append to a row": ("s = [[], []]", "s[1].append(i)  # <-", "s[1]"),
    "pop": ("s = [1, 2]", "x = s.pop()  # <-", "s"),
    "extend": ("s = []", "s.extend([1, 2])  # <-", "s"),
    "insert": ("s = [1]", "s.insert(0, 5)  # <-", "s"),
    "sort": ("s = [2, 1]", "s.sort()  # <-", "s[0]"),
    "reverse": ("s = [2, 1]", "s.reverse()  # <-", "s[0]"),
    "clear": ("s = [2, 1]", "s.clear()  # <-", "s"),
    "a helper that appends": ("s = []\ndef put(x):\n    s.append(x)  # <-", "put(i)", "s"),
    "a dict's new key": ("d = {}\ndef put():\n    d['x'] = 1  # <-", "put()", "d"),
    "update": ("d = {'x': 0}", "d.update({'x': d['x'] + 1})  # <-", "d['x']"),
    "update with a new key": ("d = {'x': 0}", "d.update(y=1)  # <-", "d"),
    "setdefault": ("d = {}", "x = d.setdefault('x', 1)  # <-", "d"),
    "popitem": ("d = {'x': 0}", "d.popitem()  # <-", "d"),
    "a set": ("s = set()", "s.add(3)  # <-", "s"),
    "discard": ("s = {3}", "s.discard(3)  # <-", "s"),
    "NumPy": ("s = np.zeros(4)", "s[0] = s[0] + 1.0  # <-", "s"),
    "NumPy in place": ("s = np.zeros(4)", "s += 1.0  # <-", None),
    "NumPy in a helper": ("s = np.zeros((2, 2))\ndef put(x):\n    x[1, 1] = 5  # <-", "put(s)", "s"),
    "NumPy's fill": ("s = np.zeros(4)", "s.fill(2)  # <-", "s"),
    "an attribute in a helper": ("p = Part()\ndef put(q):\n    q.n = q.n + 1  # <-", "put(p)", "p.n"),
    "setattr": ("p = Part()", "setattr(p, 'n', p.n + 1)  # <-", "p.n"),
    "a new attribute": ("p = Part()\ndef put(q):\n    q.other = 1  # <-", "put(p)", "p.other"),
    "an attribute of an element": ("p = [Part(), Part()]", "p[1].n = p[1].n + 1  # <-", "p[1].n"),
    "an attribute that is no number": ("p = Part()\ndef put():\n    p.n = 'seen'  # <-", "put()", "p.n"),
    "a namespace": ("p = SimpleNamespace(n=0)\ndef put():\n    p.n += 1  # <-", "put()", "p.n"),
    "a slot": ("p = Slotted()\ndef put():\n    p.n += 1  # <-", "put()", "p.n"),
    "a class's attribute": ("def put():\n    Part.total = Part.total + 1  # <-", "put()", "Part.total"),
    "a class's list": ("p = Part()\ndef put():\n    p.seen.append(1)  # <-", "put()", "Part.seen"),
    "a function's attribute": ("def put():\n    put.n = put.n + 1  # <-\nput.n = 0", "put()", "put.n"),
    "next": ("t = iter([1, 2, 3])", "x = next(t)  # <-", "t"),
    "a generator": ("t = (k for k in range(9))", "x = next(t)  # <-", "t"),
    "a counter": ("t = itertools.count()", "x = next(t)  # <-", "t"),
    "a cycle in a helper": ("t = itertools.cycle([1, 2])\ndef get():\n    return next(t)  # <-", "x = get()", "t"),
    "zip": ("t = zip([1, 2], [3, 4])", "for x in t: break  # <-", "t"),
    "a deque": ("s = deque([1, 2])", "s.rotate(1)  # <-", "s[0]"),
    "a deque's append": ("s = deque()", "s.append(1)  # <-", "s"),
    "a counter of things": ("s = Counter()", "s.update(['x'])  # <-", "s"),
    "a UserList": ("s = UserList([0])", "s[0] = s[0] + 1  # <-", "s.data[0]"),
    "an array of objects": ("s = np.zeros(4, object)", "s[0] = s[0] + 1  # <-", "s"),
    "a bytearray": ("s = bytearray(4)", "s[1] = 3  # <-", "s[1]"),
    "nonlocal": ("k = 0\ndef put():\n    nonlocal k\n    k += 1  # <-\ndef run(g):\n    g()", "run(put)", None),
    "a default value": ("def put(s=[0]):\n    s[0] += 1  # <-", "put()", "put, in a default value[0]"),
    "a partial": ("s = [0]\ndef put(x, l):\n    l[0] = x  # <-\nput = partial(put, l=s)", "put(3)", "put['l'][0]"),
}


def test_a_list_that_is_changed_and_renewed():
    source = """
def f(n, a):
    s = BEFORE
    for i in span(n):
        s[0] = s[0] + 1
        s = [s[1], s[0]]  # <-
    return s[0], s[1],
"""
    check(source.replace("BEFORE", "[0, a]"), [(0, 5), (1, 5), (3, 5)])
    with pytest.raises(TraceError, match="changes elements of `s` and also makes it a new list") as caught:
        trace(define(source.replace("BEFORE", "old = [0, a]"), **NAMES), nv.i32, nv.i32)
    assert caught.value.where.line == 6 and "s.copy()" in caught.value.fix


def refused(source, name):
    with pytest.raises(TraceError) as caught:
        trace(define(source, **NAMES, partial=__import__("functools").partial), nv.i32, nv.i32)
    error = caught.value
    lines = [number for number, line in enumerate(source.splitlines(), 1) if "# <-" in line]
    assert error.where is not None and [error.where.line] == lines, f"{error}\n{source}"
    assert f"changes `{name}` without carrying it" in error.message, error
    assert error.rule and error.fix


@pytest.mark.parametrize("case", [case for case in REFUSED if REFUSED[case][2]])
@pytest.mark.parametrize("statement", ["for i in span(n):", "i = n\n    if n > 0:", "i = n\n    while i > 0:"])
def test_refused(case, statement):
    before, body, name = REFUSED[case]
    step = "        i -= 1\n" if "while" in statement else ""
    source = "def f(n, a):\n" + indented(before, 4) + f"    {statement}\n" + indented(body, 8) + step + "    return a\n"
    refused(source, name)
