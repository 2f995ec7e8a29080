"""Lowering: a traced module becomes a host body and a cubin for each kernel.

    traced module -> passes.HOST -> host body
                                 -> passes.DEVICE -> LLVM's NVPTX backend -> ptxas -> cubin

`compiler.lower` does it. `passes` lists the passes, in order, as data; `options.Options` says what can be asked for,
dumps included.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvdsl.lower.compiler import lower as lower
    from nvdsl.lower.options import Options as Options


def __getattr__(name: str) -> Any:
    """``nvdsl.lower.lower`` and ``Options``: imported where they are first used: that takes time."""
    if name == "lower":
        from nvdsl.lower.compiler import lower

        return lower
    if name == "Options":
        from nvdsl.lower.options import Options

        return Options
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
