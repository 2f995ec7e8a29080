"""The race: the fastest wins, through noise; who fails is left out."""

import itertools
import random

from nvdsl.tune import search
from nvdsl.tune.bench import Failed


class Track:
    """A bench whose candidates take known times, with a drift that touches all alike and some noise."""

    def __init__(self, times, noise=0.0, fails=(), seed=0):
        self._times, self._noise, self._fails = times, noise, set(fails)
        self._random = random.Random(seed)
        self.launches = 0

    def time(self, numbers, rounds):
        found = {n: [] for n in numbers}
        for _ in range(rounds):
            drift = self._random.uniform(1.0, 1.3)
            for n in numbers:
                self.launches += 1
                if n in self._fails:
                    self._fails.discard(n)
                    raise Failed(n, "hung")
                found[n].append(self._times[n] * drift * (1 + self._noise * self._random.random()))
        return found


def test_the_fastest_wins_with_noise_and_drift():
    wins = 0
    for seed in range(20):
        times = {n: 1.0 + 0.03 * n for n in range(30)}
        order = list(times)
        random.Random(seed).shuffle(order)
        result = search.race(Track(times, noise=0.02, seed=seed), order, until=1.0, clock=lambda: 0.0)
        wins += result.left[0] == 0
        assert len(result.samples[result.left[0]]) == search.FINAL_ROUNDS
    assert wins >= 19


def test_halving_is_quick():
    track = Track({n: 1.0 + 0.5 * n for n in range(64)})
    search.race(track, list(range(64)), until=1.0, clock=lambda: 0.0)
    assert track.launches < 64 * search.FINAL_ROUNDS / 2


def test_when_time_is_over_the_first_rounds_decide():
    track = Track({n: 1.0 + 0.5 * n for n in range(8)})
    result = search.race(track, list(range(8)), until=0.0, clock=lambda: 1.0)
    assert track.launches == 8 * search.FIRST_ROUNDS
    assert result.left == list(range(8))


def test_who_fails_is_left_out_and_the_others_go_on():
    track = Track({n: 1.0 + n for n in range(4)}, fails=(0, 2))
    result = search.race(track, [0, 1, 2, 3], until=1.0, clock=lambda: 0.0)
    assert result.lost == {0: "hung", 2: "hung"}
    assert result.left[0] == 1


def test_nobody_left():
    assert search.race(Track({0: 1.0}, fails=(0,)), [0], until=1.0, clock=lambda: 0.0).left == []


def test_the_budget_is_looked_at_between_the_rounds():
    ticks = itertools.count()
    track = Track(dict.fromkeys(range(4), 1.0))  # all alike: none is ever left out
    search.race(track, list(range(4)), until=2.0, clock=lambda: next(ticks))
    assert track.launches == 4 * (3 + 6 + 12)


def test_scores_are_of_the_same_round():
    """The clock falls to a half in rounds 3 to 5; only in pairs is it seen that 0 is faster."""
    samples = {0: [1.00, 1.00, 2.0, 2.0, 2.0], 1: [1.1, 1.1, 2.2, 2.2, 2.2], 2: [1.2, 1.2]}
    marks = search.scores(samples, [0, 1])
    assert abs(marks[1] / marks[0] - 1.1) < 1e-9
    assert abs(marks[2] / marks[0] - 1.2) < 1e-9


def test_a_slow_spell_does_not_decide():
    class Spell(Track):
        def time(self, numbers, rounds):
            found = super().time(numbers, rounds)
            return {n: [t * (2 if r % 2 else 1) for r, t in enumerate(ts)] for n, ts in found.items()}

    result = search.race(Spell({n: 1.0 + 0.02 * n for n in range(8)}), list(range(8)), 1.0, clock=lambda: 0.0)
    assert result.left[0] == 0
