"""Work for threads and processes: kernels of many kinds, each call with numbers of its own and a known result.

`python -m tests.sim.threads 10000 100` makes so many calls in 8 threads, with compilations that race, then forks so
many children while other threads work, and says how many were right.
"""

from __future__ import annotations

import functools
import os
import pickle
import random
import select
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.mlir.dialects import arith, memref
from tests.sim.programs import load

ROUND = 500
"""Calls after which the functions of the long run are new ones, which are compiled anew."""


def _increment(x: Any) -> None:
    @nv.kernel(grid=1, block=32)
    def kernel():
        x[nv.thread_id.x] = x[nv.thread_id.x] + 1.0

    kernel()


increment = nv.jit(_increment)


def _affine(x: Any, y: Any, by: Any, *, add: float) -> None:
    """Several blocks, a tail, a scalar, a constant."""
    n = x.shape[0]

    @nv.kernel(grid=nv.cdiv(n, 64), block=64)
    def kernel():
        i = nv.block_id.x * 64 + nv.thread_id.x
        if i < n:
            y[i] = x[i] * by + add

    kernel()


def _reversed_twice(x: Any, y: Any) -> None:
    """Two launches, memory of the host function's own, and shared memory."""
    n = x.shape[0]
    between = nv.empty(n, nv.f32)

    @nv.kernel(grid=1, block=n)
    def first():
        t = nv.thread_id.x
        tile = nv.smem(n, nv.f32)
        tile[t] = x[t]
        nv.sync_threads()
        between[t] = tile[n - 1 - t]

    @nv.kernel(grid=1, block=n)
    def second():
        t = nv.thread_id.x
        y[n - 1 - t] = between[t] + 1.0

    first()
    second()


def _count(x: Any, total: Any) -> None:
    """Atomics of several blocks."""

    @nv.kernel(grid=4, block=32)
    def kernel():
        x_t = x[nv.block_id.x * 32 + nv.thread_id.x]
        memref.atomic_rmw(arith.AtomicRMWKind.addi, x_t, total, [nv.index(0)])

    kernel()


