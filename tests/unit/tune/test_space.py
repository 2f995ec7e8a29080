"""Search spaces: combinations, conditions called by name, and the way to JSON and back."""

import dataclasses
import json

import pytest

import nvdsl as nv
from nvdsl.tune.space import Config, Space


@dataclasses.dataclass(frozen=True)
class Shape:
    tile: tuple[int, int] = (64, 64)
    acc: nv.DType = nv.f32


def test_axes_are_multiplied_and_configurations_taken_as_they_are():
    product = Space(a=[1, 2], b=["x", "y"])
    assert [dict(c) for c in product.configs()] == [{"a": a, "b": b} for a in (1, 2) for b in "xy"]
    listed = Space.of([{"a": 1, "b": "x"}, {"b": "z", "a": 3}])
    assert len(product + listed) == 5  # one is in both
    assert Space.of({"a": [1], "b": ["x"]}).configs() == [Config({"a": 1, "b": "x"})]


def test_an_axis_that_is_a_function_is_listed_once_when_it_is_looked_at():
    calls = []
    space = Space(a=[1, 2], b=lambda: calls.append(1) or "xy").where(lambda a: a > 1, "a is large")
    assert space.parameters == ("a", "b") and not calls
    assert [dict(c) for c in space.configs()] == [{"a": a, "b": b} for a in (1, 2) for b in "xy"]
    assert [c["a"] for c, broken in space.sift({}) if broken is None] == [2, 2] and calls == [1]
    for wrong in (None, 3, "block", [32], lambda: 0):
        with pytest.raises(nv.ArgumentError, match="as a space"):
            nv.autotune(wrong)
    with pytest.raises(nv.ArgumentError, match="a Space without a configuration"):
        Space(a=list).configs()


def test_configurations_are_equal_by_value_and_type():
    assert Config({"a": 1, "b": 2}) == Config({"b": 2, "a": 1})
    assert len({Config({"a": 1}), Config({"a": True}), Config({"a": 1.0})}) == 3


@pytest.mark.parametrize("make", [
    lambda: Space(a=[]), lambda: Space(), lambda: Space({"a": 1}, {"b": 1}), lambda: Space({"a": 1}, a=[2]),
    lambda: Space(a=[object()]), lambda: Space(a=[{"k": 1}]), lambda: Space(a=3), lambda: Space(a="xy"),
])  # fmt: skip
def test_a_space_that_makes_no_sense_is_refused_at_its_line(make):
    with pytest.raises(nv.ArgumentError) as caught:
        make()
    assert caught.value.where is not None and caught.value.where.file == __file__


def test_conditions_name_parameters_and_arguments():
    space = Space(tile=[64, 128, 256], stages=[2]).where(lambda tile, a: a.shape[0] % tile == 0, "tile divides M")
    space = space.where(lambda **every: every["tile"] * every["stages"] < 500, "small")
    found = {c["tile"]: why for c, why in space.sift({"a": nv.ShapeDtype((128, 8), nv.f16)})}
    assert found == {64: None, 128: None, 256: "breaks: tile divides M"}
    found = {c["tile"]: why for c, why in space.sift({"a": nv.ShapeDtype((256, 8), nv.f16)})}
    assert found == {64: None, 128: None, 256: "breaks: small"}


def test_conditions_belong_to_their_part():
    odd = Space(n=[1, 2, 3]).where(lambda n: n % 2, "odd")
    both = odd + Space(n=[2])
    assert {c["n"]: why for c, why in both.sift({})} == {1: None, 2: None, 3: None}


def test_a_condition_that_asks_for_what_is_not_there_names_its_line():
    condition = lambda tile, c: tile < c  # noqa: E731
    with pytest.raises(nv.ArgumentError, match="asks for 'c'") as caught:
        list(Space(tile=[1]).where(condition, "r").sift({"a": 1}))
    assert caught.value.where.line == condition.__code__.co_firstlineno
    assert "tile" in caught.value.fix and "a" in caught.value.fix


def test_json_and_back():
    space = Space(tile=[(128, 64)], dtype=[nv.bf16], config=[Shape(), Shape((1, 2))], flag=[None], x=[0.5])
    for config in space.configs():
        assert space.revive(json.loads(json.dumps(config.plain()))) == config


@pytest.mark.parametrize("plain", [
    {}, {"a": 1, "b": 2}, {"a": {"dtype": "f99"}}, {"a": {"fields": {"no": 1}}}, {"a": {"x": 1}},
])  # fmt: skip
def test_what_is_no_configuration_is_not_revived(plain):
    assert Space(a=[1]).revive(plain) is None


def test_the_fingerprint_follows_values_reasons_and_predicates():
    def space(values=(1, 2), reason="r", limit=2):
        return Space(a=list(values)).where(lambda a: a < limit, reason)

    same = space().fingerprint()
    assert space().fingerprint() == same
    assert len({same, space((1, 3)).fingerprint(), space(reason="s").fingerprint(), space(limit=3).fingerprint()}) == 4
