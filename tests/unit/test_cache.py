"""The cache's folder and files."""

import os
import threading
from pathlib import Path

import pytest

from nvdsl import cache


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    for name in ("NVDSL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache.folder("a") == Path("/home/someone/.cache/nvdsl/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # counts as unset
    assert cache.folder() == Path("/home/someone/.cache/nvdsl")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache.folder("a", "b") == Path("/xdg/nvdsl/a/b")
    monkeypatch.setenv("NVDSL_CACHE_DIR", "~/mine")
    assert cache.folder("a") == Path("/home/someone/mine/a")


@pytest.mark.parametrize(("value", "on"), [("", True), ("on", True), ("off", False), ("0", False), ("No", False)])
def test_it_can_be_switched_off(monkeypatch, value, on):
    monkeypatch.setenv("NVDSL_CACHE", value)
    assert cache.enabled() is on


def test_files_are_whole_or_not_there(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file"
    assert cache.read(path) is None
    assert cache.write(path, b"one")
    assert cache.read(path) == b"one"

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(cache.CacheWarning, match="No space left"):
        assert not cache.write(path, b"two")
    assert cache.read(path) == b"one"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_readers_never_see_half_a_file(tmp_path):
    path, done = tmp_path / "file", threading.Event()
    parts = [bytes([n]) * 200_000 for n in range(4)]
    cache.write(path, parts[0])

    def write(n):
        while not done.is_set():
            cache.write(path, parts[n])

    writers = [threading.Thread(target=write, args=(n,)) for n in (1, 2)]
    for writer in writers:
        writer.start()
    seen = {cache.read(path) for _ in range(500)}
    done.set()
    for writer in writers:
        writer.join()
    assert seen <= set(parts)


def test_what_was_used_longest_ago_goes_first(tmp_path):
    for i in range(10):
        (tmp_path / f"{i}.zip").write_bytes(bytes(100))
        os.utime(tmp_path / f"{i}.zip", (i, i))
    (tmp_path / "other").write_bytes(bytes(100_000))
    cache.shrink(tmp_path, 1000, ".zip")
    assert len(list(tmp_path.glob("*.zip"))) == 10
    cache.shrink(tmp_path, 800, ".zip")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["4.zip", "5.zip", "6.zip", "7.zip", "8.zip", "9.zip", "other"]
