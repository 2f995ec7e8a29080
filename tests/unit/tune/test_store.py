"""Records on disk: whole or thrown away, never trusted, never in the way."""

import json
import multiprocessing
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nvdsl.lower import cache
from nvdsl.tune import store
from nvdsl.tune.store import Record

QUESTION = {"kernel": "module:gemm", "arguments": {"a": "f16 row"}, "shapes": "a 64x64"}
GPU = {"name": "NVIDIA H200", "capability": "9.0"}
VALID = {"nvdsl's version": "1", "the kernel's source": "abc", "the search space": "def"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path))
    return tmp_path


def record(stages=4):
    return Record(QUESTION, GPU, VALID, {"stages": stages, "tile": [128, 64]}, {"ms": 1.25})


def test_what_is_saved_is_loaded():
    assert store.load(QUESTION, GPU, VALID) is None
    assert store.save(record())
    assert store.load(QUESTION, GPU, VALID) == record()
    assert store.every("module:gemm") == [record()]
    assert store.load(QUESTION, {**GPU, "name": "NVIDIA H100"}, VALID) is None
    assert store.load({**QUESTION, "shapes": "a 128x64"}, GPU, VALID) is None


def test_a_person_can_read_it(folder):
    store.save(record())
    (file,) = folder.glob("tune/gemm/NVIDIA-H200-*.json")
    text = json.loads(file.read_text())
    assert text["config"] == {"stages": 4, "tile": [128, 64]}
    assert text["question"] == QUESTION


@pytest.mark.parametrize("what", VALID)
def test_what_is_out_of_date_is_thrown_away_with_the_reason(what):
    store.save(record())
    with pytest.warns(cache.CacheWarning, match=f"out of date: {what} changed"):
        assert store.load(QUESTION, GPU, {**VALID, what: "new"}) is None
    assert not store.path(QUESTION, GPU).exists()
    assert store.load(QUESTION, GPU, VALID) is None  # and no second warning


def test_an_edited_file_is_not_believed():
    store.save(record())
    file = store.path(QUESTION, GPU)
    file.write_text(file.read_text().replace('"stages": 4', '"stages": 5'))
    with pytest.warns(cache.CacheWarning, match="checksum"):
        assert store.load(QUESTION, GPU, VALID) is None


def test_another_format_is_old():
    plain = {**json.loads(store.serialize(record())), "format": 0}
    assert store.parse(json.dumps(plain).encode()) == (None, "format 0 is not 1")


damage = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 10**6), st.integers(1, 255)),
    st.tuples(st.just("cut"), st.integers(0, 10**6), st.just(0)),
    st.tuples(st.just("insert"), st.integers(0, 10**6), st.integers(0, 255)),
    st.tuples(st.just("replace"), st.binary(max_size=200), st.just(0)),
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage)
def test_damaged_files_are_never_believed_and_never_raise(how):
    kind, place, value = how
    good = store.serialize(record())
    if kind == "replace":
        data = place
    else:
        at = place % len(good)
        data = {"flip": good[:at] + bytes([good[at] ^ value]) + good[at + 1 :], "cut": good[:at],
                "insert": good[:at] + bytes([value]) + good[at:]}[kind]  # fmt: skip
    found, why = store.parse(data)
    # whitespace between the tokens may change; nothing that is said may
    assert found == record() if found else why
    cache.write(store.path(QUESTION, GPU), data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert store.load(QUESTION, GPU, VALID) == found
    assert bool(caught) == (found is None)
    assert store.path(QUESTION, GPU).exists() == (found is not None)


def test_a_folder_that_cannot_be_written_is_a_warning(folder, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(folder / "file"))
    with pytest.warns(cache.CacheWarning, match="can't be written"):
        assert not store.save(record())
    assert store.load(QUESTION, GPU, VALID) is None


def write_often(number, enough):
    for i in range(20_000):
        store.save(record(100_000 * number + i))
        if i >= 150 and enough.is_set():
            return


def test_two_processes_write_and_one_reads():
    """Readers see one whole record or another, never a mixture."""
    store.save(record())
    spawn = multiprocessing.get_context("fork")
    enough = spawn.Event()  # the reader may be slow, where the machine is busy
    writers = [spawn.Process(target=write_often, args=(n, enough)) for n in (1, 2)]
    for writer in writers:
        writer.start()
    seen = set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while any(w.is_alive() for w in writers):
            seen.add(store.load(QUESTION, GPU, VALID).config["stages"])
            if len(seen) > 2:
                enough.set()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(seen) > 2
    assert not list(store.path(QUESTION, GPU).parent.glob("*.part"))
