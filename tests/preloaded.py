"""What the programs of tests import sooner or later, and MLIR's context: tests/interpreter.py makes it once for all."""

import cuda.bindings.driver  # noqa: F401
import numpy.ma
import numpy.random
import numpy.testing  # noqa: F401

import nvdsl.driver.executable
import nvdsl.driver.run
import nvdsl.kernels
import nvdsl.lower.compiler
import nvdsl.schedule
import nvdsl.sim.build
import nvdsl.tune.tuner
import nvdsl.verify.checks  # noqa: F401
from nvdsl.call.module import context

context()
