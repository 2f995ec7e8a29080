"""Which places an `if` merges, and a loop carries."""

import ast
import textwrap

import pytest

from nvdsl.trace.liveness import analyze


def facts(source):
    """Of the constructs of a function with this body, in order of their lines."""
    function = ast.parse("def f(a, b, n):\n" + textwrap.indent(textwrap.dedent(source), "    ")).body[0]
    found, _ = analyze(function)
    return [found[node] for node in sorted(found, key=lambda node: node.lineno)]


def merged(source):
    return {place for place, _, _ in facts(source)[0].merge}


def carried(source, which=0):
    return {place for place, _, _ in facts(source)[which].carried}


MERGED = [
    ("if a:\n  x = 1\nreturn x", {"x"}),
    ("if a:\n  x = 1\nreturn b", set()),
    ("if a:\n  x = 1\nx = 2\nreturn x", set()),
    ("if a:\n  x = 1\nx += 2", {"x"}),
    ("if a:\n  x = 1\nelse:\n  y = 2\nreturn x + y", {"x", "y"}),
    ("if a:\n  x = 1\ndel x", set()),
    ("if a:\n  x = 1\nfor x in b:\n  pass\nreturn x", {"x"}),
    ("if a:\n  x = 1\nfor y in b:\n  use(x)\n  x = 3", {"x"}),
    ("if a:\n  x = 1\nfor y in b:\n  x = 3\n  use(x)", set()),
    ("if a:\n  x = 1\nwhile b:\n  b = x\n  x = 3", {"x"}),
    ("if a:\n  x = 1\nwhile x:\n  x = 3", {"x"}),
    ("if a:\n  x = 1\nreturn [x for x in b]", set()),
    ("if a:\n  x = 1\nreturn [x for y in b]", {"x"}),
    ("if a:\n  x = 1\nreturn [y for y in x]", {"x"}),
    ("if a:\n  x = 1\nreturn [x for x in x]", {"x"}),
    ("if a:\n  x = [x for y in b]\nreturn y", set()),
    ("if a:\n  (x, *y), z[0], w.v = b\nreturn x", {"x", "z[]", "w.v"}),
    ("if a:\n  x = y = 1\nreturn x, y", {"x", "y"}),
    ("if a:\n  for x in b:\n    y = x\nreturn x, y", {"x", "y"}),
    ("if a:\n  with b as x:\n    pass\nreturn x", {"x"}),
    ("if a:\n  import x.y, z as w\nreturn x, w", {"x", "w"}),
    ("if a:\n  def x(): pass\nreturn x", {"x"}),
    ("if a:\n  class x: y = 1\nreturn x, y", {"x"}),
    ("if a:\n  use(x := 1)\nreturn x", {"x"}),
    ("if a:\n  use([x := i for i in b])\nreturn x, i", {"x"}),
    ("if a:\n  try:\n    pass\n  except E as x:\n    pass\nreturn x", {"x"}),
    ("if a:\n  match b:\n    case [x, {'k': y, **z}]:\n      pass\nreturn x, y, z", {"x", "y", "z"}),
    ("if a:\n  x: int = 1\nreturn x", {"x"}),
    ("if a:\n  x = 1\ntry:\n  x = 2\nexcept E:\n  use(x)", {"x"}),
    ("if a:\n  x = 1\ntry:\n  pass\nfinally:\n  use(x)", {"x"}),
    ("if a:\n  x = 1\nmatch b:\n  case x.y:\n    pass", {"x"}),
    ("if a:\n  x = 1\nmatch b:\n  case _ if x:\n    pass", {"x"}),
    ("if a:\n  x = 1\nassert b, x", {"x"}),
    ("if a:\n  x = 1\nraise x", {"x"}),
    ("if a:\n  x = 1\nif b:\n  return x", {"x"}),
    ("if a:\n  x = 1\nif b:\n  return 0\nreturn x", {"x"}),
    ("if a:\n  x = 1\nreturn b\nuse(x)", set()),
    ("if a:\n  x = 1\nwith b(x):\n  pass", {"x"}),
    ("if a:\n  x = 1\nclass C(x): pass", {"x"}),
    ("if a:\n  x = 1\ndef g(y=x): pass", {"x"}),
    ("if a:\n  x = 1\nx.y = 2", {"x"}),
    ("if a:\n  x = 1\nb[x] = 2", {"x"}),
    ("if a:\n  x = 1\nf'{x}'", {"x"}),
    # what nested functions capture and assign
    ("def g(): return x\nif a:\n  x = 1", {"x"}),
    ("if a:\n  x = 1\nreturn lambda: x", {"x"}),
    ("def g():\n  nonlocal x\n  x = 1\nif a:\n  g()\nreturn x", {"x"}),
    ("def g():\n  nonlocal x\n  x = 1\nif a:\n  b = 1\nreturn x, b", {"b"}),
    ("if a:\n  def g():\n    y = 1\nreturn y", set()),
    # parts of objects
    ("if a:\n  s.x.y += 1", {"s.x.y"}),
    ("if a:\n  f(s).x = 1", set()),
    ("if a:\n  s.x[0] = 1", {"s.x[]"}),
    ("if a:\n  s = 1\n  s.x = 1\n  s[0] = 2\nreturn s", {"s", "s[]"}),
    ("if a:\n  s[0] = 2\nelse:\n  s = [b]\nreturn s", {"s", "s[]"}),
    ("if a:\n  s[a][b] = 1", {"s[]"}),
    ("if a:\n  s[1][b] = 1\n  s[-2]['k'].x[b][a] = 1", {"s[1][]", "s[-2]['k'].x[]"}),
    ("if a:\n  s[1][b] = 1\n  s[a] = 1", {"s[]"}),
    ("if a:\n  s[a].x[0] = 1\n  f(s)[0] = 1", set()),
    ("if a:\n  del s.x, s[0]", {"s.x", "s[]"}),
    # other scopes
    ("global x\nif a:\n  x = 1\nreturn x", set()),
    ("nonlocal x\nif a:\n  x = 1", {"x"}),
]


