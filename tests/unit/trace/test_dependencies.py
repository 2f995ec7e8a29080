"""What a kernel is compiled from: a change of what its trace read is seen by the next call."""

from __future__ import annotations

import enum
import functools
import gc
import importlib
import sys
import textwrap
import types
import warnings
import weakref
from array import array as array_of
from dataclasses import dataclass, field

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.trace import dependencies
from tests.unit.kernels import array

SCALE = 1.0
BASE = 1.0
table = [1.0, 2.0]
weights = np.array([1.0, 2.0])


def scaled(x, by=1.0, *, add=0.0):
    return x * by + add


def based(x):
    return x * BASE


class Setting:
    scale = 1.0

    def __init__(self, scale=1.0):
        self.by, self.unread = scale, 0

    @property
    def twice(self):
        return self.by * 2.0

    def times(self, x):
        return x * self.by * type(self).scale

    def train(self):
        return self.unread


class Derived(Setting):
    pass


class Slotted:
    __slots__ = ("by", "unread")

    def __init__(self, by):
        self.by = by


@dataclass
class Mutable:
    by: float = 1.0
    parts: list = field(default_factory=lambda: [1.0])

    __hash__ = object.__hash__


setting = Setting()


def made(body):
    """A jit function that stores ``body()``, or ``body(c)``; a call of it that gives what it stored; its traces."""
    traces = []

    @nv.jit
    def function(out, *, c=None):
        @nv.kernel(grid=1, block=1)
        def kernel():
            out[0] = nv.f32(body() if c is None else body(c))

        traces.append(1)
        kernel()

    def call(**constants):
        out = np.zeros(1, np.float32)
        function(out, target="sim", **constants)
        return float(out[0])

    return function, call, traces


def follows(monkeypatch, body, change, before, after, **constants):
    """The value changes with the change, and nothing is traced twice."""
    _, call, traces = made(body)
    assert [call(**constants) for _ in range(3)] == [before] * 3 and len(traces) == 1
    change(monkeypatch)
    assert [call(**constants) for _ in range(3)] == [after] * 3 and len(traces) == 2
    monkeypatch.undo()
    assert call(**constants) == before


def setter(owner, name, value):
    return lambda patch: patch.setattr(owner, name, value)


def item(owner, key, value):
    def change(patch):
        before = owner[key]
        owner[key] = value
        patch.undo_also.append(lambda: owner.__setitem__(key, before))

    return change


@pytest.fixture
def monkeypatch(monkeypatch):
    """That can also be told how to undo what is no attribute."""
    undo, monkeypatch.undo_also = monkeypatch.undo, []

    def undo_all():
        undo()
        while monkeypatch.undo_also:
            monkeypatch.undo_also.pop()()

    monkeypatch.undo = undo_all
    yield monkeypatch
    undo_all()


HERE = sys.modules[__name__]


def other_scaled(x, by=1.0, *, add=0.0):
    return x * 5.0


def other_init(self, by):
    self.by = 9.0


