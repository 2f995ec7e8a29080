"""The simulator gives what an H200 gave: kernels drawn by Hypothesis, run on the device, and recorded.

`tests/differential/` draws them and compares; `python -m tests.differential` records more. Numbers agree bit for bit, a
tensor core's sums too; only the functions that the hardware approximates have bounds (`elementwise.py`).
"""

import collections

import pytest

from tests.differential import corpus
from tests.differential.case import KINDS, from_json
from tests.exhaustive import sample

CHUNKS = 8
ENTRIES = {kind: corpus.read(corpus.FOLDER / f"{kind}.jsonl") for kind in KINDS}


@pytest.fixture(autouse=True)
def exact_sums(monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_EXACT", "1")


@pytest.mark.parametrize("chunk", sample(range(CHUNKS), 2))
@pytest.mark.parametrize("kind", ENTRIES)
def test_as_on_an_h200(kind, chunk):
    bad = {}
    for entry in ENTRIES[kind][chunk::CHUNKS]:
        found = corpus.disagreements(entry)
        if found:
            bad[str(entry.case)] = found
    assert not bad


@pytest.mark.parametrize("kind", ["product", "copy", "program"])
def test_as_on_an_h200_after_convert_nvgpu_to_nvvm(kind, monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_LEVEL", "nvvm")
    assert not [found for entry in ENTRIES[kind][::12] if (found := corpus.disagreements(entry))]


def test_a_wrong_bit_is_a_disagreement():
    """Of each kind one recorded array is changed in one bit."""
    for kind, entries in ENTRIES.items():
        entry = next(e for e in entries if any("sums" in a for a in e.arrays.values()))
        name = next(n for n, a in entry.arrays.items() if "sums" in a)
        words = corpus.words(entry.arrays[name]["sums"]).copy()
        words[-1] ^= 1
        changed = {**entry.arrays, name: {"sums": corpus.text(words)}}
        assert corpus.disagreements(corpus.Entry(entry.case, changed)), kind


def test_every_kind_and_every_operand_is_recorded():
    assert all(len(entries) >= 10 for entries in ENTRIES.values())
    products = [entry.case for entry in ENTRIES["product"]]
    assert {(c.a_type, c.b_type, c.sums) for c in products} >= {
        ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("f32", "f32", "f32"), ("e4m3", "e5m2", "f32"),
        ("i8", "u8", "i32"),
    }  # fmt: skip
    assert {c.a_from for c in products} == {"k", "mn", "registers"} and {c.b_major for c in products} == {"k", "mn"}
    assert {c.a_swizzle for c in products} == {16, 32, 64, 128}
    assert collections.Counter(c.signs for c in products)[-1, 1] > 0
    copies = [entry.case for entry in ENTRIES["copy"]]
    assert {c.swizzle for c in copies} == {0, 32, 64, 128} and {len(c.shape) for c in copies} == {1, 2, 3, 4}
    assert any(c.columns < c.shape[-1] for c in copies) and any(c.fill == "nan" for c in copies)


def test_a_case_survives_json():
    for entries in ENTRIES.values():
        case = entries[0].case
        assert from_json(case.to_json()) == case
