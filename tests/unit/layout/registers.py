"""The PTX ISA's pictures of registers (wgmma, register fragments) as reshapes of NumPy arrays: not by layouts."""

import numpy as np

from nvdsl.sim import numbers
from nvdsl.sim.matrix import widen

# A thread's register holds elements of row `warp * 16 + half * 8 + group` and column
# `block * (4 * per) + quad * per + element`: thread = warp * 32 + group * 4 + quad, half and block from the register.


def accumulator_to_matrix(registers, n, dtype):
    """``[64, n]`` from an accumulator's registers ``[n/2, 128]``, or ``[n/4, 128]`` for f16 (packed in pairs)."""
    element = numbers.dtype(dtype)
    if element.name == "f16":
        parts = np.ascontiguousarray(registers).view(np.float16).reshape(n // 8, 2, 4, 8, 4, 2)
        return parts.transpose(2, 1, 3, 0, 4, 5).reshape(64, n)
    parts = registers.view(element.numpy).reshape(n // 8, 2, 2, 4, 8, 4)
    return parts.transpose(3, 1, 4, 0, 5, 2).reshape(64, n)


def a_fragment_to_matrix(registers, dtype):
    """``[64, k]``, as `widen` gives it, from the four registers ``[4, 128]`` of an A operand, k = 32 bytes."""
    element = numbers.dtype(dtype)
    per = 4 // element.bytes
    parts = np.ascontiguousarray(registers).view(element.numpy).reshape(2, 2, 4, 8, 4, per)
    return widen(parts.transpose(2, 1, 3, 0, 4, 5).reshape(64, 8 * per), element)
