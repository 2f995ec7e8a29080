"""That the fit of the model's constants finds what times say, and leaves alone what they don't."""

import numpy as np
import pytest

from benchmarks import fit_model
from benchmarks.fit_model import fit, held, losses, model


@pytest.fixture
def constants(monkeypatch):
    """What the fit changes is what it was, after the test."""
    for name in fit_model.CONSTANTS:
        monkeypatch.setattr(model, name, getattr(model, name))


def test_a_fit_finds_the_constants_behind_times(constants, monkeypatch):
    names = ["REQUEST", "LATENCY", "LOAD"]  # which these times tell well
    told = {name: getattr(model, name) for name in names}
    with monkeypatch.context() as patch:
        for name, factor in zip(names, (1.2, 1.2, 0.8), strict=True):
            patch.setattr(model, name, told[name] * factor)
        data = [(shape, configs, times * 1e-6) for shape, configs, times in held(24)]
        wanted = {name: getattr(model, name) for name in names}
    before = np.mean([loss for loss, _ in losses(data)])
    fit(data, [], names)
    for name in names:
        left, was = (abs(np.log(x / wanted[name])) for x in (getattr(model, name), told[name]))
        assert left < 0.5 * was, name  # a change counts, too, so it stops a little short
    assert np.mean([loss for loss, _ in losses(data)]) < before


def test_what_is_held_stays(constants):
    kept = held(10)
    before = [model.times(configs, shape) for shape, configs, _ in kept]
    strange = [(shape, configs, times[::-1].copy()) for shape, configs, times in held(3)]
    fit(strange, kept * 10, ["REQUEST", "LATENCY"], steps=3)
    for (shape, configs, _), was in zip(kept, before, strict=True):
        assert np.abs(np.log(model.times(configs, shape) / was)).mean() < 0.03
