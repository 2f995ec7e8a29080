"""Fixtures of several unit tests."""

import pytest


@pytest.fixture
def compiled(monkeypatch):
    """The modules that are lowered, in order; nothing else of the lowering happens."""
    from nvdsl.lower import compiler
    from nvdsl.lower.result import Lowered

    modules = []

    def record(module, options, *_):
        modules.append(module)
        return Lowered(module, {}, {})

    monkeypatch.setattr(compiler, "lower", record)
    return modules
