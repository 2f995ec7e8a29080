"""The table that comes with nvdsl: each entry is found by the products that it was measured for, and runs as it was."""

from __future__ import annotations

import json

import pytest

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import tensor_core
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.dispatch import find
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from nvdsl.kernels.gemm.tuned import product
from nvdsl.tune import device, table
from nvdsl.values import dtypes
from tests.exhaustive import sample

ENTRIES = json.loads(table.find("matmul").read_bytes())["entries"]
DTYPES = {dtype.name: dtype for dtype in dtypes.ALL}


def config_of(entry):
    return Config(**entry["config"]["config"]["fields"])


def call_of(entry):
    """The arrays and the constants with which ``matmul`` calls ``product`` for the product that an entry is for."""
    said = entry["arguments"]
    _, m, n, k, on_grid = entry["shapes"]
    n -= 1 if said["pack_b"] == "True" else 0 if on_grid else 8  # others of the same class
    k -= said["pack_a"] == "True"
    types = {name: DTYPES[said[name].split()[0]] for name in ("a", "b", "out")}
    given = {
        "a": Matrix(types["a"], (m, k), (k, 1) if said["a_major"] == "'k'" else (1, m)),
        "b": Matrix(types["b"], (k, n), (n, 1) if said["b_major"] == "'mn'" else (1, k)),
    }
    scaled = "scale" in said["visit"]
    if scaled:
        given |= {"scale_a": Matrix(nv.f32, (m, 1), (1, 1)), "scale_b": Matrix(nv.f32, (1, n), (n, 1))}
    problem = GemmProblem.of(given, DTYPES[said["acc_dtype"]], types["out"])
    road = find(problem, LinearCombination(scale_a=scaled, scale_b=scaled), None, "sim")
    specs = [slot.spec for _, slot in road.slots]
    return [nv.ShapeDtype(spec.shape, spec.dtype, spec.strides) for spec in specs], road.options


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """That of the table, with nothing in the user's cache."""
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NVDSL_TUNE", raising=False)
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(device, "identity", lambda call: ENTRIES[0]["gpu"])


def name(entry):
    return f"{entry['arguments']['a']}-{'x'.join(map(str, entry['shapes'][1:4]))}"


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_a_product_finds_its_entry(gpu, entry):
    """A renamed argument, another shape class or a lost field of `Config` would leave the table unread."""
    arrays, constants = call_of(entry)
    source, chosen = product.choice(*arrays, **constants)
    assert (source, chosen["config"]) == ("table", config_of(entry))


ONCE = list({str((config_of(e), e["arguments"])): e for e in ENTRIES}.values())


@pytest.mark.parametrize("entry", sample(ONCE, 5), ids=name)
def test_no_entry_spills_touches_local_memory_or_is_serialized(entry):
    arrays, constants = call_of(entry)
    compiled = nv.jit(tensor_core.product, strict=True).compile(*arrays, **constants, config=config_of(entry))
    for kernel in compiled.kernels.values():
        used = kernel.resources
        assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
