"""What a function of layouts says where it is given something else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from nvdsl.errors import LayoutError, layout_error
from nvdsl.layout.core import Layout

P = ParamSpec("P")
R = TypeVar("R")


def takes_layouts(function: Callable[P, R]) -> Callable[P, R]:
    """Errors of ``function`` that come from an argument that is no layout, where its annotation says `Layout`, name
    that argument. Whether there is one is asked when something has failed: a call costs no more."""
    names = [name for name in function.__annotations__ if name != "return"]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except LayoutError:
            raise
        except (AttributeError, TypeError, ValueError):
            given = {**dict(zip([*names, *names[-1:] * len(args)], args, strict=False)), **kwargs}
            for name, x in given.items():
                if function.__annotations__.get(name) == "Layout" and not isinstance(x, Layout):
                    raise layout_error(
                        f"{function.__name__}() of {x!r}", rule=f"{name} is a layout: shape : stride",
                        fix="nv.layout.Layout(shape, stride), row_major(m, n), or parse(text)",
                    ) from None  # fmt: skip
            raise

    return checked
