"""Whether a program is being traced."""

from nvdsl.mlir import ir


def is_tracing() -> bool:
    """Is there a place to put an op?"""
    try:
        return ir.InsertionPoint.current is not None
    except ValueError:
        return False
