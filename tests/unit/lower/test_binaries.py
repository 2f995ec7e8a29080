"""Compiled kernels on disk: what finds them, what they hold, and what becomes of broken files."""

import ast
import io
import os
import subprocess
import sys
import threading
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.call.module import context
from nvdsl.lower import binaries, compiler, stored, toolchain
from nvdsl.lower.options import Options
from nvdsl.mlir import ir
from tests.unit.kernels import array, host

pytestmark = pytest.mark.usefixtures("quick_python")

OPTIONS = Options()


def fill(x):
    x[nv.thread_id.x] = 1.0


def traced(value=1.0):
    def body(x):
        x[nv.thread_id.x] = value

    return host(body, block=64).trace(array(nv.f32, 64))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE", "on")
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path))
    return tmp_path / "kernels"


@pytest.fixture
def compilations(monkeypatch):
    """The modules that were really compiled."""
    made, real = [], compiler._compile
    monkeypatch.setattr(compiler, "_compile", lambda module, *rest: made.append(module) or real(module, *rest))
    return made


@pytest.fixture(scope="module")
def packed():
    lowered, advice = compiler._compile(traced(), OPTIONS)
    return lowered, advice, stored.pack(lowered, advice, "key")


def plain(lowered):
    return [(k.name, k.symbol, k.ptx, k.cubin, k.smem_bytes, k.max_threads, k.block, k.cluster, k.resources, k.where)
            for k in lowered.kernels.values()]  # fmt: skip


def test_the_second_compilation_is_a_look_up_with_the_same_result(folder, compilations):
    one, two = (compiler.lower(traced(), OPTIONS) for _ in range(2))
    assert len(compilations) == 1
    assert len(list(folder.glob("*.kernel.zip"))) == 1
    assert plain(one) == plain(two)
    assert str(one.host) == str(two.host)
    assert list(two.stages) == ["look-up"]


def test_what_decides_the_code_decides_the_key(folder):
    module = traced()
    keys = [binaries.key(module, replace(OPTIONS, **o)) for o in
            ({}, {"opt_level": 2}, {"lineinfo": True}, {"ptxas_flags": ("-v",)})]  # fmt: skip
    keys.append(binaries.key(traced(2.0), OPTIONS))
    assert len(set(keys)) == 5
    assert binaries.key(traced(), OPTIONS) == keys[0]
    assert binaries.key(module, replace(OPTIONS, strict=True)) == keys[0]
    assert binaries.key(module, replace(OPTIONS, dump=frozenset({"ptx"}))) is None


def test_another_ptxas_is_another_key(folder, tmp_path):
    path = tmp_path / "ptxas"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    key = binaries.key(traced(), replace(OPTIONS, ptxas=str(path)))
    assert key != binaries.key(traced(), OPTIONS)
    path.write_text("#!/bin/sh\nexit 1\n")
    assert key != binaries.key(traced(), replace(OPTIONS, ptxas=str(path)))


def test_a_module_does_not_depend_on_who_calls(folder):
    function = host(fill, block=64)
    one = function.trace(array(nv.f32, 64))
    two = function.trace(array(nv.f32, 64))
    assert binaries.key(one, OPTIONS) == binaries.key(two, OPTIONS)


def test_switched_off_it_neither_reads_nor_writes(folder, compilations, monkeypatch):
    compiler.lower(traced(), OPTIONS)
    monkeypatch.setenv("NVDSL_CACHE", "off")
    compiler.lower(traced(), OPTIONS)
    assert len(compilations) == 2


