"""What `bench_bound` times, and the process that times it: kernels that leave one thing out, in turn, beside cuBLAS."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from benchmarks import cublas
from benchmarks.operands import Operands, Wrong
from benchmarks.paired import CALL_SECONDS, MOST_PAIRS, Paired, Timer
from benchmarks.problems import Workload
from benchmarks.products import Product
from benchmarks.worker import Settings, Worker

CONFIGS: dict[str, dict[str, Any]] = {
    "cooperative": {"tile_n": 256, "group": 12},
    "pingpong": {"tile_n": 192, "stages": 5, "schedule": "pingpong", "group": 12, "store_buffers": 1},
}
CASES = (
    ("", "the whole kernel"), ("memory", "no reads of memory"), ("loads", "no loads"), ("stores", "no stores"),
    ("power", "operands of zeros"),
)  # fmt: skip
"""What is left out: one of `bound_kernels.KINDS`, or the power that random operands take; and its name."""
WARM, SETTLE, TIMED = 1.5, 0.3, 0.2
"""Seconds of a kernel alone: before the first one, until the clock has followed its power, and after that."""
MULTIPLY_ADDS = 2048
"""Of an SM's tensor cores in a clock, f16 with f32 sums: m64n256k16 takes 128 clocks."""


def products() -> list[Product]:
    """Both kernels in each of `CASES`."""
    road = {"function": "benchmarks.bounds:multiply"}
    return [
        Product(f"{schedule}, {name}", "function", options={**road, "schedule": schedule, "without": without})
        for schedule in CONFIGS
        for without, name in CASES
    ]


def multiply(a: Any, b: Any, out: Any, *, schedule: str, without: str) -> None:
    """One product, or what is left of it."""
    if without == "power":
        a, b = zeros((a.shape, b.shape), a.dtype)
        without = ""
    kernel, log, options = prepared(schedule, out.shape)
    kernel(a, b, out, log, without=without, **options)


@functools.cache
def prepared(schedule: str, shape: Any) -> tuple[Callable[..., Any], Any, dict[str, Any]]:
    """The kernel, where it writes what it says, and its options: found once, or the host would be slower than small
    products."""
    from benchmarks.bound_kernels import matmul
    from nvdsl.kernels.gemm.config import Config
    from nvdsl.kernels.gemm.launch import resident_blocks, sms

    config = Config(**CONFIGS[schedule])
    blocks = min(config.cluster * config.tiles(*shape), resident_blocks(config, sms(None)))
    return matmul, logs()[: 2 * blocks], {"config": config, "blocks": blocks}


@functools.cache
def zeros(shapes: tuple[Any, Any], dtype: Any) -> list[Any]:
    import torch

    return [torch.zeros(shape, dtype=dtype, device="cuda") for shape in shapes]


@functools.cache
def logs() -> Any:
    """What the kernels say: of each consumer, clocks and nanoseconds."""
    import torch

    from nvdsl.kernels.gemm.launch import sms

    return torch.zeros(2 * sms(None), 2, dtype=torch.int64, device="cuda")


def read_logs() -> tuple[float, float]:
    """GHz (the median), and the clocks of the block that took the longest."""
    clocks, nanoseconds = logs()[logs()[:, 1] > 0].double().T
    return (clocks / nanoseconds).median().item(), clocks.max().item()


class Sample(NamedTuple):
    """Of one call: milliseconds, those of cuBLAS beside it, the SM clock (the median block's) in GHz, and the clocks of
    the block that took the longest."""

    ms: float
    library_ms: float
    ghz: float
    clocks: float


class Bounds(Worker):
    """Times all products of a problem in turn."""

    def _time(self, problem: Workload, products: list[Product], settings: Settings) -> dict[str, Any]:
        self.doing("the data")
        operands = Operands.random(problem, settings.seed + problem.m)
        self.doing("cuBLAS")
        library, reference = cublas.best(operands)
        operands.poison()
        library_error = operands.error(reference())
        calls, errors = {}, {}
        for product in products:
            self.doing(product.name)
            calls[product.name] = product.call(operands)
            try:
                errors[product.name] = checked(product, operands, calls[product.name])
            except Wrong as error:
                raise Wrong(f"{product.name}: {error}") from None
        self.doing(None)
        samples = race(calls, reference, settings)
        rows = {
            product.name: {
                **product.plain(),
                "error": errors[product.name],
                "repeats": checked(product, operands, calls[product.name]) == errors[product.name],
                **summary(problem, product, samples[product.name]),
            }
            for product in products
        }
        alone(problem, faster(list(rows.values())), calls, reference)
        return {"library": library, "library_error": library_error, "highest_ghz": highest_ghz(),
                "products": list(rows.values())}  # fmt: skip


