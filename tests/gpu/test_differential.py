"""The simulator and the GPU give the same results: kernels that Hypothesis draws and shrinks.

    python -m pytest tests/gpu/test_differential.py --hypothesis-profile=explore        (other kernels, and more)
"""

import pytest

from nvdsl.testing import in_child

pytest.importorskip("hypothesis")

import hypothesis

from tests.differential import case, corpus, strategies

EXAMPLES = {"operators": 25, "conversions": 15, "functions": 10, "copy": 60, "product": 60, "program": 80}


@in_child(timeout=280)
def compare(kind: str, profile: str, examples: int) -> None:
    hypothesis.settings.register_profile("here", deadline=None, derandomize=profile != "explore", database=None)
    hypothesis.settings.load_profile("here")

    @hypothesis.settings(max_examples=examples, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(strategies.ALL[kind]())
    def same(drawn: case.Case) -> None:
        entry = corpus.Entry(drawn, {result.name: corpus.encode(result) for result in drawn.run("gpu")})
        assert not corpus.disagreements(entry)

    same()


@pytest.mark.parametrize("kind", strategies.ALL)
def test_as_in_the_simulator(kind, monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_EXACT", "1")
    profile = hypothesis.settings.get_current_profile_name()
    compare(kind, profile, EXAMPLES.get(kind, 10) * (4 if profile == "explore" else 1))


@in_child(timeout=100)
def test_what_was_recorded_is_given_again():
    """The GPU here agrees with the one that recorded the corpus."""
    for kind in case.KINDS:
        for entry in corpus.read(corpus.FOLDER / f"{kind}.jsonl")[::5]:
            assert not corpus.disagreements(entry, "gpu"), entry.case