def test_advisories_are_given_again(folder, compilations):
    def body(x):
        values = [x[nv.thread_id.x + i] for i in range(100)]
        nv.sync_threads()
        for i in range(100):
            x[nv.thread_id.x + i] = values[(i + 1) % 100] * values[i]

    function = host(body, block=1024)
    texts = []
    for _ in range(2):
        with pytest.warns(nv.AdvisoryWarning) as caught:
            compiler.lower(function.trace(array(nv.f32, 2048)), OPTIONS)
        texts.append([(str(w.message), w.filename, w.lineno) for w in caught])
    assert len(compilations) == 1
    assert texts[0] == texts[1]
    with pytest.raises(nv.LowerError, match="local memory"):
        compiler.lower(function.trace(array(nv.f32, 2048)), replace(OPTIONS, strict=True))
    assert len(compilations) == 1


damage = st.tuples(st.sampled_from(["flip", "cut", "insert", "replace"]), st.integers(0, 10**7), st.integers(1, 255))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage)
def test_damaged_bytes_are_unreadable_or_say_the_same(packed, how):
    lowered, advice, good = packed
    kind, place, value = how
    at = place % len(good)
    data = {"flip": good[:at] + bytes([good[at] ^ value]) + good[at + 1 :], "cut": good[:at],
            "insert": good[:at] + bytes([value]) + good[at:], "replace": bytes([value]) * (at % 100)}[kind]  # fmt: skip
    try:
        found, said = stored.unpack(data, "key", context())
    except stored.Unreadable:
        return
    assert plain(found) == plain(lowered) and str(found.host) == str(lowered.host) and said == advice


@pytest.mark.parametrize("name", ["body.cubin", "body.ptx", "host.mlirbc", "meta.json"])
def test_a_part_that_was_exchanged_is_found(packed, name):
    """A whole zip file, with one part from elsewhere."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed[2])) as old, zipfile.ZipFile(changed, "w") as new:
        assert name in old.namelist()
        for part in old.namelist():
            new.writestr(part, old.read(part)[:-1] + b"?" if part == name else old.read(part))
    with pytest.raises(stored.Unreadable, match=f"{name} has changed"):
        stored.unpack(changed.getvalue(), "key", context())


def test_bytes_of_another_key_are_not_taken(packed):
    with pytest.raises(stored.Unreadable, match="another kernel"):
        stored.unpack(packed[2], "other", context())


@pytest.mark.parametrize("text", [b"", b"no zip", None])
def test_a_broken_file_is_compiled_anew_with_a_warning(folder, compilations, text):
    compiler.lower(traced(), OPTIONS)
    (file,) = folder.glob("*.kernel.zip")
    good = file.read_bytes()
    file.write_bytes(good[: len(good) // 2] if text is None else text)
    with pytest.warns(nv.CacheWarning, match="thrown away"):
        compiler.lower(traced(), OPTIONS)
    assert len(compilations) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiler.lower(traced(), OPTIONS)
    assert len(compilations) == 2


def test_a_folder_that_is_not_ours_is_a_warning(folder, monkeypatch):
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("")
    with pytest.warns(nv.CacheWarning, match="can't be written"):
        assert compiler.lower(traced(), OPTIONS).kernels


def test_another_process_finds_it(folder):
    program = f"""
