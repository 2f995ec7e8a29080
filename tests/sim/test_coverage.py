"""Everything that nvdsl can emit has a semantics: each public name has an example, which is decoded and run."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import nvdsl.ops
from nvdsl import sim
from nvdsl.ir.walk import walk
from nvdsl.mlir import ir
from nvdsl.ops import ptx
from nvdsl.ops.warp import Dim3
from nvdsl.sim import options
from tests.exhaustive import exhaustive
from tests.sim.examples import EXAMPLES, arena
from tests.sim.simulate import traced, zeros

LAYERS = {
    **{name: f"values.{name}" for name in (
        "arith", "bits", "bounds", "casts", "math", "operators", "select", "vector",
    )},  # fmt: skip
    **{name: f"lang.{name}" for name in (
        "accumulator", "array", "atomics", "copies", "fragment", "fragment_vector", "matrix", "pipeline", "smem",
        "tile", "tile_stack", "tma", "remote", "matrices", "warp_accumulator", "warp_fragment",
    )},  # fmt: skip
    "traced": "values.traced",
}
MODULES = [f"ops.{found.name}" for found in pkgutil.iter_modules(nvdsl.ops.__path__)] + list(LAYERS)

# Names that emit nothing: facts, types, checks, and what is called by others with all that they emit.
SILENT = {
    "bounds.stated", "traced.stored",
    "ops.mbarrier.check_tx", "ops.mbarrier.i32_type", "ops.pointer.pointer_type", "ops.pointer.require_integer",
    "ops.warp.Dim3.__getitem__", "tile_stack.TileStack.__setitem__",
    "ops.ptx.register_constraint", "ops.smem.smem_space",
    "ops.mma.check_types", "ops.mma.registers",
    "ops.atomics.address_space", "ops.atomics.check_order", "ops.atomics.scope_of",
    "atomics.HasElements.dtype",
    "ops.wgmma.check_types", "ops.wgmma.accumulator_type", "arith.exists", "arith.element", "arith.like",
    "arith.length", "traced.no_number", "traced.Value.dtype", "traced.Value.shape", "operators.Operators.dtype",
    "operators.Operators.shape", "tile.Tile.shape", "tile.Tile.bytes", "tile.Tile.swizzle",
    "tile_stack.TileStack.shape", "tile_stack.TileStack.dtype", "tile_stack.TileStack.bytes",
    "fragment.Fragment.m", "fragment.Fragment.k", "fragment.not_an_operand", "fragment.by_row",
    "fragment_vector.FragmentVector.shape", "matrix.Matrix.shape", "matrix.Matrix.operand", "matrix.Matrix.words",
    "matrix.pack_with",
    "tma.TMA.bytes", "array.Array.shape", "array.Array.strides", "array.Array.ndim", "array.Array.dtype",
    "array.Array.bytes", "array.Array.remember_dtype", "operators.Operators.__setitem__",
    "remote.Remote.shape", "remote.Remote.dtype", "ops.cluster.check_rank",
}  # fmt: skip
_OPERATORS = ("__getitem__", "__setitem__", "__matmul__", "__iadd__")


def public(module):
    """The functions, ids, methods and properties of a module's own, as "module.name"."""
    where = importlib.import_module(f"nvdsl.{LAYERS.get(module, module)}")
    text = inspect.getsource(where)
    for name, found in vars(where).items():
        if name.startswith("_") or (inspect.isclass(found) and issubclass(found, tuple)):
            continue
        if getattr(found, "__module__", None) == where.__name__ and inspect.isclass(found):
            for attribute, value in vars(found).items():
                wanted = attribute in _OPERATORS or not attribute.startswith("_")
                if getattr(value, "__module__", where.__name__) != where.__name__:
                    continue  # another module's function, which has an example there
                if wanted and (inspect.isfunction(value) or isinstance(value, property)):
                    yield f"{module}.{name}.{attribute}"
        elif inspect.isfunction(found) and found.__module__ == where.__name__:
            yield f"{module}.{name}"
        elif isinstance(found, Dim3) and f"\n{name} = " in text:
            yield f"{module}.{name}"


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_example(module):
    missing = [name for name in public(module) if name not in EXAMPLES and name not in SILENT]
    assert not missing, f"write an example in tests/sim/examples/, of {missing}"


def test_no_example_is_of_a_name_that_is_gone():
    known = {name for module in MODULES for name in public(module)}
    assert not {name.partition(" ")[0] for name in EXAMPLES} - known
    assert not SILENT - known


def distinct():
    """One name for each example."""
    return list({id(one.call): name for name, one in EXAMPLES.items()}.values())


def arguments():
    rng = np.random.default_rng(0)
    x, halves = rng.standard_normal(128).astype(np.float32), zeros(128, 64, dtype=np.float16)
    return [x, zeros(128), halves, zeros(1, dtype=np.int32)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=exhaustive if name.endswith(" every form") else ()) for name in distinct()]
)
def test_examples_are_decoded_and_run(name):
    program = traced(arena, *arguments(), call=EXAMPLES[name].call, blocks=1)
    for level in options.LEVELS:
        chosen = sim.Options(level=level)
        program.decoded(chosen)  # an op without semantics raises
        if EXAMPLES[name].runs:
            program.run(chosen)


def test_every_inline_ptx_has_an_example():
    found = set()
    makers = ("ptx.emit", "wgmma.mma_async", "mma.mma_sync", "order.sched_barrier", "atomic_vectors.atomic_vector",
              "st_async.st_async", "warp.named_barrier_any")  # fmt: skip
    for name in (f"ops.{maker}" for maker in makers):
        program = traced(arena, *arguments(), call=EXAMPLES[name].call, blocks=1)
        for op in walk(program.module.operation):
            if "nvdsl.ptx" in op.attributes:
                found.add(ir.StringAttr(op.attributes["nvdsl.ptx"]).value)
    assert found | {"try_wait"} == set(ptx.REGISTRY)  # that one is the lowering's
