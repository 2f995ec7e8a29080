"""Search spaces as data: configurations, and the conditions under which they make sense.

    nv.Space(tile=[(128, 128, 64), (128, 256, 64)], stages=[3, 4, 5])      every combination
    nv.Space({"tile": (64, 64, 64), "stages": 2}, {"tile": (256, 128, 64), "stages": 3})      these
    one + other                                                            both
    space.where(lambda tile, a: a.shape[0] % tile[0] == 0, "the tile divides M")
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from nvdsl.errors import ArgumentError, NvdslError, frames
from nvdsl.errors.records import dataclass
from nvdsl.trace.tokens import token
from nvdsl.tune import names
from nvdsl.values import dtypes

_DTYPES = {dtype.name: dtype for dtype in dtypes.ALL}


class Config(Mapping[str, Any]):
    """One value for each tuned parameter. Hashable; ``config["stages"]``; prints as ``stages=4, tile=(128, 64)``."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: _value(name, values[name]) for name in sorted(values)}
        self._key = tuple((n, token(v)) for n, v in self._values.items())

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return ", ".join(f"{name}={_text(value)}" for name, value in self._values.items())

    def plain(self) -> dict[str, Any]:
        """As JSON holds it: lists for tuples, ``{"dtype": "f16"}`` for dtypes, ``{"fields": {...}}`` for dataclasses.
        `Space.revive` is the way back."""
        return {name: _plain(value) for name, value in self._values.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_value(name, v) for v in value)
    if value is None or isinstance(value, bool | int | float | str | dtypes.DType):
        return value
    if is_dataclass(value) and not isinstance(value, type) and value.__hash__ is not None:
        for field in fields(value):
            _value(f"{name}.{field.name}", getattr(value, field.name))
        return value
    raise _wrong(
        f"the tuned parameter {name} is {value!r} (a {type(value).__name__})",
        rule="configurations are kept as JSON, and are compile-time constants",
        fix="use ints, floats, bools, strings, None, dtypes, and tuples and frozen dataclasses of them",
    )


def _check_axes(axes: Mapping[str, Any]) -> None:
    for name, values in axes.items():
        if isinstance(values, str) or not (isinstance(values, Iterable) or callable(values)):
            raise _wrong(
                f"the axis {name} of a Space is {values!r}",
                rule="an axis is a list of the values to try, or a function that returns one",
                fix=f"Space({name}=[{values!r}])",
            )


def _wrong(message: str, **more: Any) -> ArgumentError:
    return ArgumentError(message, where=frames.caller(), **more)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if is_dataclass(value) and not isinstance(value, dtypes.DType):
        return {"fields": {field.name: _plain(getattr(value, field.name)) for field in fields(value)}}
    return {"dtype": value.name} if isinstance(value, dtypes.DType) else value


def _revived(plain: Any, like: Any) -> Any:
    """The value that `_plain` made ``plain`` of; ``like``: one of the same dataclass."""
    if isinstance(plain, list):
        return tuple(_revived(v, like) for v in plain)
    if isinstance(plain, dict) and "fields" in plain:
        return type(like)(**{n: _revived(v, getattr(like, n)) for n, v in plain["fields"].items()})
    return _DTYPES[plain["dtype"]] if isinstance(plain, dict) else plain


def _text(value: Any) -> str:
    return value.name if isinstance(value, dtypes.DType) else repr(value)


@dataclass(frozen=True)
class Condition:
    """``predicate`` is called with what its parameters name; where it is false, ``reason`` says what is wrong."""

    predicate: Callable[..., bool]
    reason: str


@dataclass(frozen=True)
class _Part:
    """Configurations of the same ``parameters``, which ``listed`` returns."""

    parameters: tuple[str, ...]
    listed: Callable[[], tuple[Config, ...]]
    conditions: tuple[Condition, ...] = ()

    @property
    def configs(self) -> tuple[Config, ...]:
        return self.listed()


def _part(axes: Mapping[str, Any]) -> _Part:
    """Every combination. Where an axis is a function, they are listed when they are first asked for."""

    @functools.cache
    def listed() -> tuple[Config, ...]:
        values = [each() if callable(each) else each for each in axes.values()]
        made = [Config(dict(zip(axes, chosen, strict=True))) for chosen in itertools.product(*values)]
        if not made:
            raise _empty()
        return tuple(dict.fromkeys(made))

    if not any(map(callable, axes.values())):
        listed()
    return _Part(tuple(sorted(axes)), listed)


