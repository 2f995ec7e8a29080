"""First calls of nvdsl's functions in a process: seconds until the GPU is done.

`first` with nothing of nvdsl's on disk; `converted` in a later process with an empty cache, for which the first one has
left what it converted Python to (`nvdsl.trace.kept`); `later` in one more, which finds the kernels, too.

    python benchmarks/bench_first.py [NAME ...] [--seconds 60] [--out FILE.json]

Each process is forked from one that has imported torch and nothing of nvdsl. It starts CUDA, imports nvdsl, makes the
arrays, and calls once. "60 sizes" is 60 random numbers of rows beside one weight of 4096 x 4096. Python writes its .pyc
files before, as an installation does.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.paired import machine, write

BF16 = torch.bfloat16
Calls = list[Callable[[], object]]


def _normal(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def sizes(nv: Any, seed: int) -> Calls:
    half = torch.float16
    a, w, out = (_normal(*shape, dtype=half) for shape in ((8192, 4096), (4096, 4096), (8192, 4096)))
    draw = random.Random(seed)
    return [lambda m=m: nv.matmul(a[:m], w.T, out[:m]) for m in [draw.randint(1, 8192) for _ in range(60)]]  # type: ignore[misc]


def attention(nv: Any, size: int = 128, **options: Any) -> Calls:
    q, k, v, out = (_normal(2, 4096, 16, size) for _ in range(4))
    return [lambda: nv.attention(q, k, v, out, **options)]


def decoding(nv: Any) -> Calls:
    q, k, v = _normal(8, 1, 32, 128), _normal(8, 8192, 4, 128), _normal(8, 8192, 4, 128)
    return [lambda: nv.attention(q, k, v)]


def gradient(nv: Any) -> Calls:
    q, k, v, dout = (_normal(2, 2048, 16, 128) for _ in range(4))
    out, lse = nv.attention(q, k, v, return_lse=True)
    return [lambda: nv.attention_backward(q, k, v, out, dout, lse)]


def rows(nv: Any) -> dict[str, Callable[[], object]]:
    x, w, y = _normal(4096, 4096), _normal(4096), _normal(4096, 4096)
    labels = torch.randint(0, 4096, (4096,), device="cuda")
    mean, rstd = _normal(4096, dtype=torch.float32), _normal(4096, dtype=torch.float32).abs()
    long, steps = _normal(64, 65_536), _normal(16, 64, 256)
    weights = [_normal(1024, 256), _normal(1024, 256), _normal(1024), _normal(1024)]
    gates = [_normal(768, 256), _normal(768, 256), _normal(768), _normal(768)]
    layers, biases = [_normal(128, 128) for _ in range(8)], [_normal(128) for _ in range(8)]
    return {
        "softmax": lambda: nv.softmax(x, y),
        "softmax_backward": lambda: nv.softmax_backward(x, y),
        "layer_norm": lambda: nv.layer_norm(x, w, w, out=y),
        "layer_norm, residual and moments": lambda: nv.layer_norm(
            x, w, w, residual=y, residual_out=True, mean=True, rstd=True
        ),
        "layer_norm of 65,536 columns": lambda: nv.layer_norm(long),
        "layer_norm_backward": lambda: nv.layer_norm_backward(x, y, mean, rstd, w),
        "rms_norm": lambda: nv.rms_norm(x, w, out=y),
        "rms_norm to e4m3": lambda: nv.rms_norm(x, w, out_dtype=nv.e4m3),
        "rms_norm_backward": lambda: nv.rms_norm_backward(x, y, rstd, w),
        "cross_entropy": lambda: nv.cross_entropy(x, labels),
        "cross_entropy, gradient": lambda: nv.cross_entropy(x, labels, grad=True, label_smoothing=0.1, z_loss=0.1),
        "mlp": lambda: nv.mlp(long[0, : 4096 * 8].view(-1, 128), layers, biases, activation="relu"),
        "lstm": lambda: nv.lstm(steps, weights),
        "lstm, saved": lambda: nv.lstm(steps, weights, save=True),
        "gru": lambda: nv.gru(steps, gates),
        "gru, saved": lambda: nv.gru(steps, gates, save=True),
    }


ROWS = ["softmax", "softmax_backward", "layer_norm", "layer_norm, residual and moments", "layer_norm of 65,536 columns",
        "layer_norm_backward", "rms_norm", "rms_norm to e4m3", "rms_norm_backward", "cross_entropy",
        "cross_entropy, gradient", "mlp", "lstm", "lstm, saved", "gru", "gru, saved"]  # fmt: skip
CASES: dict[str, Callable[[Any], Calls]] = {
    "60 sizes": lambda nv: sizes(nv, 1),
    "attention": attention,
    "attention, causal": lambda nv: attention(nv, causal=True),
    "60 sizes, others": lambda nv: sizes(nv, 2),
    "attention of 64": lambda nv: attention(nv, 64),
    "attention of 256": lambda nv: attention(nv, 256),
    "attention, decoding": decoding,
    "attention_backward": gradient,
    **{name: lambda nv, name=name: [rows(nv)[name]] for name in ROWS},  # type: ignore[misc]
}


def _called(name: str) -> dict[str, float]:
    """In a process of its own."""
    torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    import nvdsl as nv

    imported = time.perf_counter() - start
    calls, found = CASES[name](nv), []
    torch.cuda.synchronize()
    for call in calls:
        start = time.perf_counter()
        call()
        if len(calls) == 1:
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return {"import_s": imported, "s": sum(found), "longest_s": max(found)}


def _forked(name: str, folder: str) -> dict[str, Any]:
    """What `_called` finds in a child whose cache is ``folder``."""
    result = Path(folder, "result.json")
    child = os.fork()
    if not child:
        os.environ["NVDSL_CACHE_DIR"] = str(Path(folder, "cache"))
        try:
            found: dict[str, Any] = _called(name)
        except BaseException as error:
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        result.write_text(json.dumps(found))
        os._exit(0)
    os.waitpid(child, 0)
    return json.loads(result.read_text())  # type: ignore[no-any-return]


def _compiled_modules() -> None:
    """Let Python write the .pyc files, whatever the environment says."""
    sys.dont_write_bytecode = False
    child = os.fork()
    if not child:
        import nvdsl

        for module in pkgutil.walk_packages(nvdsl.__path__, "nvdsl."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
        os._exit(0)
    os.waitpid(child, 0)


KINDS = "first", "converted", "later"


def _drop_conversions() -> None:
    for path in Path(__file__).parents[1].joinpath("nvdsl").rglob("*.nvdsl.pyc"):
        path.unlink()


def measured(name: str) -> dict[str, Any]:
    caches = [tempfile.mkdtemp() for _ in range(2)]
    _drop_conversions()
    try:
        first, converted, later = (_forked(name, folder) for folder in (caches[0], caches[1], caches[1]))
    finally:
        for folder in caches:
            shutil.rmtree(folder, ignore_errors=True)
    return {"what": name, "first": first, "converted": converted, "later": later}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--seconds", type=float, default=300.0, help="nothing new is begun afterwards")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    start, found = time.perf_counter(), []
    _compiled_modules()
    for name in args.names:
        if time.perf_counter() - start > args.seconds:
            print(f"no time for {name}")
            continue
        row = measured(name)
        found.append(row)
        errors = [row[kind]["error"] for kind in KINDS if "error" in row[kind]]
        times = [f"{kind} {row[kind]['s']:.3f} s" for kind in KINDS if not errors]
        print(f"{name:34} {', '.join(errors or times)}", flush=True)
    if args.out:
        write(args.out, "bench_first.py", {"machine": machine(), "rows": found})


if __name__ == "__main__":
    main()
