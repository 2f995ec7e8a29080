"""``nvdsl cache``."""

import os
import time

import pytest

import nvdsl_command
from nvdsl.lower import binaries, cache, cache_size


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NVDSL_CACHE", "on")
    monkeypatch.setattr(cache, "_told", set())
    return tmp_path / "cache"


@pytest.fixture
def filled(root):
    for i in range(10):
        path = root / "kernels" / f"{i}{binaries.SUFFIX}"
        cache.write(path, bytes(100_000))
        os.utime(path, (1, time.time() - i * 86400 - 10))
    cache.write(root / "tune" / "gemm" / "H200-1.json", bytes(500))
    (root / "kernels" / ".half.part").write_bytes(b"half")
    return root


def said(capsys, *arguments):
    assert nvdsl_command.main(["cache", *arguments]) == 0
    return capsys.readouterr().out


def test_it_shows_what_there_is(filled, capsys):
    first, kernels, tuned = said(capsys).splitlines()
    assert first == str(filled)
    assert "10 files  1.0 MB of 536.9 MB" in kernels and "used last 10 seconds ago, the oldest 9 days ago" in kernels
    assert "1 within a day" in kernels
    assert "1 files  500 B" in tuned


def test_an_empty_one(root, capsys, monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE", "off")
    first, kernels, _ = said(capsys).splitlines()
    assert "switched off by NVDSL_CACHE" in first and "0 files  0 B of 536.9 MB" in kernels
    assert not root.exists()


@pytest.mark.parametrize(("what", "left"), [("kernels", (0, 1)), ("tuned", (11, 0)), ("all", (0, 0))])
def test_it_clears(filled, capsys, what, left):
    said(capsys, "--clear", what)
    assert (len(list((filled / "kernels").iterdir())), len(list(filled.glob("tune/*/*")))) == left


def test_it_limits_and_keeps_the_limit(filled, capsys):
    assert "5 files  500.0 kB of 700.0 kB" in said(capsys, "--limit", "700kB")
    assert {path.name[0] for path in filled.glob("kernels/*.zip")} == set("01234")
    assert cache_size.limit() == 700_000
    assert "of 700.0 kB" in said(capsys)


def test_a_setting_goes_before_it(filled, capsys, monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE_LIMIT", "2MB")
    text = said(capsys, "--limit", "700kB")
    assert "NVDSL_CACHE_LIMIT=2MB goes before it" in text and "of 2.0 MB" in text


def test_what_is_no_size_is_refused(root, capsys):
    assert nvdsl_command.main(["cache", "--limit", "much"]) == 2
    assert "'much' is no size: write 500MB" in capsys.readouterr().err


def test_a_folder_that_others_may_write_is_left_alone(filled, capsys):
    filled.chmod(0o777)
    assert nvdsl_command.main(["cache", "--clear", "all"]) == 2
    assert f"chmod go-w {filled}" in capsys.readouterr().err
    assert len(list((filled / "kernels").iterdir())) == 11
    assert f"chmod go-w {filled}" in said(capsys)
