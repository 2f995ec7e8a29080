"""Settings that are on or off, as the environment says. What is neither is an error: a setting that somebody made and
nobody follows is the worst of both."""

from __future__ import annotations

import os

from nvdsl.errors import ArgumentError

_ON, _OFF = ("1", "on", "yes", "true"), ("0", "off", "no", "false")


def is_on(name: str, default: bool = False) -> bool:
    """Whether the environment variable ``name`` is on; ``default`` where it is unset or empty. Raises ArgumentError for
    a value that is neither on nor off."""
    text = os.environ.get(name, "")
    if not text:
        return default
    if text.lower() in _ON:
        return True
    if text.lower() in _OFF:
        return False
    raise ArgumentError(
        f"{name}={text}",
        rule=f"it is on ({', '.join(_ON)}) or off ({', '.join(_OFF)})",
        fix=f"{name}={int(not default)}, or unset it",
    )
