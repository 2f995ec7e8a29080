"""Facts about Hopper that the checks rest on, asked of the GPU.

    python benchmarks/facts.py [--out benchmarks/results/facts-h200.json]

Each question runs in a process of its own with a deadline: several break a rule, and one of them hangs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nvdsl.testing import ChildFailed, ChildTimeout, missing_hopper, run_in_child  # noqa: E402

PLACES = ("fence", "first", "middle", "commit", "wait")


def wgmma_wait() -> dict[str, Any]:
    """Does a warp's wait for wgmma return while another warp of the warpgroup has not come to its wgmma?"""
    from benchmarks.facts_kernels import wgmma_case

    found: dict[str, Any] = {}
    for place in PLACES:
        for late in (3, 0):
            case = wgmma_case(place, late, 200_000, False, 1)
            found[f"warp {late} late at {place}"] = {
                "issued all wgmmas at": [row[3] for row in case["times"]],
                "passed its wait at": [row[5] for row in case["times"]],
                "wrong": case["wrong_warps"],
            }
    return found


def wgmma_overwrite() -> dict[str, Any]:
    """Warp 0 overwrites the operands after its own wait: whose sums are wrong?"""
    from benchmarks.facts_kernels import wgmma_case

    g, found = np.random.default_rng(0), {}
    for place in PLACES:
        wrong = [0, 0, 0, 0]
        for seed in range(40):
            for warp in wgmma_case(place, int(g.integers(1, 4)), int(g.integers(0, 6000)), True, seed)["wrong_warps"]:
                wrong[warp] += 1
        found[place] = wrong
    return found


def elect() -> dict[str, Any]:
    """elect.sync with the full mask in half a warp."""
    from benchmarks.facts_kernels import elect_in_half_a_warp

    out = np.full(2, -1, np.int32)
    elect_in_half_a_warp(out)
    return {"elected": int(out[0]), "finished": bool(out[1] == 7)}


def divergent_lanes() -> dict[str, Any]:
    """Shuffles of a full mask from both branches; a hand-over between two lanes."""
    from benchmarks.facts_kernels import lanes_of_one_warp_hand_over, shuffle_from_both_branches

    x, out, one = np.arange(32, dtype=np.float32), np.zeros(32, np.float32), np.zeros(4, np.float32)
    shuffle_from_both_branches(x, out)
    s = x[:16] + x[16:]
    lanes_of_one_warp_hand_over(one)
    return {"shuffle_right": bool((out[:16] == s).all() and (out[16:] == 10 * s).all()), "hand_over": float(one[0])}


def arithmetic() -> dict[str, Any]:
    """What division by zero and wide shifts give."""
    from benchmarks.facts_kernels import arithmetic

    x = np.array([7, -7, -(2**31), 5, 5, -5] + [1] * 26, np.int32)
    y = np.array([0, 0, -1, 32, 40, 33] + [1] * 26, np.int32)
    out = np.zeros((4, 32), np.int32)
    arithmetic(x, y, out)
    names = ("//", "%", "<<", ">>")
    return {f"{a} {n} {b}": int(out[i, j]) for j, (a, b) in enumerate(zip(x[:6], y[:6], strict=True))
            for i, n in enumerate(names)}  # fmt: skip


def block_scope() -> dict[str, Any]:
    """264 blocks of 1024 threads add one to a counter by atomics of each scope."""
    from benchmarks.facts_kernels import add_of_a_block

    found = {}
    for scope in ("block", "device"):
        counter = np.zeros(4, np.int32)
        add_of_a_block(counter, scope=scope)
        found[scope] = int(counter[0])
    return {**found, "wanted": 264 * 1024}


def reduction() -> dict[str, Any]:
    """A TMA reduction that all 32 lanes execute, of ones."""
    from benchmarks.facts_kernels import reduce_by_all_lanes

    out = np.zeros((16, 64), np.float32)
    reduce_by_all_lanes(out)
    return {"sums": sorted({float(x) for x in out.ravel()})}


def launch_order() -> dict[str, Any]:
    """In which order 1,056 blocks, two an SM, draw tickets."""
    from benchmarks.facts_kernels import order_of_blocks

    runs = []
    for _ in range(5):
        ticket, order = np.zeros(4, np.int32), np.full(1056, -1, np.int32)
        order_of_blocks(ticket, order)
        moved = order - np.arange(1056)
        runs.append({"not in place": int((moved != 0).sum()), "furthest": int(abs(moved).max())})
    return {"runs": runs}


QUESTIONS: tuple[Callable[[], dict[str, Any]], ...] = (
    wgmma_wait, wgmma_overwrite, divergent_lanes, arithmetic, block_scope, reduction, launch_order, elect,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "facts-h200.json")
    options = parser.parse_args()
    if reason := missing_hopper():
        sys.exit(f"no Hopper GPU: {reason}")
    answers = {}
    for question in QUESTIONS:
        name = question.__name__
        try:
            answer: Any = run_in_child(f"benchmarks.facts:{name}", timeout=40).value
        except ChildTimeout:
            answer = "hangs: ended after 40 s"
        except ChildFailed as failure:
            answer = f"failed: {str(failure)[-600:]}"
        answers[name] = {"question": question.__doc__, "answer": answer}
        print(f"== {name}: {question.__doc__}\n{json.dumps(answer, indent=1) if isinstance(answer, dict) else answer}")
    machine = run_in_child("benchmarks.facts:machine", timeout=60).value
    about = {"date": datetime.date.today().isoformat(), "machine": machine, "command": "python benchmarks/facts.py"}
    options.out.write_text(json.dumps({**about, "facts": answers}, indent=1) + "\n")


def machine() -> str:
    from nvdsl.driver import cuda

    driver = cuda.Cuda()
    return f"{driver.device_name(0)}, driver for CUDA {driver.driver_version()}"


if __name__ == "__main__":
    main()
