"""From a call's trace to what runs on the GPU: found on the disk, or compiled and kept there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nvdsl.call import collect, untraced
from nvdsl.call.compiled import Compiled
from nvdsl.errors import NvdslError
from nvdsl.trace import effects, kept

if TYPE_CHECKING:
    from nvdsl.call.module import Traced
    from nvdsl.lower.options import Options
    from nvdsl.mlir import ir


def lower(
    name: str,
    trace: Callable[[], Traced],
    arguments: Callable[[], list[str]],
    options: Options,
    runs: bool,
    found_by: str | None,
) -> Compiled:
    """Compile a call of the function called ``name``. ``arguments``: what messages call its run-time arguments;
    asked after the trace, which names wrong ones.

    ``runs``: it is launched at once. ``found_by``: what it is kept under without a trace (`untraced.key`). Such a
    function is nvdsl's own, with constants of nvdsl's own: it is verified while ptxas runs."""
    from nvdsl.lower import compiler

    found = untraced.load(found_by, options) if found_by else None
    if found is not None:
        return Compiled(name, lambda: trace().verified(), *found, arguments(), found.lowered.stages)
    text: str | None = None

    def meanwhile(host: ir.Module) -> None:
        """What a launch will need, while ptxas runs."""
        nonlocal text
        if runs:
            import nvdsl.driver.executable  # noqa: F401
        if found_by:
            text = compiler.host_text(host)
            traced.verified()
        kept.write()

    start = time.perf_counter()
    traced = trace()
    module = traced.module if found_by else traced.verified()
    seconds = {"trace": time.perf_counter() - start}
    try:
        lowered = compiler.lower(module, options, meanwhile)
    except NvdslError:
        traced.verified()  # says more of what can't be lowered
        raise
    traced.verified()  # what was compiled before, too
    kept.write()
    written = effects.written_arguments(module.body.operations[0])
    if found_by and lowered.found_by:
        untraced.save(found_by, untraced.Found(lowered, written), text)
    compiled = Compiled(name, lambda: module, lowered, written, arguments(), seconds | lowered.stages)
    collect.add(compiled)
    return compiled