def through_wrapper(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


wrapped = through_wrapper(lambda x: x * BASE)

class Meta(type):
    @property
    def by(cls):
        return BASE


class Made(metaclass=Meta):
    pass


octets, numbers, boxes = bytearray([2]), array_of("d", [2.0]), np.array([[2.0], None], object)


class Kind(enum.Enum):
    ONE = 1.0


GLOBALS = {
    "element of a bytearray": (lambda: float(octets[0]), item(octets, 0, 7), 2, 7),
    "element of Python's array": (lambda: numbers[0], item(numbers, 0, 7.0), 2, 7),
    "in an array of objects": (lambda: boxes[0][0], item(boxes[0], 0, 7.0), 2, 7),
    "global by eval": (lambda: eval("SCALE"), setter(HERE, "SCALE", 3.0), 1, 3),
    "global by globals": (lambda: globals()["SCALE"], setter(HERE, "SCALE", 3.0), 1, 3),
    "attribute by __dict__": (lambda: setting.__dict__["by"], setter(setting, "by", 3.0), 1, 3),
    "property of a metaclass": (lambda: Made.by, setter(HERE, "BASE", 3.0), 1, 3),
    "value of an enum": (lambda: Kind.ONE.value, setter(Kind.ONE, "_value_", 3.0), 1, 3),
    "global": (lambda: SCALE, setter(HERE, "SCALE", 3.0), 1, 3),
    "global of another type": (lambda: 1.0 if isinstance(SCALE, float) else 2.0, setter(HERE, "SCALE", 1), 1, 2),
    "sign of zero": (lambda: 1.0 if str(SCALE)[0] == "-" else 2.0, setter(HERE, "SCALE", -0.0), 2, 1),
    "helper": (lambda: scaled(2.0), setter(HERE, "scaled", other_scaled), 2, 10),
    "code of a helper, as a reloader exchanges it": (
        lambda: scaled(2.0), setter(scaled, "__code__", other_scaled.__code__), 2, 10
    ),
    "default": (lambda: scaled(2.0), setter(scaled, "__defaults__", (4.0,)), 2, 8),
    "keyword default": (lambda: scaled(2.0), item(scaled.__kwdefaults__, "add", 4.0), 2, 6),
    "keyword defaults": (lambda: scaled(2.0), setter(scaled, "__kwdefaults__", {"add": 3.0}), 2, 5),
    "global of a helper": (lambda: based(2.0), setter(HERE, "BASE", 3.0), 2, 6),
    "through a wrapper": (lambda: wrapped(2.0), setter(HERE, "BASE", 3.0), 2, 6),
    "element of a list": (lambda: table[1], item(table, 1, 7.0), 2, 7),
    "sum of a list": (lambda: sum(table), item(table, 0, 7.0), 3, 9),
    "element of an array": (lambda: float(weights[1]), item(weights, 1, 7.0), 2, 7),
    "class attribute": (lambda: Setting.scale, setter(Setting, "scale", 3.0), 1, 3),
    "class attribute of an object": (lambda: setting.scale, setter(Setting, "scale", 3.0), 1, 3),
    "class attribute that is hidden": (lambda: Derived.scale, setter(Derived, "scale", 3.0), 1, 3),
    "class attribute that the object hides": (lambda: setting.scale, setter(setting, "scale", 3.0), 1, 3),
    "attribute": (lambda: setting.by, setter(setting, "by", 3.0), 1, 3),
    "attribute by a method": (lambda: setting.times(2.0), setter(setting, "by", 3.0), 2, 6),
    "class attribute by a method": (lambda: setting.times(2.0), setter(Setting, "scale", 3.0), 2, 6),
    "attribute by a property": (lambda: setting.twice, setter(setting, "by", 3.0), 2, 6),
    "attribute by getattr": (lambda: getattr(setting, "b" + "y"), setter(setting, "by", 3.0), 1, 3),
    "method": (lambda: setting.times(2.0), setter(Setting, "times", lambda self, x: x * 9.0), 2, 18),
    "how an object is made": (lambda: Mutable(2.0).by, setter(Mutable, "__init__", other_init), 2, 9),
    "a name that hides a builtin": (lambda: min(1.0, 2.0), lambda p: p.setattr(HERE, "min", max, raising=False), 1, 2),
}  # fmt: skip


@pytest.mark.parametrize(("body", "change", "before", "after"), GLOBALS.values(), ids=GLOBALS)
def test_a_change_is_seen(monkeypatch, body, change, before, after):
    follows(monkeypatch, body, change, before, after)


def test_closure_cells_and_what_is_in_them(monkeypatch):
    by, parts, inner = 1.0, {"a": [1.0], "b": 2.0}, types.SimpleNamespace(by=1.0)
    _, call, traces = made(lambda: by * parts["a"][0] * parts["b"] * inner.by)
    assert call() == call() == 2
    by = 3.0
    assert call() == call() == 6
    parts["a"][0] = 2.0
    assert call() == call() == 12
    parts["b"] = 1.0
    assert call() == call() == 6
    inner.by = 0.5
    assert call() == call() == 3
    parts = {"a": [1.0], "b": 1.0}
    assert call() == call() == 1.5 and len(traces) == 6


def test_an_order_that_changes_is_a_change():
    parts = {"a": 1.0, "b": 2.0}
    _, call, _ = made(lambda: next(iter(parts.values())))
    assert call() == 1
    parts["a"] = parts.pop("a")
    assert call() == 2


@pytest.mark.parametrize("kind", [Setting, Slotted, lambda by: Mutable(by), lambda by: types.SimpleNamespace(by=by)])
def test_attributes_of_objects_as_constants(kind):
    one, other = kind(2.0), kind(5.0)
    if isinstance(one, types.SimpleNamespace):
        one, other = Holder(one), Holder(other)
        _, call, traces = made(lambda c: c.inner.by)
    else:
        _, call, traces = made(lambda c: c.by)
    inside = [getattr(x, "inner", x) for x in (one, other)]
    for _ in range(3):
        assert (call(c=one), call(c=other)) == (2, 5)
    assert len(traces) == 2
    inside[0].by = 3.0
    for _ in range(3):
        assert (call(c=one), call(c=other)) == (3, 5)
    assert len(traces) == 3
    inside[0].by = 2.0
    assert call(c=one) == 2 and len(traces) == 3, "known"
    if not isinstance(inside[0], types.SimpleNamespace):
        inside[0].unread = 7
        if not isinstance(one, Mutable):
            assert call(c=one) == 2 and len(traces) == 3


class Holder:
    def __init__(self, inner):
        self.inner = inner


def test_functions_as_constants(monkeypatch):
    _, call, traces = made(lambda c: c(2.0))
    assert call(c=based) == call(c=based) == 2
    monkeypatch.setattr(HERE, "BASE", 3.0)
    assert call(c=based) == call(c=based) == 6
    monkeypatch.undo()
    n = len(traces)
    for by in (1.0, 2.0, 1.0, 2.0):
        assert call(c=lambda x, by=by: x * by) == 2 * by
        assert call(c=lambda x: x * by) == 2 * by  # noqa: B023
    assert len(traces) == n + 4


def test_states_that_were_compiled_are_known_again(monkeypatch):
    _, call, traces = made(lambda: SCALE)
    for _ in range(3):
        for scale in (1.0, 2.0, 3.0):
            monkeypatch.setattr(HERE, "SCALE", scale)
            assert call() == scale
    assert len(traces) == 3


def test_an_equal_value_that_is_another_object_is_no_change(monkeypatch):
    _, call, traces = made(lambda: SCALE)
    for _ in range(3):
        monkeypatch.setattr(HERE, "SCALE", float("2.5"))
        assert call() == 2.5
    assert len(traces) == 1


def test_what_a_trace_itself_changes_is_no_change():
    notes, memo = [], {}

    def body(c):
        notes.append(c)
        memo[c] = memo.get(c, c)
        return memo[c]

    _, call, traces = made(body)
    _, other, others = made(body)
    for _ in range(3):
        assert [f(c=c) for c in (1.0, 2.0, 3.0) for f in (call, other)] == [1, 1, 2, 2, 3, 3]
    assert len(traces) == len(others) == 3
    memo[1.0] = 9.0
    assert call(c=1.0) == 9 and other(c=1.0) == 9


def test_attributes_that_no_code_names_are_no_part(monkeypatch):
    _, call, traces = made(lambda: setting.by)
    assert call() == 1
    for i in range(20):
        monkeypatch.setattr(setting, "unread", i)
        assert call() == 1
    assert len(traces) == 1


MODULE = """
    import nvdsl as nv
    {imports}

    def helper(x):
        return x * {value}

    FACTOR = {value}
    """


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"helpers_{tmp_path.name}".replace("-", "_")

    def write(value):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE.format(value=value, imports="")))
        importlib.invalidate_caches()
        return importlib.reload(sys.modules[name]) if name in sys.modules else importlib.import_module(name)

    yield write
    sys.modules.pop(name, None)


