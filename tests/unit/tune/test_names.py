"""What a fingerprint follows: a tuned answer is out of date as soon as anything changes that its kernel uses."""

import functools
import sys
import types
from dataclasses import dataclass

import nvdsl as nv
from nvdsl.kernels.blocks import mainloop
from nvdsl.kernels.gemm import model, pingpong, tuned
from nvdsl.tune.names import fingerprint


def helper():
    return 1


class Counter:
    start = 1

    def step(self):
        return helper()

    @property
    def end(self):
        return self.start + helper()


@dataclass(frozen=True)
class Holder:
    function: object


def changed(monkeypatch, function, scope, name, value):
    """Whether the fingerprint of ``function`` is another one while ``scope.name`` is ``value``."""
    before = fingerprint(function)
    assert fingerprint(function) == before
    with monkeypatch.context() as patched:
        patched.setattr(scope, name, value)
        return fingerprint(function) != before


def make(given):
    return lambda: given


def test_what_a_kernel_notes_is_no_part_of_it():
    notes = [1, "a"]
    before = fingerprint(make(notes))
    notes.append((2, 3))
    assert fingerprint(make(notes)) == before


def test_fingerprints_follow_modules_containers_defaults_and_classes(monkeypatch):
    here, other = sys.modules[__name__], types.ModuleType("helpers")
    other.doubled, other.unrelated = changed, helper
    monkeypatch.setattr(here, "helpers", other, raising=False)
    table, constants = {"one": functools.partial(helper)}, (3, Holder(helper))
    uses = {
        "a module's function": lambda: helpers.doubled(),  # noqa: F821  (made by the test)
        "a dict and a partial": lambda: table["one"],
        "a tuple and a dataclass": lambda: constants[1],
        "a default": lambda f=helper: f(),
        "a class": lambda: Counter().step(),
    }
    for what, function in uses.items():
        scope, name = (other, "doubled") if what == "a module's function" else (here.helper, "__code__")
        new = fingerprint if name == "doubled" else (lambda: 2).__code__
        assert changed(monkeypatch, function, scope, name, new), what
    assert not changed(monkeypatch, uses["a module's function"], other, "unrelated", fingerprint)
    assert changed(monkeypatch, uses["a class"], Counter, "start", 2)
    assert fingerprint(make((3, 4))) != fingerprint(make((3, 5)))
    assert changed(monkeypatch, uses["a class"], Counter, "end", property(lambda self: 5))


def test_what_is_tuned_of_matmul_is_out_of_date_when_one_of_its_pieces_changes(monkeypatch):
    """The kernels are reached through their modules, the pieces as methods."""
    function = tuned.tuned_matmul._function
    assert changed(monkeypatch, function, pingpong, "matmul", nv.jit(helper))
    assert changed(monkeypatch, function, mainloop.Mainloop, "load", helper)
    assert changed(monkeypatch, function, mainloop, "CLEARED", 6)
    assert not changed(monkeypatch, function, model, "LOAD", 2.0)  # what is chosen is no part of the kernels
