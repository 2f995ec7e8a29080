"""What tests of kernels need: input, references, tolerances, and a child process with a deadline.

NumPy and ml_dtypes only. A dtype is named as everywhere (``nv.f16``), by its name (``"f16"``) or by its
NumPy dtype; ``tf32`` has no NumPy dtype and lies in float32 arrays.
"""

from nvdsl.testing.child import ChildFailed, ChildResult, ChildTimeout, in_child, run_in_child
from nvdsl.testing.compare import assert_close, tolerance
from nvdsl.testing.device import missing_hopper, requires_hopper
from nvdsl.testing.reference import matmul, random, rounded

__all__ = [
    "ChildFailed",
    "ChildResult",
    "ChildTimeout",
    "assert_close",
    "in_child",
    "matmul",
    "missing_hopper",
    "random",
    "requires_hopper",
    "rounded",
    "run_in_child",
    "tolerance",
]
