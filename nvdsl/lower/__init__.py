"""Lowering: a traced module becomes a host body and a cubin for each kernel.

    traced module -> passes.HOST -> host body
                                 -> passes.DEVICE -> LLVM's NVPTX backend -> ptxas -> cubin

`passes` lists the passes, in order, as data. `Options` says what can be asked for, dumps included.
"""

from nvdsl.lower.compiler import lower
from nvdsl.lower.options import Options
from nvdsl.lower.passes import NAMES as PASS_NAMES
from nvdsl.lower.result import KernelBinary, Lowered, Resources

__all__ = ["PASS_NAMES", "KernelBinary", "Lowered", "Options", "Resources", "lower"]