def checked(product: Product, operands: Operands, call: Callable[[], Any]) -> float | None:
    """The relative error, of what has one. Raises `Wrong` where a kernel did not do what it is there for."""
    without, out = product.options["without"], operands.out
    operands.poison()
    call()
    if without in ("", "memory"):
        return (few_slices(operands) if without else operands).error()
    right = {
        "loads": lambda: out.isfinite().all(),  # some sums, of every tile
        "stores": lambda: out.isnan().all(),
        "power": lambda: not out.any(),
    }[without]
    if not right():
        raise Wrong("something else is in the result")
    return None


def few_slices(operands: Operands) -> Operands:
    """With the product that comes of the first slices alone."""
    from benchmarks.bound_kernels import SLICES

    k = SLICES * 64
    exact = operands.a[:, :k].double() @ operands.b[:k].double() * (operands.problem.k / k)
    return replace(operands, exact=exact.float())


def race(
    calls: Mapping[str, Callable[[], Any]], reference: Callable[[], Any], settings: Settings, warmup: int = 2
) -> dict[str, list[Sample]]:
    """All in turn, each in a pair with cuBLAS; as many rounds as `paired.measure` would take for one."""
    timer, names = Timer(), list(calls)

    def once(name: str, library_first: bool) -> Sample:
        logs().zero_()
        ms = {}
        for one in (reference, calls[name]) if library_first else (calls[name], reference):
            ms[one] = timer.once(one)
        return Sample(ms[calls[name]], ms[reference], *read_logs())

    warm = [once(name, True) for _ in range(warmup) for name in names]
    pair = 2 * (statistics.median(s.library_ms for s in warm) / 1e3 + CALL_SECONDS)
    found: dict[str, list[Sample]] = {name: [] for name in names}
    for i in range(max(settings.pairs, min(MOST_PAIRS, int(settings.seconds / pair)))):
        for name in names if i % 2 == 0 else reversed(names):
            found[name].append(once(name, i % 2 == 0))
    return found


def faster(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each of `CASES` the faster kernel's row."""
    cases = [[r for r in rows if r["options"]["without"] == without] for without, _ in CASES]
    return [max(mine, key=lambda r: r["ratio"]) for mine in cases if mine]


def alone(
    problem: Workload, rows: list[dict[str, Any]], calls: Mapping[str, Callable[[], Any]], reference: Callable[[], Any]
) -> None:
    """Add to ``rows`` what each kernel does by itself, call after call, with cuBLAS before and after it: what a long
    queue sustains, at the clock that the kernel's own power leaves."""
    after = sustained(reference, rows[0]["library_ms"], settle=WARM)
    for row in rows:
        before, mine = after, sustained(calls[row["name"]], row["ms"])
        ghz, _ = read_logs()
        after = sustained(reference, row["library_ms"])
        library = (before + after) / 2
        row |= {
            "alone_ratio": library / mine,
            "alone_ghz": ghz,
            "alone_tflops": problem.flops / mine / 1e9,
            "alone_library_tflops": problem.flops / library / 1e9,
        }


def sustained(call: Callable[[], Any], ms: float, settle: float = SETTLE) -> float:
    """Milliseconds of a call among many. ``ms``: about how many; ``settle``: seconds before the timed ones."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    count = max(1, int(TIMED * 1e3 / ms))
    for _ in range(int(settle * 1e3 / ms)):
        call()
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / count


def summary(problem: Workload, product: Product, samples: list[Sample]) -> dict[str, Any]:
    """``busy``: in how much of the longest block's clocks its tensor cores multiply. ``useful``: in how much of them
    all the GPU's do, where products beyond the result's edge, and SMs without a tile in the last round, are idle."""
    from nvdsl.hopper import arch
    from nvdsl.kernels.gemm.config import Config

    config = Config(**CONFIGS[product.options["schedule"]])
    timed = Paired([s.ms for s in samples], [s.library_ms for s in samples]).summary()
    clocks = statistics.median(s.clocks for s in samples)
    rounds = -(-config.tiles(problem.m, problem.n) // arch.SMS)
    return {
        **{name: timed[name] for name in ("ratio", "ratio_low", "ratio_high", "pairs")},
        "ghz": statistics.median(s.ghz for s in samples),
        "busy": rounds * config.tile_m * config.tile_n * problem.k / MULTIPLY_ADDS / clocks,
        "useful": problem.flops / 2 / MULTIPLY_ADDS / arch.SMS / clocks,
        "ms": timed["a_ms"],
        "library_ms": timed["b_ms"],
        "tflops": problem.flops / timed["a_ms"] / 1e9,
        "library_tflops": problem.flops / timed["b_ms"] / 1e9,
    }


def highest_ghz() -> float:
    """The SM clock that the GPU is made for, where power leaves it."""
    from cuda.bindings import driver

    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE
    _, kilohertz = driver.cuDeviceGetAttribute(attribute, driver.CUdevice(0))
    return kilohertz / 1e6
