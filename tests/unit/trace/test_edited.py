"""A file that is edited after its import: what was imported runs, or the call is refused."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import TraceError

PROGRAM = """
    import nvdsl as nv
    {before}
    def helper(x):
        if x.shape == ():
            return x * {factor}
        return x

    @nv.jit
    def function(out, s):
        @nv.kernel(grid=1, block=1)
        def kernel():
            if s > 0.0:
                out[0] = helper(s) + {added}
        kernel()

    @nv.jit
    def by_lambda(out, s):
        scale = lambda x: x * {factor} if x.shape == () else x
        @nv.kernel(grid=1, block=1)
        def kernel():
            out[0] = scale(s)
        kernel()
    """
HELPERS = """
    def helper(x):
        if x.shape == ():
            return x {op} {factor}
        return x
    """


class Module:
    """A module in a file, imported from it."""

    def __init__(self, folder, name, text):
        self.path, self.name, self.text, self.age = folder / f"{name}.py", name, text, 0

    def write(self, **values):
        self.path.write_text(textwrap.dedent(self.text.format(**values)))
        self.age += 10  # seconds, for what looks at times
        os.utime(self.path, (self.path.stat().st_atime, self.path.stat().st_mtime + self.age))
        importlib.invalidate_caches()

    def load(self):
        module = sys.modules.get(self.name)
        return importlib.reload(module) if module else importlib.import_module(self.name)


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = []

    def module(text):
        made.append(Module(tmp_path, f"edited_{tmp_path.name}_{len(made)}".replace("-", "_"), text))
        return made[-1]

    yield module
    for one in made:
        sys.modules.pop(one.name, None)


def run(function, s=3.0):
    out = np.zeros(1, np.float32)
    function(out, s, target="sim")
    return float(out[0])


def test_what_was_imported_runs(make):
    module = make(PROGRAM)
    module.write(factor=2.0, added=1.0, before="")
    program = module.load()
    module.write(factor=9.0, added=5.0, before="")
    assert run(program.function) == 7 and run(program.by_lambda) == 6
    program = module.load()
    assert run(program.function) == 32 and run(program.by_lambda) == 27


@pytest.mark.parametrize("before", ["\n\n", "X = 1\n", "def other(): pass\n"])
def test_lines_that_shift_do_not_matter(make, before):
    module = make(PROGRAM)
    module.write(factor=2.0, added=1.0, before="")
    program = module.load()
    module.write(factor=2.0, added=1.0, before=before)
    assert run(program.function) == 7


def test_functions_of_an_older_load_are_their_own(make):
    module = make(PROGRAM)
    module.write(factor=2.0, added=1.0, before="")
    old = module.load().function
    module.write(factor=3.0, added=1.0, before="")
    new = module.load().function
    assert run(new) == 10
    module.write(factor=9.0, added=9.0, before="\n")
    assert new is not old and run(new, 2.0) == 7


def test_a_file_that_is_no_python_any_more(make):
    module = make(PROGRAM)
    module.write(factor=2.0, added=1.0, before="")
    program = module.load()
    module.write(factor=2.0, added=1.0, before="def broken(:")
    assert run(program.function) == 7


def using(helpers):
    @nv.jit
    def function(out, s):
        @nv.kernel(grid=1, block=1)
        def kernel():
            out[0] = helpers.helper(s)

        kernel()

    return function


@pytest.mark.parametrize("change", [{"op": "*", "factor": 9.0}, {"op": "+", "factor": 2.0}])
def test_helpers_of_a_module_without_decorators(make, change):
    module = make(HELPERS)
    module.write(op="*", factor=2.0)
    helpers = module.load()
    module.write(**change)
    with pytest.raises(TraceError, match="the source of `helper` has changed since it was imported") as caught:
        run(using(helpers))
    assert caught.value.where.file == str(module.path) and "reload" in caught.value.fix
    expected = 27 if change["op"] == "*" else 5
    assert run(using(module.load())) == expected


def test_helpers_that_were_not_edited(make):
    module = make(HELPERS)
    module.write(op="*", factor=2.0)
    helpers = module.load()
    assert run(using(helpers)) == 6
    os.utime(module.path)  # touched
    assert run(using(helpers), 4.0) == 8
