"""The times of roads, by which one is taken."""

from types import SimpleNamespace

import pytest

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.gemm import dispatch, estimates, flat, roads
from nvdsl.kernels.gemm.estimates import MICROSECONDS, TERMS, Seen, microseconds
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix


def problem(m, n, k, layout="nt", dtype=nv.bf16, batch=()):
    def made(rows, cols, turned):
        strides = (1, rows) if turned else (cols, 1)
        return Matrix(dtype, (*batch, rows, cols), (*[rows * cols] * len(batch), *strides))

    return GemmProblem.of({"a": made(m, k, layout[0] == "t"), "b": made(k, n, layout[1] == "t")}, None, None)


def seen(*sizes, **more):
    return Seen.of(problem(*sizes, **more), arch.SMS)


def test_each_road_has_its_terms():
    assert MICROSECONDS.keys() == TERMS.keys() == roads.ROADS.keys()
    for name, constants in MICROSECONDS.items():
        assert len(constants) == len(TERMS[name](seen(40, 50, 60))) and all(c >= 0 for c in constants)


@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize("road", TERMS)
def test_more_takes_longer(road, layout):
    """Of two products with operands that are alike."""
    small, large = seen(90, 130, 75, layout=layout), seen(900, 1300, 275, layout=layout)
    several = seen(90, 130, 75, layout=layout, batch=(300,))
    assert microseconds(road, small) < microseconds(road, large)
    assert road in ("by_vectors", "by_residues") or microseconds(road, small) < microseconds(road, several)


def test_what_is_copied():
    assert seen(64, 64, 64).aligned and seen(64, 64, 64).copied == 0
    assert not seen(64, 64, 62).aligned and seen(64, 64, 62).pairs and not seen(64, 64, 63).pairs
    assert seen(500, 64, 63).copied == pytest.approx((500 + 64) * 63 * 2 / 1e6)
    assert seen(500, 64, 63, layout="nn").copied == pytest.approx(500 * 63 * 2 / 1e6)
    assert seen(8, 64, 64).stored and not seen(8, 63, 64).stored
    assert seen(8, 64, 64).whole and seen(8, 72, 64).stored and not seen(8, 72, 64).whole


def test_rows_that_begin_in_the_same_banks():
    """32 and 65 elements are 64 and 130 bytes, of 128 in all banks."""
    assert [flat.ways(k) for k in (8, 40, 36, 32, 65)] == [1, 1, 2, 4, 8]
    assert microseconds("by_runs", seen(2000, 2000, 65)) > 1.2 * microseconds("by_runs", seen(2000, 2000, 71))


def test_the_least_is_taken(monkeypatch):
    for module in (dispatch, roads):
        monkeypatch.setattr(module, "sim", SimpleNamespace(wanted=lambda target: False))
        monkeypatch.setattr(module, "sms", lambda target: arch.SMS)
    for sizes in ((100, 200, 90), (2000, 2000, 2000), (20, 30, 40), (64, 64, 3000), (1769, 291, 140)):
        given, it = problem(*sizes), seen(*sizes)
        names = dispatch.fastest(given, it, not it.aligned)
        times = [microseconds(name, it) for name in names]
        assert times == sorted(times) and next(dispatch.wanted(given, None, None)) is roads.ROADS[names[0]]


def test_what_is_never_compared(monkeypatch):
    """What would take a road far longer than others, or what its kernel can't do."""
    names = lambda *sizes, threads=False, large=False, **more: dispatch.fastest(  # noqa: E731
        problem(*sizes, **more), seen(*sizes, **more), threads, large
    )
    assert names(8000, 8000, 8000) == ["tensor_cores"]
    assert "by_threads" in names(300, 20, 333, threads=True) and "by_threads" not in names(300, 20, 333)
    assert "by_residues" in names(3000, 20, 9999, large=True) and "by_residues" not in names(3000, 20, 9999)
    assert "by_vectors" in names(300, 20, 333) and "by_vectors" not in names(300, 20, 336)
    assert {"by_runs", "by_strips 16"} <= {*names(300, 200, 91)} and "by_strips 32" not in names(300, 200, 91)
    assert {"by_strips 16", "by_strips 32"} <= {*names(300, 200, 91, layout="nn")}
    assert "by_runs" not in names(300, 200, 91, layout="nn") and "by_runs" not in names(300, 200, 129)
    monkeypatch.setattr(estimates, "MICROSECONDS", dict(MICROSECONDS, simple=(0.0,) * len(MICROSECONDS["simple"])))
    assert "tensor_cores" not in names(300, 200, 90)  # that is not even asked for