def ptx(_: Any) -> str:
    """The PTX, with all that debug mode adds, of a function that is traced and lowered anew."""

    @nv.jit
    def function(x):
        @nv.kernel(grid=1, block=128)
        def kernel():
            full = nv.Mbarriers(4, arrivals=1)
            for i in nv.range(8):
                if nv.thread_id.x == 0:
                    full[i % 4].arrive()
                full[i % 4].wait(i // 4 & 1)
            x[nv.thread_id.x] = x[nv.thread_id.x] + 1.0

        kernel()

    return function.compile(nv.ShapeDtype((128,), nv.f32), debug=True).ptx


class Work:
    """``one(i)`` makes call number ``i`` and says what was wrong with it, None for nothing. The functions are new: the
    first calls compile them. ``large``: products on the tensor cores, too."""

    def __init__(self, large: bool = True) -> None:
        self.affine, self.twice, self.count = (nv.jit(f) for f in (_affine, _reversed_twice, _count))
        self.chapter: Any = load("chapters/ch4_multistage_gemm.py")
        self.kinds = [self._affine, self._affine, self._twice, self._count, self._small]
        self.kinds += [self._ring, self._product] if large else []

    def one(self, i: int) -> str | None:
        draw = random.Random(i)
        kind = self.kinds[i % len(self.kinds)]
        try:
            right = kind(draw, np.random.default_rng(i))
        except Exception as error:
            return f"{kind.__name__}: {type(error).__name__}: {error}"
        return None if right else f"{kind.__name__}: wrong numbers"

    def _affine(self, draw: random.Random, numbers: Any) -> bool:
        x = numbers.standard_normal(draw.choice([17, 64, 100, 130, 200])).astype(np.float32)
        y, by, add = np.zeros_like(x), draw.randrange(9), draw.randrange(3)
        self.affine(x, y, by, add=float(add), target="sim")
        return np.array_equal(y, x * np.float32(by) + np.float32(add))

    def _twice(self, draw: random.Random, numbers: Any) -> bool:
        x = numbers.standard_normal(draw.choice([32, 64, 96])).astype(np.float32)
        y = np.zeros_like(x)
        self.twice(x, y, target="sim")
        return np.array_equal(y, x + np.float32(1))

    def _count(self, draw: random.Random, numbers: Any) -> bool:
        x, total = numbers.integers(0, 100, 128, np.int32), np.zeros(1, np.int32)
        self.count(x, total, target="sim")
        return bool(total[0] == x.sum())

    def _small(self, draw: random.Random, numbers: Any) -> bool:
        """A product without tensor cores."""
        m, n, k = (draw.choice([3, 5, 8]) for _ in "mnk")
        return self._multiplied(numbers, m, n, k, np.float64)

    def _product(self, draw: random.Random, numbers: Any) -> bool:
        """nv.matmul: a ring with roles, TMA, wgmma, an epilogue."""
        return self._multiplied(numbers, draw.choice([64, 100]), 64, draw.choice([64, 128]), np.float16)

    def _multiplied(self, numbers: Any, m: int, n: int, k: int, dtype: Any) -> bool:
        a, b = (numbers.integers(-3, 4, shape) for shape in ((m, k), (k, n)))  # BLAS is no matter of integers
        return np.array_equal(nv.matmul(a.astype(dtype), b.astype(dtype), target="sim"), (a @ b).astype(dtype))

    def _ring(self, draw: random.Random, numbers: Any) -> bool:
        """Chapter 4's GEMM: TMA into several stages, wgmma."""
        m, k = 128 * draw.choice([1, 2]), 64 * draw.choice([1, 3])
        a, b = (numbers.integers(-3, 4, shape) for shape in ((m, k), (k, 128)))
        d = np.zeros((m, 128), np.float32)
        self.chapter.gemm(a.astype(np.float16), b.astype(np.float16), d, target="sim")
        return np.array_equal(d, a @ b)


def forked(function: Callable[[], Any], deadline: float = 30.0) -> Any:
    """What ``function()`` gives in a forked child, which has so many seconds. What it raises is an AssertionError."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writer, pickle.dumps(function()))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as answer:
        ready, _, _ = select.select([answer], [], [], deadline)
        if not ready:
            os.kill(child, signal.SIGKILL)
        given = answer.read()
    _, status = os.waitpid(child, 0)
    assert ready, f"the child hangs: not done after {deadline:g} s"
    assert status == 0, f"the child ended with status {status}"
    return pickle.loads(given)


def forks(count: int) -> int:
    """Fork while other threads trace and simulate; each child does the same work with functions of its own."""
    work, stopped, wrong = Work(), threading.Event(), Counter()
    for i in range(len(work.kinds)):
        work.one(i)
    busy = [threading.Thread(target=_keep_busy, args=(stopped, i)) for i in range(3)]
    for thread in busy:
        thread.start()
    start = time.monotonic()
    for i in range(count):
        try:
            wrong[forked(lambda i=i: work.one(i) or Work().one(i + 1) or (ptx(i) and None), 120.0)] += 1
        except AssertionError as error:
            wrong[str(error)] += 1
    stopped.set()
    for thread in busy:
        thread.join()
    return _report(wrong, count, "forked children", start)


def _keep_busy(stopped: threading.Event, seed: int) -> None:
    while not stopped.is_set():
        work = Work()
        for i in range(seed, seed + 4):
            work.one(i)


def _report(found: Counter[Any], count: int, what: str, start: float) -> int:
    right = found.pop(None, 0)
    print(f"{right} of {count} {what} right, {time.monotonic() - start:.0f} s")
    for message, times in found.most_common():
        print(f"{times} x {message}")
    return right != count


def main(calls: int, threads: int = 8) -> int:
    sys.setswitchinterval(1e-4)
    start = time.monotonic()
    work = functools.partial(_in_rounds, [Work() for _ in range(-(-calls // ROUND))])
    with ThreadPoolExecutor(threads) as pool:
        found = Counter(pool.map(work, range(calls)))
    return _report(found, calls, f"calls over {threads} threads", start)


def _in_rounds(works: list[Work], i: int) -> str | None:
    return works[i // ROUND].one(i)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])) + forks(int(sys.argv[2])))
