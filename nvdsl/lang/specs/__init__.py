"""Specifications: what is done to which data by which threads, and the instruction that does it.

The public form is ``nv.spec`` (docs/thread_tensors.md):

* `threads`: the threads of a block as a layout, which is tiled and reshaped by the algebra of layouts
* `move`, `mma`, `reduce`, `pointwise`: specifications. ``spec()`` emits the instruction that fits, ``spec(using=...)``
  another one, ``spec.explain()`` says which fit and why the others do not, ``spec.tile(shape, groups)`` gives each
  group of threads a part
* `Registers`: what threads hold of a matrix, by the layout (thread, value) -> (row, column)
"""

from nvdsl.lang.part import Part, of
from nvdsl.lang.specs.moves import Move, move
from nvdsl.lang.specs.pointwise import Pointwise, pointwise
from nvdsl.lang.specs.products import Mma, mma
from nvdsl.lang.specs.reductions import Reduction, reduce
from nvdsl.lang.specs.registers import Registers
from nvdsl.lang.specs.spec import Spec
from nvdsl.lang.threads import Threads, threads

__all__ = [
    "Mma", "Move", "Part", "Pointwise", "Reduction", "Registers", "Spec", "Threads", "mma", "move", "of", "pointwise",
    "reduce", "threads",
]  # fmt: skip
