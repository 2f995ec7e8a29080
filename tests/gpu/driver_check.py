"""Checks nvdsl.driver on a Hopper GPU without compiling anything: the kernels are a few lines of PTX.

    python tests/gpu/driver_check.py

Prints one line a check, and ends with 1 if one failed. torch is needed; CuPy and JAX are used if there.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from nvdsl.driver import device
from nvdsl.driver.arrays import describe
from nvdsl.errors import ArgumentError, DeviceError
from tests.gpu import driver_kernels as kernels
from tests.gpu.driver_encodings import rules_agree_with_the_driver
from tests.gpu.driver_libraries import other_libraries, torch_dtypes


def numpy_is_staged() -> str:
    run = kernels.scale()
    a, d = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros((4, 6), np.float32)
    run.call(a, d, 3.0, 24, 1)
    assert (d == 3 * a).all()
    wide = np.zeros((8, 12), np.float32)
    run.call(np.asfortranarray(a), wide[::2, ::2], 2.0, 24, 1)
    assert (wide[::2, ::2] == 2 * a).all()
    assert wide.sum() == 2 * a.sum()
    return "contiguous, Fortran order, every second element"


def torch_in_place() -> str:
    import torch

    run, n = kernels.scale("1000x1000"), 10**6
    a, d = torch.randn(1000, 1000, device="cuda"), torch.zeros(1000, 1000, device="cuda")
    run.call(a, d, 2.0, n, 1)
    assert torch.equal(d, 2 * a)
    stream = torch.cuda.Stream()
    ways = {"torch's current stream": None, "stream=stream": stream, "stream=int": stream.cuda_stream}
    for way, given in ways.items():
        with torch.cuda.stream(stream):
            a.normal_()
            torch.cuda._sleep(50_000_000)
            a.mul_(4)  # the kernel must wait for it
            run.call(a, d, 2.0, n, 1, stream=given)
            result = d.clone()
        stream.synchronize()
        assert torch.equal(result, 2 * a), way
    return "in order with " + ", ".join(ways)


def mixed_arguments() -> str:
    import torch

    run = kernels.scale()
    a, d, out = torch.ones(4, 6, device="cuda"), torch.zeros(4, 6), np.zeros((4, 6), np.float32)
    run.call(a, d, 5.0, 24, 1)
    assert (d == 5).all()
    run.call(d, out, 2.0, 24, 1)
    assert (out == 10).all()
    return "CUDA tensor -> CPU tensor -> NumPy"


def tma_reads_through_an_encoded_map() -> str:
    import torch

    run = kernels.tile()
    a, d = torch.randn(64, 128, device="cuda"), torch.zeros(16, 32, device="cuda")
    for x, y in ((0, 0), (32, 16), (120, 60)):
        run.call(a, d, x, y, 1)
        expected = torch.zeros(16, 32, device="cuda")
        part = a[y : y + 16, x : x + 32]
        expected[: part.shape[0], : part.shape[1]] = part
        assert torch.equal(d, expected), (x, y)
    return "16x32 boxes, inside and over the edge"


def clusters() -> str:
    import torch

    done = []
    for size in (0, 1, 2, 4, 8, 16):
        d = torch.zeros(32, dtype=torch.int32, device="cuda")
        kernels.rank(size).call(d, 32)
        blocks = max(size, 1)
        assert d.tolist() == [100 * blocks + i % blocks for i in range(32)], size
        done.append(str(size))
    kernels.expect(ArgumentError, "no multiple of the cluster's 4", lambda: kernels.rank(4).call(d, 6))
    return "sizes " + " ".join(done)


def shared_memory() -> str:
    import torch

    d = torch.zeros(32, dtype=torch.int32, device="cuda")
    arguments = [("d", "memref<32xi32>")]
    for smem in (49152, 49153, 232448):
        kernels.build("rank", kernels.RANK, arguments, arguments, block=32, smem=smem).call(d, 32)
    torch.cuda.synchronize()
    return "up to 232448 bytes"


def empty_grid() -> str:
    import torch

    d = torch.zeros(32, dtype=torch.int32, device="cuda")
    kernels.rank(0).call(d, 0)
    torch.cuda.synchronize()
    assert not d.any()
    return "no launch"


def threads() -> str:
    import torch

    run, failures = kernels.scale(), []

    def work(factor: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            a, d = torch.ones(4, 6, device="cuda"), torch.zeros(4, 6, device="cuda")
            for i in range(200):
                run.call(a, d, float(factor + i), 24, 1)
                if not (d == factor + i).all():
                    failures.append((factor, i))

    workers = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures[:3]
    return "4 threads, 200 calls each"


def graph_capture() -> str:
    import torch

    run = kernels.scale()
    a, d = torch.ones(4, 6, device="cuda"), torch.zeros(4, 6, device="cuda")
    run.call(a, d, 3.0, 24, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run.call(a, d, 3.0, 24, 1)
    a.fill_(7)
    graph.replay()
    torch.cuda.synchronize()
    assert (d == 21).all()
    return "torch.cuda.graph"


def no_leaks() -> str:
    import torch

    run = kernels.scale("1000x1000")
    a, d = np.ones((1000, 1000), np.float32), np.zeros((1000, 1000), np.float32)
    run.call(a, d, 1.0, 10**6, 1)

    def lost() -> int:
        before = torch.cuda.mem_get_info()[0]
        for _ in range(50):
            run.call(a, d, 1.0, 10**6, 1)
        return before - torch.cuda.mem_get_info()[0]

    # The driver counts all processes of the GPU: another one may take memory meanwhile, but not three times.
    least = min(lost() for _ in range(3))
    assert least < 64 << 20, f"{least} bytes"
    return "3 x 50 staged calls"


def host_time() -> str:
    import torch

    run = kernels.maps()
    arrays = [torch.zeros(4096, 4096, dtype=torch.float16, device="cuda") for _ in range(3)]
    run.call(*arrays, 1)
    described = [describe(x) for x in arrays]
    values, specs = [v for _, v in described] + [1], [s for s, _ in described] + [None]
    out = torch.zeros(1, device="cuda")
    calls: dict[str, Callable[[], Any]] = {
        "describe": lambda: describe(arrays[0]),
        "executable(values, specs)": lambda: run(values, specs, None),
        "executable.call(a, b, d)": lambda: run.call(*arrays, 1),
        "torch x.fill_(0)": lambda: out.fill_(0),
    }
    return ", ".join(f"{name} {_microseconds(call):.1f} us" for name, call in calls.items())


def _microseconds(call: Callable[[], Any], count: int = 500, rounds: int = 15) -> float:
    """Least host time of a call over the rounds; the queue is emptied between rounds."""
    import torch

    best = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    return 1e6 * best


def a_failing_kernel_is_named() -> str:
    """Last: it costs the process its CUDA context."""
    import torch

    os.environ["NVDSL_SYNC"] = "1"
    d = torch.zeros(4, device="cuda")
    run = kernels.fault()
    message = kernels.expect(DeviceError, "kernel fault failed while it ran", lambda: run.call(d, 1))
    return message.splitlines()[0]


CHECKS = [
    numpy_is_staged, torch_in_place, mixed_arguments, other_libraries, torch_dtypes,
    tma_reads_through_an_encoded_map, rules_agree_with_the_driver, clusters, shared_memory, empty_grid, threads,
    graph_capture, no_leaks, host_time, a_failing_kernel_is_named,
]  # fmt: skip


def main() -> int:
    reason = device.probe()
    if reason is not None:
        print(f"no check is possible here: {reason}")
        return 1
    failed = 0
    for check in CHECKS:
        try:
            verdict, remark = "ok", check()
        except Exception as error:
            verdict, remark = "FAILED", f"{type(error).__name__}: {error}"
            traceback.print_exc()
            failed += 1
        print(f"{verdict:7}{check.__name__.replace('_', ' '):36}{remark}", flush=True)
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    failed = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(failed)  # the context is gone: what JAX writes about that while Python ends would hide the table
