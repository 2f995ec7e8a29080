"""The cache's folder and files."""

import os
import stat
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from nvdsl.errors import ToolchainError
from nvdsl.lower import cache, cache_size


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_told", set())
    return tmp_path / "cache"


@pytest.fixture
def give_away(monkeypatch):
    """Make files another user's: root can; for others the user becomes somebody else."""

    def give(path):
        if os.geteuid() == 0:
            os.chown(path, 12345, 12345)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 12345)

    return give


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
    cache_size.shrink(tmp_path, 1000, ".zip")
    assert len(list(tmp_path.glob("*.zip"))) == 10
    cache_size.shrink(tmp_path, 800, ".zip")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["4.zip", "5.zip", "6.zip", "7.zip", "8.zip", "9.zip", "other"]


# --- whose it is


def test_a_file_of_another_user_is_not_taken(root, give_away):
    cache.write(root / "kernels" / "file", b"planted")
    give_away(root / "kernels" / "file")
    with pytest.warns(cache.CacheWarning, match="file is thrown away: it belongs to user 12345|it belongs to"):
        assert cache.read(root / "kernels" / "file") is None


@pytest.mark.parametrize("part", ["", "kernels"])
def test_a_folder_of_another_user_is_not_used(root, give_away, part):
    cache.write(root / "kernels" / "file", b"planted")
    give_away(root / part)
    with pytest.warns(cache.CacheWarning) as caught:
        if os.geteuid() == 0:
            assert cache.read(root / "kernels" / "file") is None
        assert not cache.write(root / "kernels" / "other", b"new")
        assert not cache.write(root / "kernels" / "other", b"new")
    (warning,) = {str(w.message) for w in caught if "not used" in str(w.message)}
    assert str(root / part) in warning and "chown" in warning and "NVDSL_CACHE_DIR" in warning
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("mode", "used"), [(0o700, True), (0o755, True), (0o707, False), (0o770, False), (0o777, False), (0o1777, True)]
)
def test_a_folder_that_others_may_write_is_not_used(root, monkeypatch, mode, used):
    monkeypatch.setattr(cache, "_is_private", lambda group: False)
    cache.write(root / "kernels" / "file", b"one")
    for folder in (root, root / "kernels"):
        folder.chmod(mode)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert cache.read(root / "kernels" / "file") == (b"one" if used else None)
        assert len(caught) == (not used)
        if not used:
            assert f"chmod go-w {folder}" in str(caught[0].message)
        folder.chmod(0o700)


@pytest.mark.parametrize(("mode", "taken"), [(0o644, True), (0o602, False), (0o660, False)])
def test_a_file_that_others_may_write_is_not_taken(root, monkeypatch, mode, taken):
    monkeypatch.setattr(cache, "_is_private", lambda group: False)
    path = root / "file"
    cache.write(path, b"one")
    path.chmod(mode)
    if taken:
        assert cache.read(path) == b"one"
        return
    with pytest.warns(cache.CacheWarning, match="may write to it"):
        assert cache.read(path) is None
    assert not path.exists()


def test_a_group_of_the_user_alone_may_write(root, monkeypatch):
    monkeypatch.setattr(cache, "_is_private", lambda group: True)
    cache.write(root / "file", b"one")
    root.chmod(0o770)
    assert cache.read(root / "file") == b"one"


def test_a_group_is_private_by_name_and_members(monkeypatch):
    class Person:
        pw_name, pw_gid = "ann", 7

    class Group:
        gr_name, gr_mem = "ann", []

    monkeypatch.setattr(cache.pwd, "getpwuid", lambda _: Person)
    monkeypatch.setattr(cache.grp, "getgrgid", lambda _: Group)
    assert cache._is_private(7) and not cache._is_private(8)
    Group.gr_mem = ["ann", "bob"]
    assert not cache._is_private(7)
    Group.gr_name, Group.gr_mem = "users", []
    assert not cache._is_private(7)


def test_its_folders_are_the_users_alone_whatever_the_umask(root):
    before = os.umask(0)
    try:
        cache.write(root / "tune" / "gemm" / "file", b"one")
    finally:
        os.umask(before)
    for path in (root, root / "tune", root / "tune" / "gemm"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "tune" / "gemm" / "file").stat().st_mode) == 0o600


# --- what is no file of ours


def test_a_fifo_is_not_waited_for(root):
    root.mkdir(mode=0o700)
    os.mkfifo(root / "file")
    start = time.monotonic()
    with pytest.warns(cache.CacheWarning, match="no regular file"):
        assert cache.read(root / "file") is None
    assert time.monotonic() - start < 5
    assert cache.write(root / "file", b"one") and cache.read(root / "file") == b"one"


