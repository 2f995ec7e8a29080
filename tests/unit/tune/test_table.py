"""Tables that come with a package."""

import warnings

import pytest

import nvdsl as nv
from nvdsl.tune import table
from nvdsl.tune.store import Record

QUESTION = {"kernel": "m:k", "arguments": {"a": "f16 row"}, "shapes": "a 64"}
H200, H100 = ({"name": f"NVIDIA {n}", "capability": "9.0"} for n in ("H200", "H100"))


def record(gpu, stages, shapes="a 64"):
    return Record({**QUESTION, "shapes": shapes}, gpu, {}, {"stages": stages}, {"ms": 1.0})


def test_the_own_gpu_comes_first_then_one_like_it(tmp_path):
    path = table.write(tmp_path / "t.json", "m:k", [record(H200, 4), record(H100, 3), record(H200, 5, "a 128")])
    assert table.look_up(path, QUESTION, H200) == {"stages": 4}
    assert table.look_up(path, QUESTION, H100) == {"stages": 3}
    assert table.look_up(path, QUESTION, {"name": "", "capability": "9.0"}) in ({"stages": 4}, {"stages": 3})
    assert table.look_up(path, {**QUESTION, "shapes": "a 128"}, H100) == {"stages": 5}
    assert table.look_up(path, QUESTION, {"name": "B200", "capability": "10.0"}) is None
    assert table.look_up(path, {**QUESTION, "kernel": "m:other"}, H200) is None


def test_a_table_does_not_depend_on_the_order(tmp_path):
    records = [record(H200, 4), record(H100, 3)]
    one, two = (table.write(tmp_path / f"{i}.json", "m:k", records[::s]) for i, s in ((1, 1), (2, -1)))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 9, "kernel": "m:k", "entries": []}',
                                  '{"format": 1, "kernel": "m:k", "entries": [{"gpu": {"name": "x"}, "config": {}}]}',
                                  '{"format": 1, "kernel": "m:k", "entries": [{"config": 3, "gpu": {}}]}'])
def test_a_damaged_table_is_not_used(tmp_path, text):
    path = tmp_path / "t.json"
    path.write_text(text)
    table._entries.cache_clear()
    with pytest.warns(nv.CacheWarning, match="is not used"):
        assert table.look_up(path, QUESTION, H200) is None


def test_no_table_is_no_matter(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.look_up(tmp_path / "none.json", QUESTION, H200) is None
