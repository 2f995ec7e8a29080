"""The table that comes with nvdsl: exceptions to the model of `choose`, each legal, compiled cleanly, and found."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

import nvdsl as nv
from benchmarks.problems import SETS, problems
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import tensor_core
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.dispatch import find
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from nvdsl.kernels.gemm.tuned import shape_class, tuned_matmul
from nvdsl.tune import device, table
from nvdsl.values import dtypes
from tests.exhaustive import sample

SHIPPED = json.loads(table.find("matmul").read_bytes())["entries"]
DTYPES = {dtype.name: dtype for dtype in dtypes.ALL}
GPU = {"name": "NVIDIA H200", "capability": "9.0"}


def entry(m, n, k, on_grid=1, **fields):
    """An entry for products of f16 as `nvdsl.tune.table` describes it."""
    arguments = {"a": "f16 row", "b": "f16 row", "out": "f16 row", "acc_dtype": "f32", "epilogue_op": "None"}
    arguments |= {"a_major": "'k'", "b_major": "'mn'"}
    arguments |= {"direct_store": "'either'", "sms": "132"}
    config = {"config": nv.tune.Config({"config": Config(**fields)}).plain()["config"]}
    return {"gpu": GPU, "arguments": arguments, "shapes": [1, m, n, k, on_grid, 1], "config": config, "measured": {}}


EXCEPTION = entry(1152, 640, 2048, tile_m=64, tile_n=64, stages=6, consumers=1)
"""One that could be shipped: the model chooses another tile there."""


def config_of(entry):
    return Config(**entry["config"]["config"]["fields"])


def call_of(entry):
    """The arrays and constants with which `nvdsl.matmul` calls `tuned_matmul` for the product of an entry."""
    said = entry["arguments"]
    _, m, n, k, on_grid, _ = entry["shapes"]
    n -= 0 if on_grid else 8  # others of the same class
    types = {name: DTYPES[said[name].split()[0]] for name in ("a", "b", "out")}
    given = {
        "a": Matrix(types["a"], (m, k), (k, 1) if said["a_major"] == "'k'" else (1, m)),
        "b": Matrix(types["b"], (k, n), (n, 1) if said["b_major"] == "'mn'" else (1, k)),
    }
    scaled = "scale" in said["epilogue_op"]
    if scaled:
        given |= {"scale_a": Matrix(nv.f32, (m, 1), (1, 1)), "scale_b": Matrix(nv.f32, (1, n), (n, 1))}
    problem = GemmProblem.of(given, DTYPES[said["acc_dtype"]], types["out"])
    road = find(problem, LinearCombination(scale_a=scaled, scale_b=scaled), None, "sim")
    specs = [slot.spec for _, slot in road.slots]
    return [nv.ShapeDtype(spec.shape, spec.dtype, spec.strides) for spec in specs], road.options


def types_of(entry):
    said = entry["arguments"]
    return [DTYPES[said[name].split()[0]] for name in ("a", "out", "acc_dtype")]


def chosen(entry):
    """The model's choice for the product that an entry is for."""
    arrays, constants = call_of(entry)
    names = ("acc_dtype", "a_major", "b_major", "epilogue_op", "sms", "direct_store")
    given = {name: constants.get(name) for name in names}
    return tuned_matmul._settings.heuristic(a=arrays[0], b=arrays[1], out=arrays[2], **given)["config"]


def benchmarked():
    """The shape classes of all products that the benchmarks run."""
    found = set()
    for product in [one for name in SETS for one in problems(name)]:
        out = nv.ShapeDtype((product.m, product.n), nv.f32 if product.out == "tf32" else DTYPES[product.out])
        found.add(tuple(shape_class(nv.ShapeDtype((product.m, product.k), nv.f16), out, "k")))
    return found


def faults(entry):
    """What makes an entry no exception that may be shipped."""
    config, model = config_of(entry), chosen(entry)
    found = list(config.problems(*types_of(entry)))
    alike = ("tile_m", "tile_n", "schedule", "consumers", "cluster_m", "cluster_n", "split")
    if all(getattr(config, name) == getattr(model, name) for name in alike):
        found.append("it repeats the model's choice")
    if tuple(entry["shapes"]) in benchmarked():
        found.append("a shape that the benchmarks run")
    return found


def test_each_shipped_entry_is_a_legal_exception():
    assert {str(entry["shapes"]): faults(entry) for entry in SHIPPED if faults(entry)} == {}


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (entry(1152, 640, 2048, stages=9), "bytes of shared memory"),
        (entry(4096, 4096, 4096, tile_m=64, tile_n=64, consumers=1), "a shape that the benchmarks run"),
        (entry(8576, 8576, 8192, **asdict(chosen(entry(8576, 8576, 8192)))), "it repeats the model's choice"),
    ],
    ids=["illegal", "benchmark", "repeats"],
)
def test_what_may_not_be_shipped_is_told(entry, fault):
    assert any(fault in found for found in faults(entry)), (faults(entry), chosen(entry))


def test_an_exception_may_be_shipped():
    assert faults(EXCEPTION) == []


@pytest.fixture
def shipped(monkeypatch, tmp_path):
    """A table with one exception, on its GPU, with nothing in the user's cache."""
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NVDSL_TUNE", raising=False)
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(device, "identity", lambda call: GPU)
    monkeypatch.setattr(table, "FOLDER", tmp_path)
    about = {"format": 1, "kernel": tuned_matmul.kernel, "entries": [EXCEPTION]}
    (tmp_path / "matmul.json").write_text(json.dumps(about))
    tuned_matmul._chosen.clear()
    yield
    tuned_matmul._chosen.clear()


def test_a_product_finds_its_exception(shipped):
    """A renamed argument, another shape class or a lost field of `Config` would leave the table unread."""
    arrays, constants = call_of(EXCEPTION)
    source, found = tuned_matmul.choice(*arrays, **constants)
    assert (source, found["config"]) == ("table", config_of(EXCEPTION))


def test_another_product_does_not(shipped):
    arrays, constants = call_of(entry(1152, 640, 8192))
    assert tuned_matmul.choice(*arrays, **constants)[0] == "heuristic"


def test_the_shipped_table_is_of_this_kernel():
    assert json.loads(table.find("matmul").read_bytes())["kernel"] == tuned_matmul.kernel


@pytest.mark.parametrize("entry", sample([*SHIPPED, EXCEPTION], 5), ids=lambda entry: str(entry["shapes"]))
def test_no_entry_spills_touches_local_memory_or_is_serialized(entry):
    arrays, constants = call_of(entry)
    compiled = nv.jit(tensor_core.matmul, strict=True).compile(*arrays, **constants, config=config_of(entry))
    for kernel in compiled.kernels.values():
        used = kernel.resources
        assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
