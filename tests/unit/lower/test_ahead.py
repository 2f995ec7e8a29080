"""What is done beside ptxas: the next kernel, in whose ptxas's time the rest is done."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.call import collect
from nvdsl.call.jit import Jit
from nvdsl.errors import LowerError, VerifyError
from nvdsl.lower import ahead, binaries, ptxas


@nv.jit
def first(x: nv.Array) -> None:
    @nv.kernel(grid=1, block=32)
    def one() -> None:
        x[nv.thread_id.x] = 1.0

    one()


@nv.jit
def second(x: nv.Array) -> None:
    @nv.kernel(grid=1, block=32)
    def two() -> None:
        x[nv.thread_id.x] = 2.0

    two()


X = np.zeros(32, np.float32)


@pytest.fixture
def events(monkeypatch):
    """What ptxas did, in order, with nothing kept on disk."""
    found = []
    start, finish = ptxas._start, ptxas._finish

    def started(program, code, *rest):
        found.append(f"start {code.module}")
        return start(program, code, *rest)

    def finished(code, *rest):
        found.append(f"finish {code.module}")
        return finish(code, *rest)

    monkeypatch.setattr(ptxas, "_start", started)
    monkeypatch.setattr(ptxas, "_finish", finished)
    monkeypatch.setenv("NVDSL_CACHE", "off")
    return found


def prepared(function):
    return lambda: function.prepare(function.describe((X,), {}))


def test_a_second_kernel_is_compiled_while_ptxas_works_on_the_first(events):
    first._compiled.clear()
    second._compiled.clear()
    with collect.compiled() as found, ahead.compiling(prepared(second)):
        first(X)
        second(X)
    assert events == ["start one", "start two", "finish two", "finish one"]
    assert {one.name for one in found} == {"first", "second"}


def test_it_is_left_alone_where_the_first_is_compiled_already(events):
    with collect.compiled():
        first(X)
    second._compiled.clear()
    events.clear()
    with collect.compiled(), ahead.compiling(prepared(second)):
        first(X)
    assert events == []


def test_own_work_is_done_beside_the_last_ptxas():
    done = []

    def task():
        done.append("task")
        assert ahead.is_inside()
        ahead.beside_ptxas(lambda: done.append("its own"))
        done.append("its ptxas is done")

    with ahead.compiling(task):
        ahead.beside_ptxas(lambda: done.append("own"))
        ahead.beside_ptxas(lambda: done.append("of the next"))
    assert done == ["task", "own", "its own", "its ptxas is done", "of the next"]
    assert not ahead.is_inside()


def test_errors_of_own_work_are_raised_and_those_of_the_task_wait():
    def task():
        ahead.beside_ptxas(lambda: None)
        raise LowerError("it comes again when the kernel is wanted")

    def own():
        raise VerifyError("of the first kernel")

    with ahead.compiling(task), pytest.raises(VerifyError, match="of the first kernel"):
        ahead.beside_ptxas(own)


def test_who_has_a_lock_waits_for_no_other(tmp_path, monkeypatch):
    """Both kernels may have the same lock: there are few."""
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path))
    got = []

    def task():
        with binaries.alone("ab12") as mine:
            got.append(mine)

    with binaries.alone("ab34") as outer, ahead.compiling(task):
        ahead.beside_ptxas(lambda: None)
    assert outer and got == [False]


def test_a_sequence_compiles_its_steps_beside_the_product(events):
    for name, module in list(sys.modules.items()):
        if name.startswith("nvdsl.kernels."):
            for value in vars(module).values():
                if isinstance(value, Jit):
                    value._compiled.clear()
    x, w, b = np.zeros((4, 16, 64), np.float16), np.zeros((256, 64), np.float16), np.zeros(256, np.float16)
    with collect.compiled():
        nv.lstm(x, [w, w.copy(), b, b.copy()])
    starts = [i for i, event in enumerate(events) if event.startswith("start")]
    assert starts == [0, 1]