def _check_alike(parameters: Iterable[tuple[str, ...]]) -> None:
    first, *others = parameters
    for other in others:
        if other != first:
            raise _wrong(
                f"one configuration has {', '.join(first)}, another {', '.join(other)}",
                rule="all configurations of a Space set the same parameters",
            )


def _empty() -> ArgumentError:
    return _wrong("a Space without a configuration", fix="give each axis at least one value")


class Space:
    """Configurations to choose from. A space is immutable; `where` and ``+`` make new ones.

    ``Space(tile=[...], stages=[...])`` has every combination, ``Space({...}, {...})`` has just these. The values of an
    axis may also be a function that returns them: it is called when the configurations are first looked at, which calls
    of a function that was not tuned don't do. Raises ArgumentError for values that JSON can't hold, for an empty space,
    and for configurations of different parameters.
    """

    def __init__(self, *configs: Mapping[str, Any], **axes: Sequence[Any] | Callable[[], Sequence[Any]]) -> None:
        if configs and axes:
            raise _wrong("a Space of configurations and axes", fix="add two spaces: Space(...) + Space(...)")
        if axes:
            _check_axes(axes)
            self._set((_part(axes),))
            return
        made = tuple(dict.fromkeys(map(Config, configs)))
        if not made:
            raise _empty()
        _check_alike(tuple(config) for config in made)
        self._set((_Part(tuple(made[0]), lambda: made),))

    def _set(self, parts: tuple[_Part, ...]) -> None:
        _check_alike(part.parameters for part in parts)
        self._parts, self.parameters = parts, parts[0].parameters

    @classmethod
    def of(cls, space: SpaceLike) -> Space:
        """A Space from what `autotune` takes: a Space, a list of dicts, or a dict of lists."""
        if isinstance(space, Space):
            return space
        if isinstance(space, Mapping):
            return cls(**space)
        configs = list(space) if isinstance(space, Iterable) and not isinstance(space, str) else [space]
        if not all(isinstance(config, Mapping) for config in configs):
            raise _wrong(
                f"{space!r} as a space",
                rule="a space is a Space, a list of dicts, or a dict of lists",
                fix="@nv.autotune(nv.Space(stages=[2, 3, 4])) above @nv.jit",
            )
        return cls(*configs)

    def where(self, predicate: Callable[..., bool], reason: str) -> Space:
        """The space of those configurations for which ``predicate`` is true.

        Its parameters name tuned parameters and arguments of the function (``a.shape``, ``a.dtype``, ``a.strides``;
        constants are themselves). ``reason``: what holds of those that stay, for the report.
        """
        condition = Condition(predicate, reason)
        made = object.__new__(Space)
        made._set(tuple(replace(part, conditions=(*part.conditions, condition)) for part in self._parts))
        return made

    def __add__(self, other: Any) -> Space:
        made = object.__new__(Space)
        made._set(self._parts + Space.of(other)._parts)
        return made

    def __len__(self) -> int:
        return len(self.configs())

    def __contains__(self, config: object) -> bool:
        return any(config in part.configs for part in self._parts)

    def configs(self) -> list[Config]:
        """All configurations, whatever the conditions say."""
        return list(dict.fromkeys(config for part in self._parts for config in part.configs))

    def sift(self, arguments: Mapping[str, Any]) -> Iterator[tuple[Config, str | None]]:
        """Each configuration, with the first condition that it breaks for a function's ``arguments``, or None."""
        found: dict[Config, str | None] = {}
        for part in self._parts:
            for config in part.configs:
                if config in found and found[config] is None:
                    continue
                found[config] = _broken(part.conditions, {**arguments, **config})
        yield from found.items()

    def revive(self, plain: Mapping[str, Any]) -> Config | None:
        """The configuration that `Config.plain` was made of; None where it is none of these parameters."""
        like = self._parts[0].configs[0]
        try:
            made = Config({name: _revived(plain[name], like[name]) for name in self.parameters})
        except (KeyError, TypeError, ValueError, AttributeError, NvdslError):
            return None
        return made if set(plain) == set(self.parameters) else None

    def fingerprint(self) -> str:
        """A hash of the configurations and the conditions."""
        said = [
            ([c.plain() for c in p.configs], [(c.reason, names.fingerprint(c.predicate)) for c in p.conditions])
            for p in self._parts
        ]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def _broken(conditions: Sequence[Condition], known: Mapping[str, Any]) -> str | None:
    for condition in conditions:
        if not names.call(condition.predicate, known, f"the condition {condition.reason!r} of a Space"):
            return f"breaks: {condition.reason}"
    return None


SpaceLike = Space | Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]]
"""What is taken for a space: a `Space`, a dict of lists, or dicts with one value for each parameter."""