def test_links_and_folders_are_not_followed(root, tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    root.mkdir(mode=0o700)
    (root / "link").symlink_to(tmp_path / "mine")
    (root / "folder").mkdir()
    assert cache.read(root / "link") is None
    with pytest.warns(cache.CacheWarning):
        assert cache.read(root / "folder") is None
    assert cache.write(root / "link", b"one") and (tmp_path / "mine").read_bytes() == b"mine"


def test_a_huge_file_is_not_read(root):
    cache.write(root / "file", b"one")
    os.truncate(root / "file", cache.MOST + 1)
    with pytest.warns(cache.CacheWarning, match="268,435,457 bytes"):
        assert cache.read(root / "file") is None


def test_a_home_that_is_not_there_is_an_error_of_ours(monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE_DIR", "~nosuch/x")
    with pytest.raises(ToolchainError, match="NVDSL_CACHE_DIR=~nosuch/x"):
        cache.folder("kernels")


# --- size


def test_parts_of_killed_writers_go(root):
    cache.write(root / "kernels" / "a.zip", b"one")
    old, young = root / "kernels" / ".old.part", root / "kernels" / ".young.part"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (1, time.time() - 2 * cache_size.STALE))
    cache_size.shrink(root / "kernels", 1000, ".zip")
    assert sorted(path.name for path in (root / "kernels").iterdir()) == [".young.part", "a.zip"]


def test_a_save_does_not_look_at_every_file(root, monkeypatch):
    looked, real = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(path) or real(path))
    monkeypatch.setattr(cache_size, "_random", cache_size.random.Random(0))
    monkeypatch.setenv("NVDSL_CACHE_LIMIT", "1MB")
    for i in range(1000):
        path = root / "kernels" / f"{i % 100}.zip"
        cache.write(path, bytes(1000))
        cache_size.tidy(path.parent, 1000, ".zip")
    assert 2 <= len(looked) <= 30  # twice each time; eight times a megabyte, and at the first save


def test_what_is_saved_stays_near_the_limit(root, monkeypatch):
    monkeypatch.setattr(cache_size, "_random", cache_size.random.Random(0))
    monkeypatch.setenv("NVDSL_CACHE_LIMIT", "100kB")
    most = 0
    for i in range(1000):
        path = root / "kernels" / f"{i}.zip"
        cache.write(path, bytes(1000))
        cache_size.tidy(path.parent, 1000, ".zip")
        most = max(most, sum(file.stat().st_size for file in path.parent.glob("*.zip")))
    assert 75_000 <= most <= 160_000


def test_a_folder_is_tidied_once_a_day(root, monkeypatch):
    monkeypatch.setattr(cache_size, "_random", type("Never", (), {"random": lambda self: 1.0})())
    cache.write(root / "kernels" / "a.zip", b"one")
    part = root / "kernels" / ".old.part"
    for age, left in ((0, False), (3600, True), (2 * 86400, False), (-2 * 86400, False)):
        part.write_bytes(b"half")
        os.utime(part, (1, 1))
        if age:
            os.utime(root / "kernels" / ".tidied", (1, time.time() - age))
        cache_size.tidy(root / "kernels", 3, ".zip")
        assert part.exists() is left


@pytest.mark.parametrize(
    ("text", "bytes"), [("1000", 1000), ("500MB", 500 * 10**6), ("1.5 GiB", 3 << 29), ("2kib", 2048), ("0", 0)]
)
def test_sizes(text, bytes):
    assert cache_size.size(text) == bytes


@pytest.mark.parametrize("text", ["", "-1", "big", "5 apples", "1e9", "MB"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="500MB"):
        cache_size.size(text)


def test_the_limit_is_of_the_environment_or_kept(root, monkeypatch):
    assert cache_size.limit() == cache_size.LIMIT
    cache.write(root / "limit", b"2GB\n")
    assert cache_size.limit() == 2 * 10**9
    monkeypatch.setenv("NVDSL_CACHE_LIMIT", "1MB")
    assert cache_size.limit() == 10**6
    monkeypatch.setenv("NVDSL_CACHE_LIMIT", "much")
    with pytest.warns(cache.CacheWarning, match="'much' is no size"):
        assert cache_size.limit() == cache_size.LIMIT


# --- one at a time

HOLDING = """
import sys, time
from nvdsl.lower import cache
with cache.alone("work", 5.0) as got:
    print(got, flush=True)
    time.sleep(60)
"""


def test_a_killed_process_leaves_no_lock(root):
    environment = {**os.environ, "PYTHONPATH": str(Path(cache.__file__).parents[2])}
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, text=True, env=environment, cwd=root.parent
    )
    assert other.stdout.readline() == "True\n"
    with cache.alone("work", 0.1) as got:
        assert not got  # it is done all the same, beside the other
    with cache.alone("else", 0.1) as got:
        assert got
    other.kill()
    other.communicate()
    with cache.alone("work", 5.0) as got:
        assert got


def test_threads_go_one_after_the_other(root):
    inside, most = [], []

    def work():
        with cache.alone("work", 20.0) as got:
            inside.append(got)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most == [1] * 6


def test_where_no_lock_can_be_it_is_done_without(root, monkeypatch):
    root.write_text("")  # no folder
    with cache.alone("work", 1.0) as got:
        assert not got
    with pytest.raises(ValueError), cache.alone("work", 1.0):
        raise ValueError