import sys
import threading
sys.path[:0] = {sys.path!r}
from chapters.ch1_saxpy import saxpy
import nvdsl as nv
x = nv.ShapeDtype((1000,), nv.f32)
print(sorted(saxpy.compile(x, x, 2.0).seconds))
"""
    environment = {"NVDSL_CACHE_DIR": str(folder.parent), "PATH": "/usr/bin:/bin"}
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment,
                       cwd=Path(nv.__file__).parents[1])
        for _ in range(2)
    ]  # fmt: skip
    assert [ast.literal_eval(run.stdout) for run in runs] == [["passes", "ptx", "ptxas", "trace"], ["look-up", "trace"]]


def test_nothing_of_the_disk_goes_to_mlir(folder, compilations, monkeypatch):
    """Its readers end the process for some wrong bytes. Here a file has such bytes, and checksums that fit."""
    one = compiler.lower(traced(), OPTIONS)
    (file,) = folder.glob("*.kernel.zip")
    with zipfile.ZipFile(file) as archive:
        assert not [name for name in archive.namelist() if name.startswith("host")]
    forged = stored.pack(replace(one, host=context_module()), [], binaries.key(traced(), OPTIONS))
    with zipfile.ZipFile(io.BytesIO(forged)) as archive:
        assert "host.mlirbc" in archive.namelist()
    file.write_bytes(forged)
    monkeypatch.setattr(ir.Module, "parse", lambda *_: pytest.fail("MLIR parsed it"))
    two = compiler.lower(traced(), OPTIONS)
    assert len(compilations) == 1 and plain(one) == plain(two)
    assert str(one.host) == str(two.host) and stored.bytecode(one.host) == stored.bytecode(two.host)


def context_module():
    with context():
        return ir.Module.parse("module @other {}")


@pytest.mark.parametrize("plant", ["fifo", "open to others"])
def test_what_others_may_have_written_is_compiled_anew(folder, compilations, plant):
    compiler.lower(traced(), OPTIONS)
    (file,) = folder.glob("*.kernel.zip")
    if plant == "fifo":
        file.unlink()
        os.mkfifo(file)
    else:
        file.chmod(0o666)
    with pytest.warns(nv.CacheWarning, match="thrown away"):
        compiler.lower(traced(), OPTIONS)
    assert len(compilations) == 2
    compiler.lower(traced(), OPTIONS)
    assert len(compilations) == 2  # it was written anew


def test_a_file_that_unpacks_to_too_much_is_not_unpacked(packed, monkeypatch):
    monkeypatch.setattr(stored, "_MOST", 1000)
    with pytest.raises(stored.Unreadable, match="unpacks to more than 1,000 bytes"):
        stored.unpack_kernels(packed[2], "key")


COMPILING = """
import sys
import threading
sys.path[:0] = {path!r}
from chapters.ch1_saxpy import saxpy
import nvdsl as nv
x = nv.ShapeDtype((1000,), nv.f32)
saxpy.trace(x, x, 2.0)
print("ready", flush=True)
sys.stdin.readline()
print(sorted(saxpy.compile(x, x, 2.0).seconds), flush=True)
"""


def test_two_processes_compile_once(folder, tmp_path):
    """Both begin at the same time. ptxas takes half a second, and counts how often it is called."""
    program, calls = tmp_path / "ptxas", tmp_path / "calls"
    program.write_text(f'#!/bin/sh\necho call >> {calls}\nsleep 0.5\nexec {toolchain.ptxas()} "$@"\n')
    program.chmod(0o755)
    environment = {"NVDSL_CACHE_DIR": str(folder.parent), "NVDSL_PTXAS": str(program), "PATH": "/usr/bin:/bin"}
    processes = [
        subprocess.Popen([sys.executable, "-c", COMPILING.format(path=sys.path)], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, env=environment, cwd=Path(nv.__file__).parents[1])
        for _ in range(3)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    stages = sorted(ast.literal_eval(process.communicate(timeout=60)[0]) for process in processes)
    assert stages == [["look-up", "trace"], ["look-up", "trace"], ["passes", "ptx", "ptxas", "trace"]]
    assert calls.read_text().count("call") == 1


def test_who_waits_too_long_compiles_too(folder, compilations, monkeypatch):
    monkeypatch.setattr(binaries, "PATIENCE", 0.2)
    with binaries.alone(binaries.key(traced(), OPTIONS)) as held:
        assert held
        compiler.lower(traced(), OPTIONS)
    assert len(compilations) == 1


def test_threads_that_need_the_same_compile_it_once(folder, compilations):
    functions = [host(fill, block=64) for _ in range(4)]  # so alike that they are one kernel on the disk
    modules = [function.trace(array(nv.f32, 64)) for function in functions]
    workers = [threading.Thread(target=compiler.lower, args=(module, OPTIONS)) for module in modules]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(compilations) == 1
