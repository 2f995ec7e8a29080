"""What a module's functions were converted to is kept beside its .pyc, and found by later processes."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap

import pytest

from nvdsl.errors import TraceError
from nvdsl.trace import kept, rewrite, source

TEXT = """
    def outer(step):
        def inner(x):
            total = 0
            for i in range(x):
                if i % 2:
                    total += i * step
            return total
        return inner

    class Owner:
        def __private(self, x, *, y=2):
            return x + y if x > 1 else -x
        def method(self, x):
            return self.__private(x, y=3) and not x > 5
    """


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    tmp_path.joinpath("kept_example.py").write_text(textwrap.dedent(TEXT))
    yield importlib.import_module("kept_example")
    sys.modules.pop("kept_example")


@pytest.fixture
def later(monkeypatch):
    """As a later process begins; what cannot convert by itself."""

    def refuse(function):
        raise TraceError("converted anew")

    def begin():
        kept.write()
        monkeypatch.setattr(kept, "_modules", {})
        monkeypatch.setattr(rewrite, "_converted", {})
        monkeypatch.setattr(source, "definition", refuse)

    return begin


def run(module):
    """Its functions, converted."""
    inner = rewrite.convert(module.outer)(10)
    owner = module.Owner()
    method = rewrite.convert(module.Owner.method)
    return rewrite.convert(inner)(6), method(owner, 2), method(owner, 7)


def file(module):
    return module.__spec__.cached.replace(".pyc", ".nvdsl.pyc")


def test_a_later_process_finds_conversions(module, later):
    inner = module.outer(10)
    first = rewrite.convert(inner).__code__
    expected = run(module)
    later()
    assert run(module) == expected == (90, True, False)
    again = rewrite.convert(inner).__code__
    assert again == first and again is not first and again.co_qualname == inner.__qualname__
    assert list(again.co_positions()) == list(first.co_positions())


def test_an_edited_file_is_converted_anew(module, later):
    run(module)
    kept.write()
    path = module.__file__
    text = open(path).read()
    with open(path, "w") as changed:
        changed.write(text.replace("i * step", "i + step"))
    os.utime(path, (1, 1))  # the size is the same, the time is not
    module = importlib.reload(module)
    later()
    with pytest.raises(TraceError, match="converted anew"):
        run(module)


def test_code_of_another_text_is_not_found(module, later):
    """A file that changes after its import: its functions are told apart by their code."""
    run(module)
    later()
    code = module.outer.__code__
    module.outer.__code__ = code.replace(co_consts=tuple(1 if x is None else x for x in code.co_consts))
    with pytest.raises(TraceError, match="converted anew"):
        rewrite.convert(module.outer)


@pytest.mark.parametrize("data", [b"", b"not marshal", b"\xe9\x02"])
def test_a_file_that_is_not_ours_is_written_anew(module, later, data, monkeypatch):
    os.makedirs(os.path.dirname(file(module)), exist_ok=True)
    with open(file(module), "wb") as broken:
        broken.write(data)
    expected = run(module)
    later()
    assert run(module) == expected


def test_other_files_that_convert_find_nothing(module, later, monkeypatch):
    run(module)
    later()
    monkeypatch.setattr(kept, "_converter", lambda: "others")
    with pytest.raises(TraceError, match="converted anew"):
        run(module)


def test_nothing_is_written_where_python_writes_nothing(module, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    run(module)
    kept.write()
    assert not os.path.exists(file(module))


def test_a_folder_that_cannot_be_written_is_left(module):
    folder = os.path.dirname(file(module))
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)
    open(folder, "w").close()  # a file in the folder's place: also root can write nothing below it
    assert run(module) == (90, True, False)
    kept.write()
    assert not os.path.exists(file(module))
