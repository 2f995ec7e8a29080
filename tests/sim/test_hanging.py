"""The kernels of tests/hanging.py without a GPU: the verifier or the simulator finds each mistake, at its line."""

import pytest

from nvdsl.errors import SimError, VerifyError
from tests.hanging import MISTAKES


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_a_mistake_is_found(mistake):
    with pytest.raises((VerifyError, SimError)) as caught:
        mistake.function(*mistake.arguments(), target="sim")
    assert getattr(caught.value, "kind", "verify") == mistake.cpu
    if mistake.cpu == "verify":
        assert caught.value.where.line == mistake.cause
    else:
        assert f"hanging.py:{mistake.line}" in str(caught.value)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_without_the_verifier_the_simulator_finds_it(mistake, monkeypatch):
    monkeypatch.setenv("NVDSL_VERIFY", "off")
    with pytest.raises(SimError) as caught:
        mistake.function(*mistake.arguments(), target="sim")
    assert f"hanging.py:{mistake.line}" in str(caught.value)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_without_the_mistake_it_runs(mistake):
    arguments = mistake.arguments()
    mistake.function(*arguments, right=True, target="sim")
    assert (arguments[-1] == arguments[-1]).all()  # no NaN is left
