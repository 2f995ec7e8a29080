"""The store of repeated calls."""

from __future__ import annotations

import pytest

from nvdsl.call import collect, launches, signature
from nvdsl.call.launches import Launch, Launches
from nvdsl.trace.dependencies import always, never


@pytest.fixture
def kept():
    """A store that knows what ``f(1)`` launches; what was launched."""
    store, done = Launches(), []
    store.keep((1,), "rest", Launch(lambda *given: done.append(given), always))
    return store, done


def test_a_call_like_one_before_launches_with_its_own_values(kept):
    store, done = kept
    assert store.launch((7,), "rest", "stream") is True
    assert store.launch((8,), "rest", None, numbers=(2.0, 3.0)) is True
    assert done == [((7,), "stream"), ((8, 2.0, 3.0), None)]


def test_what_has_no_hash_is_not_kept(kept):
    store, _ = kept
    store.keep((1,), [], Launch(lambda *given: None, always))
    assert len(store) == 1


@pytest.mark.parametrize("other", [((1.0,), "rest"), ((1, 2), "rest"), ((1,), "other"), ((1,), []), (("x",), "rest")])
def test_another_call_launches_nothing(kept, other):
    store, done = kept
    assert store.launch(*other, None) is None and done == []
    assert store.launch((1,), "rest", None) is True


def test_what_no_longer_holds_is_not_launched(kept):
    store, done = kept
    launch = Launch(lambda *given: done.append(given), never)
    store.keep((1,), "rest", launch)
    assert store.launch((1,), "rest", None) is None and done == []
    launch.holds = always
    assert store.launch((1,), "rest", None) is True


def test_a_call_that_shall_only_compile_launches_nothing(kept):
    store, done = kept
    with collect.compiled():
        assert store.launch((1,), "rest", None) is None
    assert done == []


def test_a_new_array_takes_its_place_among_the_values():
    store, done, made = Launches(), [], [object(), object()]
    make = iter([(made[0], 0x10), (made[1], 0x20)]).__next__
    store.keep((1, None, 2), (), Launch(lambda *given: done.append(given), always, make, place=1))
    assert [store.launch((3, None, 4), (), None) for _ in range(2)] == made
    assert done == [((3, 0x10, 4), None), ((3, 0x20, 4), None)]


def test_the_store_is_bounded(kept, monkeypatch):
    store, _ = kept
    monkeypatch.setattr(launches, "_MOST", 3)
    launch = Launch(lambda *given: None, always)
    for i in range(5):
        store.keep((1,), i, launch)
        assert len(store) <= 3
    assert store.launch((1,), 4, None) is True and store.launch((1,), 0, None) is None
    store.clear()
    assert store.launch((1,), 4, None) is None


def test_a_call_is_found_after_its_look_was_written_again(kept, monkeypatch):
    store, _ = kept
    launch = Launch(lambda *given: None, always)
    assert store.launch((1,), "rest", None) is True
    monkeypatch.setattr(signature, "_looks", {})
    store.keep((1,), "other", launch)
    assert store.launch((1,), "other", None) is True
