"""Autotuning: which values of a kernel's compile-time parameters are fast, found by trying them.

    space       search spaces as data
    model       what a traced kernel asks of an SM: prunes before compiling
    compiling   many candidates at once, in processes
    bench       checking and timing candidates in a process that may hang or crash
    search      successive halving over interleaved timings
    tuner       one tuning from space to winner
    store       results on disk;  table: results that come with a package
    autotune    the decorator
"""

from nvdsl.tune.autotune import Autotuned, autotune
from nvdsl.tune.result import Tuning
from nvdsl.tune.space import Config, Space

__all__ = ["Autotuned", "Config", "Space", "Tuning", "autotune"]
