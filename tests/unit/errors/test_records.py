"""`nvdsl.errors.records.dataclass` beside Python's."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field

import pytest

from nvdsl.errors import records


def _classes(dataclass):
    @dataclass(frozen=True)
    class Frozen:
        """A point."""

        x: int
        y: float = 2.0
        seen: list = field(default_factory=list, compare=False, repr=False)
        hashed: str = field(default="h", hash=False)
        named: bool = field(default=False, kw_only=True)
        fixed: int = field(default=7, init=False)

        def __post_init__(self):
            self.seen.append(self.x)

    @dataclass
    class Plain:
        a: int
        b: tuple = ()

    @dataclass(frozen=True)
    class One:
        a: float

    @dataclass(frozen=True, eq=False, repr=False)
    class Alone:
        a: int

        def __repr__(self):
            return "alone"

    @dataclass(frozen=True)
    class Own:
        a: int

        def __hash__(self):
            return 5

    @dataclass(frozen=True)
    class Below(One):
        b: int = 3

    return Frozen, Plain, One, Alone, Own, Below


PYTHONS, OURS = _classes(dataclasses.dataclass), _classes(records.dataclass)
ARGUMENTS = ((1,), (1, (2,)), (float("nan"),), (4,), (5,), (6.0,))
CASES = list(zip(PYTHONS, OURS, ARGUMENTS, strict=True))


@pytest.mark.parametrize("python, ours, given", CASES, ids=lambda x: repr(x)[:20])
def test_it_is_as_pythons(python, ours, given):
    one, other = python(*given), ours(*given)
    assert repr(other) == repr(one)
    assert str(inspect.signature(ours)) == str(inspect.signature(python))
    assert ours.__match_args__ == python.__match_args__
    assert ours.__dataclass_params__.frozen == python.__dataclass_params__.frozen
    assert dataclasses.asdict(other) == dataclasses.asdict(one)
    assert (ours(*given) == other) == (python(*given) == one)
    assert (other == 1, other != one) == (False, True)
    assert (copy.copy(other) == other) == (copy.copy(one) == one)
    if python.__hash__ is None:
        assert ours.__hash__ is None
    elif python.__hash__ is not object.__hash__:
        assert hash(other) == hash(one)
    changed = dataclasses.replace(one, a=9) if hasattr(one, "a") else dataclasses.replace(one, x=9)
    assert repr(dataclasses.replace(other, **{"a" if hasattr(one, "a") else "x": 9})) == repr(changed)


@pytest.mark.parametrize("python, ours, given", CASES, ids=lambda x: repr(x)[:20])
def test_it_refuses_what_pythons_refuses(python, ours, given):
    name = dataclasses.fields(python)[0].name
    for change in (lambda x: setattr(x, name, 1), lambda x: delattr(x, name), lambda x: setattr(x, "other", 1)):
        results = []
        for made in (python(*given), ours(*given)):
            try:
                change(made)
                results.append(None)
            except dataclasses.FrozenInstanceError as error:
                results.append(str(error))
        assert results[0] == results[1]
    messages = []
    for kind in (python, ours):
        with pytest.raises(TypeError) as error:
            kind()
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_a_subclass_that_is_no_dataclass_has_attributes_of_its_own():
    class Sub(OURS[0]):
        pass

    made = Sub(1)
    made.other = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.x = 2


@records.dataclass(frozen=True)
class Pickled:
    a: int


def test_pickle():
    assert pickle.loads(pickle.dumps(Pickled(3))) == Pickled(3)
