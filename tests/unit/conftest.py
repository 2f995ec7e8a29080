"""Fixtures of several unit tests."""

import pytest


@pytest.fixture
def compiled(monkeypatch):
    """The modules that are lowered, in order; nothing else of the lowering happens."""
    from nvdsl import lower

    modules = []

    def record(module, options):
        modules.append(module)
        return lower.Lowered(module, {}, {})

    monkeypatch.setattr(lower, "lower", record)
    return modules
