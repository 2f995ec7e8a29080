"""Clocks, for kernels that measure themselves.

PTX ISA, "Special Registers" (``%clock64``, ``%globaltimer``). Neither MLIR nor LLVM merges two reads, takes one out of
a loop, or moves it across a barrier, a wait, a store or a wgmma. Arithmetic on registers may cross a read: what is to
be timed ends with one of these.
"""

from __future__ import annotations

from nvdsl.mlir.dialects import nvvm
from nvdsl.values import scope
from nvdsl.values.traced import Value


def clock() -> Value:
    """The clocks of this SM, i64 (``%clock64``). Only differences between reads on the same SM have a meaning.

    The clock's rate changes with power and heat: the difference over that of `globaltimer` is what it was, in GHz. In
    the simulator, any clock reads one more each time.
    """
    scope.current("clock")
    return nvvm.read_ptx_sreg_clock64()


def globaltimer() -> Value:
    """The nanoseconds of a timer that all SMs share, i64 (``%globaltimer``). An H200's advances in steps of 32 ns."""
    scope.current("globaltimer")
    return nvvm.read_ptx_sreg_globaltimer()
