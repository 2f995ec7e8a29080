"""What is timed beside cuBLAS, as data: a `Product` can be sent to another process and written into a result."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.problems import Workload

Call = Callable[[], Any]


@dataclass(frozen=True)
class Product:
    """One way to multiply. ``name``: unique among those timed together.

    ``road``: "matmul" (`nv.matmul`, which also knows scales), "gemm" (`nvdsl.kernels.gemm`, a configuration and nothing
    else), "function" (a jit function called with a, b, out), "naive" (`nvdsl.kernels.gemm.simple`), "kernel"
    (`nv.matmul`, but by the one of `nvdsl.kernels.gemm.roads` that ``options`` name as ``by``).
    ``config``: fields of `nvdsl.kernels.Config` that differ from its defaults; None: nv.matmul chooses.
    ``options``: further keyword arguments; of "function" also ``function``, "module:name".
    """

    name: str
    road: str = "matmul"
    config: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in (None, {})}

    def call(self, operands: Any) -> Call:
        """The product of `operands.Operands`, ready to be called again and again. Nothing is compiled yet."""
        return ROADS[self.road](self, operands)


def _matmul(product: Product, operands: Any) -> Call:
    from nvdsl.kernels.gemm.matmul import matmul

    options = dict(product.options)
    if product.config is not None:
        options["config"] = _config(product)
    if operands.scale_a is not None:
        options |= {"scale_a": operands.scale_a, "scale_b": operands.scale_b}
    acc = _acc(operands.problem)
    return lambda: matmul(operands.a, operands.b, operands.out, acc_dtype=acc, **options)


def _gemm(product: Product, operands: Any) -> Call:
    from nvdsl.kernels.gemm.launch import gemm

    if operands.scale_a is not None:
        raise ValueError("nvdsl.kernels.gemm has no scales by itself: use nv.matmul")
    config, acc = _config(product), _acc(operands.problem)
    return lambda: gemm(operands.a, operands.b, operands.out, config=config, acc_dtype=acc, **product.options)


def _naive(product: Product, operands: Any) -> Call:
    from nvdsl.kernels.gemm.launch import sms
    from nvdsl.kernels.gemm.simple import matmul

    a, b, out = (x[None] for x in (operands.a, operands.b, operands.out))
    return lambda: matmul(a, b, out, sms=sms(None))


def _function(product: Product, operands: Any) -> Call:
    options = dict(product.options)
    module, _, name = options.pop("function").partition(":")
    function = getattr(importlib.import_module(module), name)
    return lambda: function(operands.a, operands.b, operands.out, **options)


def _kernel(product: Product, operands: Any) -> Call:
    from nvdsl.call.launches import Launches
    from nvdsl.kernels.blocks.linear_combination import LinearCombination
    from nvdsl.kernels.gemm.arguments import matrix
    from nvdsl.kernels.gemm.dispatch import shared
    from nvdsl.kernels.gemm.matmul import ProductCall
    from nvdsl.kernels.gemm.problem import GemmProblem
    from nvdsl.kernels.gemm.roads import ROADS

    arrays = operands.a, operands.b, operands.out
    call, launches = ProductCall(*arrays, acc_dtype=_acc(operands.problem)), Launches()
    given = {name: matrix(argument) for name, argument in call.arguments.items()}
    problem, finish = GemmProblem.of(given, call.bound.problem.acc_dtype, None), LinearCombination()
    bound = ROADS[product.options["by"]](problem, finish, shared(problem, finish), None)
    if bound is None:
        raise ValueError(f"{product.name} has no kernel for {operands.problem.key}")
    call.bound = bound

    def run() -> None:
        if launches.launch(arrays, (), None) is None:
            _, launch = call.run(None)
            if launch is not None:
                launches.keep(arrays, (), launch)

    return run


ROADS: dict[str, Callable[[Product, Any], Call]] = {
    "matmul": _matmul, "gemm": _gemm, "naive": _naive, "function": _function, "kernel": _kernel
}  # fmt: skip


def _config(product: Product) -> Any:
    from nvdsl.kernels.gemm.config import Config

    return Config(**(product.config or {}))


def _acc(problem: Workload) -> Any:
    import nvdsl as nv

    return getattr(nv, problem.acc)


def chosen(problem: Workload, road: str, table: list[dict[str, Any]]) -> Product:
    """nvdsl's product for a problem.

    ``table``: rows of a search (`search_matmul`): the configuration of the same sizes, or else of the nearest. Where
    none is of this kind nv.matmul chooses, or on the road "gemm" `guess`.
    """
    rows = [row for row in table if row["problem"]["kind"] == problem.kind and "config" in row]
    if rows:
        config = min(rows, key=lambda row: _distance(problem, row["problem"]))["config"]
    elif road == "gemm":
        config = guess(problem)
    else:
        return Product("nvdsl", road)
    return Product("nvdsl", road, config)


def _distance(problem: Workload, other: Mapping[str, Any]) -> float:
    """0 for the same sizes; else by how much the extents differ, as ratios."""
    pairs = ((problem.m, other["m"]), (problem.n, other["n"]), (problem.k, other["k"]))
    return sum(max(x / y, y / x) for x, y in pairs) - 3


def guess(problem: Workload) -> dict[str, Any]:
    """The one of `candidates` that the model likes best, of those that need no workspace."""
    from benchmarks.candidates import ranked

    return next(config for config in ranked(problem) if config.get("schedule") != "streamk")