@pytest.mark.parametrize("use", ["helper", "FACTOR", "import"])
def test_a_module_that_is_loaded_again(module, use):
    helpers = module("2.0")
    name = helpers.__name__
    scope = {"nv": nv, "np": np, "helpers": helpers}
    value = {"helper": "helpers.helper(1.0)", "FACTOR": "helpers.FACTOR", "import": "FACTOR"}[use]
    imports = f"from {name} import FACTOR" if use == "import" else "pass"
    text = f"def body():\n    {imports}\n    return {value}\n"
    exec(text, scope)
    _, call, traces = made(scope["body"])
    assert call() == call() == 2
    helpers.FACTOR = 5.0
    assert call() == (2 if use == "helper" else 5)
    module("3.00")
    assert call() == call() == 3


def test_a_cell_of_a_notebook_that_is_run_again():
    scope = {"nv": nv}
    exec("SCALE = 1.0\ndef helper(x): return x * SCALE", scope)
    exec("def body(): return helper(2.0)", scope)
    _, call, _ = made(scope["body"])
    assert call() == 2
    exec("SCALE = 4.0", scope)
    assert call() == 8
    exec("def helper(x): return x + SCALE", scope)
    assert call() == 6


def test_a_trace_that_fails_is_tried_again(monkeypatch):
    _, call, _ = made(lambda: scaled(SCALE))
    monkeypatch.setattr(HERE, "SCALE", "no number")
    with pytest.raises((TypeError, nv.NvdslError)):
        call()
    monkeypatch.setattr(HERE, "SCALE", 4.0)
    assert call() == 4


