"""Requirements that a host function states about its arguments, with errors a caller can act on."""

from __future__ import annotations

from nvdsl.errors import ArgumentError
from nvdsl.errors.frames import caller


def require(condition: bool, message: str, *, rule: str = "", fix: str = "") -> None:
    """Raise ArgumentError with the line of the call unless ``condition`` (a plain Python bool) holds.

    In ``nvdsl/kernels`` that is the line of who calls the kernel.
    """
    if not condition:
        raise ArgumentError(message, where=caller(kernels=False), rule=rule, fix=fix)


def require_multiples(**extents: tuple[int, int]) -> None:
    """``require_multiples(M=(M, 128), N=(N, 128))``: each extent is a positive multiple of its tile's.

    Raises ArgumentError with the line of the call, naming every extent that is not.
    """
    wrong = [
        f"{name} = {extent} is not a multiple of {tile}"
        for name, (extent, tile) in extents.items()
        if extent <= 0 or extent % tile
    ]
    padded = ", ".join(f"{n} = {max(-(-e // t), 1) * t}" for n, (e, t) in extents.items())
    require(
        not wrong,
        "; ".join(wrong),
        rule="this kernel works on whole tiles",
        fix=f"pad the arrays to {padded}, or choose tiles that divide them",
    )