@pytest.mark.parametrize("source, expected", MERGED, ids=[source for source, _ in MERGED])
def test_merged(source, expected):
    assert merged(source) == expected


CARRIED = [
    ("for i in b:\n  x += i\nreturn x", {"x"}),
    ("for i in b:\n  x = i\n  use(x)", set()),
    ("for i in b:\n  use(x)\n  x = i", {"x"}),
    ("for i in b:\n  x = i\nreturn x", {"x"}),
    ("for i in b:\n  x = i\nx = 3\nreturn x", set()),
    ("for i in b:\n  i += 1\nreturn i", set()),
    ("for i in b:\n  if i:\n    x = 1\n  use(x)", {"x"}),
    ("for i in b:\n  if i:\n    x = 1\n  else:\n    x = 2\n  use(x)", set()),
    ("for i in b:\n  if i:\n    continue\n  x = 1\nelse:\n  use(x)", {"x"}),
    ("for i in b:\n  if i:\n    break\n  x = 1\nelse:\n  x = 2\nuse(x)", {"x"}),
    ("for i in b:\n  for j in b:\n    x = y\n    y = x", {"y"}),
    ("for i in b:\n  x = 0\n  for j in b:\n    x += j\n  use(x)", set()),
    ("for i in b:\n  s.x = i", {"s.x"}),
    ("for i in b:\n  s[i] = i", {"s[]"}),
    ("for i in b:\n  s[i] = i\n  s = s + s", {"s", "s[]"}),
    ("for i in b:\n  y = x[i]\n  x = y", {"x"}),
    ("for i in b:\n  x = lambda: y\n  y = 1", {"y"}),
    ("while x:\n  x = 1", {"x"}),
    ("while a:\n  x = 1", set()),
    ("while a:\n  x = 1\nreturn x", {"x"}),
    ("while (x := f()):\n  use(x)", set()),
    ("while (x := x - 1):\n  pass", {"x"}),
    ("while a:\n  use(x)\n  x = 2", {"x"}),
    ("while a:\n  break\nelse:\n  pass", set()),
]


@pytest.mark.parametrize("source, expected", CARRIED, ids=[source for source, _ in CARRIED])
def test_carried(source, expected):
    assert carried(source) == expected


def test_inner_loops_carry_for_themselves():
    source = "for i in b:\n  x = 0\n  for j in b:\n    x += j\n  use(x)"
    assert carried(source, 0) == set() and carried(source, 1) == {"x"}


def test_lines_of_the_last_assignments():
    (branches,) = facts("if a:\n  x = 1\n  x = 2\nelse:\n  y = 3\n  x = 4\nreturn x, y")
    assert branches.merge == (("x", 4, 7), ("y", 0, 6))
    (loop,) = facts("for i in b:\n  x = 1\n  x += i\nuse(x)")
    assert loop.carried == (("x", 4, False),)


def test_first_read():
    def read(source):
        return {place: first for place, _, first in facts(source)[0].carried}

    assert read("for i in b:\n  use(x)\n  x = y = i\nreturn x, y") == {"x": True, "y": False}
    assert read("while x:\n  x = 1") == {"x": True}
    assert read("for i in b:\n  s.x = 1") == {"s.x": True}


def test_reset():
    (branches,) = facts("if a:\n  x = y = z = s.p = 1\nelse:\n  use(x)\nreturn y")
    assert branches.reset == ("x", "y", "s.p")


def test_what_remains_of_a_loop():
    assert facts("for i, (j, k) in b:\n  pass\nreturn i, k")[0].last == ("i", "k")
    assert facts("while (x := f()):\n  use(x)")[0].last == ("x",)
    assert facts("while (x := f()):\n  pass\nreturn x")[0].last == ("x",)
    assert facts("while (x := f()):\n  pass")[0].last == ()


@pytest.mark.parametrize(
    "source, rereads",
    [
        ("while x:\n  x = 1", True),
        ("while a:\n  x = 1\nreturn x", False),
        ("while g():\n  x = 1\nreturn x", False),
        ("def g(): return x\nwhile g():\n  x = 1", True),
        ("while g():\n  s.x = 1", True),
        ("while a.y:\n  s.x = 1", True),
        ("while a:\n  s.x = 1", False),
        ("while a[0]:\n  s[0] = 1", True),
    ],
)
def test_rereads(source, rereads):
    assert facts(source)[-1].rereads is rereads


def test_globals_are_reported():
    function = ast.parse("def f():\n  global x, y\n  def g():\n    global z\n").body[0]
    assert analyze(function)[1] == {"x", "y"}
