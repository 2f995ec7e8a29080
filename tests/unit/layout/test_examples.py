"""The examples in the docstrings of nvdsl/layout and in docs/layouts.md."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import nvdsl.layout

MODULES = [m.name for m in pkgutil.iter_modules(nvdsl.layout.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(f"nvdsl.layout.{name}")).failed == 0


def test_the_guide():
    guide = Path(__file__).parents[3] / "docs" / "layouts.md"
    names = {name: getattr(nvdsl.layout, name) for name in nvdsl.layout.__all__}
    found = doctest.testfile(str(guide), module_relative=False, globs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0 and found.attempted > 30
