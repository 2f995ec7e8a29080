"""Settings of the environment that are on or off."""

import pytest

from nvdsl.errors import ArgumentError
from nvdsl.errors.settings import is_on


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize(("text", "meant"), [("", None), ("1", True), ("On", True), ("0", False), ("FALSE", False)])
def test_what_is_on_and_off(monkeypatch, text, meant, default):
    monkeypatch.setenv("NVDSL_X", text)
    assert is_on("NVDSL_X", default) is (default if meant is None else meant)
    monkeypatch.delenv("NVDSL_X")
    assert is_on("NVDSL_X", default) is default


def test_another_word_is_an_error(monkeypatch):
    monkeypatch.setenv("NVDSL_X", "maybe")
    with pytest.raises(ArgumentError, match="NVDSL_X=maybe") as caught:
        is_on("NVDSL_X")
    assert caught.value.fix == "NVDSL_X=1, or unset it"