def test_states_are_bounded_and_the_oldest_is_dropped(monkeypatch):
    monkeypatch.setattr(dependencies, "MOST", 4)
    function, call, traces = made(lambda: SCALE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for scale in range(40):
            monkeypatch.setattr(HERE, "SCALE", float(scale))
            assert call() == scale
    assert len(function._compiled) == 4 and len(traces) == 40
    (warning,) = [w for w in caught if issubclass(w.category, nv.AdvisoryWarning)]
    assert "the global `SCALE`" in str(warning.message) and warning.filename == __file__


def test_objects_as_constants_are_bounded(monkeypatch):
    monkeypatch.setattr(sys.modules["nvdsl.call.reads"], "_MOST", 4)
    function, call, _ = made(lambda c: c.by)
    for i in range(10):
        assert call(c=Setting(float(i))) == i
    assert len(function._reads._with) == len(function._compiled) == 4


def test_what_a_guard_holds_may_be_freed():
    class Large:
        pass

    large = Large()
    seen = weakref.ref(large)
    gc.freeze()  # what other tests left is not looked through
    _, call, _ = made(lambda: 1.0 if large is None else 2.0)
    assert call() == call() == 2
    large = None
    gc.collect()
    assert seen() is None and call() == 1


def test_compilations_are_of_their_state(monkeypatch):
    @nv.jit
    def function(out):
        @nv.kernel(grid=1, block=1)
        def kernel():
            out[0] = SCALE

        kernel()

    def constant():
        return function.trace(array(nv.f32, 1))

    texts = [str(constant())]
    monkeypatch.setattr(HERE, "SCALE", 3.5)
    texts.append(str(constant()))
    assert "3.5" not in texts[0] and "3.5" in texts[1]
    first = function.compile(array(nv.f32, 1))
    assert function.compile(array(nv.f32, 1)) is first
    monkeypatch.setattr(HERE, "SCALE", 4.5)
    assert function.compile(array(nv.f32, 1)) is not first


def test_an_activation_of_a_product(monkeypatch):
    a = np.eye(4, dtype=np.float32)
    assert nv.matmul(a, a, activation=based, target="sim")[0, 0] == 1
    monkeypatch.setattr(HERE, "BASE", 3.0)
    assert nv.matmul(a, a, activation=based, target="sim")[0, 0] == 3
