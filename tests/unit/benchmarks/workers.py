"""Workers that need no GPU: by a product's name they answer as `benchmarks.worker.Worker` does, hang, crash, refuse."""

from __future__ import annotations

import os
import time
from typing import Any


class FakeWorker:
    doing: Any

    def start(self) -> dict[str, str]:
        return {"gpu": "none"}

    def prepare(self, problem: Any, products: list[Any]) -> dict[str, Any]:
        return {p.name: "spills: ['kernel']" if p.name == "spiller" else 0.1 for p in products}

    def time(self, problem: Any, products: list[Any], settings: Any) -> dict[str, Any]:
        rows = []
        for i, product in enumerate(products):
            self.doing(product.name)
            if product.name == "hanger":
                time.sleep(60)
            if product.name == "crasher":
                os._exit(7)
            if product.name == "refuser":
                raise RuntimeError("no such thing")
            ms, library_ms = problem.seconds * 1e3 / (1.05 - 0.1 * i), problem.seconds * 1e3
            rows.append({
                **product.plain(), "error": 1e-4, "repeats": True, "ms": ms, "library_ms": library_ms,
                "tflops": problem.flops / ms / 1e9, "library_tflops": problem.flops / library_ms / 1e9,
                "ratio": library_ms / ms, "ratio_low": library_ms / ms - 0.01, "ratio_high": library_ms / ms + 0.01,
                "pairs": 12, "sustained": 1.0,
            })  # fmt: skip
        return {"library": "fake", "library_error": 1e-4, "products": rows}


class Unstartable:
    def start(self) -> dict[str, str]:
        raise RuntimeError("no GPU here")
