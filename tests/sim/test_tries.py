"""What the chapters say to try: a change of their source, or other values, and what comes of it."""

import pytest

import nvdsl as nv
from nvdsl.errors import SimError
from tests.exhaustive import sample
from tests.sim.programs import ROOT

TURNS = (
    ("                nv.named_barrier_arrive(others_turn, 256)\n            for t", "            for t"),
    ("                nv.named_barrier_sync(my_turn, 256)\n", ""),
    ("                if t + blocks < tiles:\n                    nv.named_barrier_arrive(others_turn, 256)\n", ""),
)
ONE_PIECE = (("(2 * consumers, 64, 64)", "(consumers, 64, 64)"), ("consumer * 2 + number % 2", "consumer"))
SWIZZLE = (
    ("nv.TMA(x, tile=(ROWS, COLS))", "nv.TMA(x, tile=(ROWS, COLS), swizzle=128)"),
    ("nv.TMA(y, tile=(ROWS, COLS))", "nv.TMA(y, tile=(ROWS, COLS), swizzle=128)"),
    ("nv.smem((ROWS, COLS), x.dtype)", "nv.smem((ROWS, COLS), x.dtype, swizzle=128)"),
    ("nv.smem((ROWS, COLS), y.dtype)", "nv.smem((ROWS, COLS), y.dtype, swizzle=128)"),
)
NEIGHBOURS = (
    ("((E(0, 4), E(1, 0)), (E(0, 1), E(0", "((E(0, 1), E(1, 0)), (E(0, lanes), E(0"),
    ("((E(0, 4), E(0, 0)), (E(0, 1), E(0", "((E(0, 1), E(0, 0)), (E(0, lanes), E(0"),
)
NO_IF = [("        if i < n:\n            y[i]", "        y[i]")]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a changed chapter in the simulator, and the check of the numbers in its `main`."""
    monkeypatch.setenv("NVDSL_TARGET", "sim")

    def run(chapter, changes=(), **options):
        (file,) = (ROOT / "chapters").glob(f"{chapter}_*.py")
        source = file.read_text()
        begin = source.index('"""', source.index('"""') + 3)
        for old, new in changes:
            assert source.count(old, begin) == 1, old
            source = source[:begin] + source[begin:].replace(old, new)
        path = tmp_path / "changed.py"
        path.write_text(source)
        module = {"__name__": "changed", "__file__": str(path)}
        exec(compile(source, str(path), "exec"), module)
        module["main"](**options)

    return run


@pytest.mark.parametrize(
    ("chapter", "changes", "options", "error", "said"),
    [
        ("ch1", NO_IF, {}, SimError, "index 1000 on axis 0"),
        ("ch2", [("        nv.sync_threads()  #", "        #")], {"M": 16}, nv.VerifyError, "threads 32-63"),
        ("ch2", [("loaded.wait(0)", "loaded.wait(1)")], {"M": 16}, nv.VerifyError, "returns before they arrive"),
        ("ch6", ONE_PIECE, {"M": 128, "N": 256, "K": 64}, SimError, "bulk store"),
        ("ch8", [("4 * consumers * cluster", "4 * consumers")], {}, nv.VerifyError, "8 arrivals"),
        ("ch9", TURNS, {}, SimError, "nothing orders the two"),
    ],
    ids=["1 without if", "2 without sync", "2 parity 1", "6 with one piece", "8 half the arrivals", "9 without turns"],
)
def test_what_is_reported(run, tmp_path, chapter, changes, options, error, said):
    with pytest.raises(error, match=said) as caught:
        run(chapter, changes, **options)
    assert caught.value.where.file == str(tmp_path / "changed.py")


@pytest.mark.parametrize(
    ("chapter", "changes", "options"),
    sample([
        ("ch1", NO_IF, {"n": 1024}),
        ("ch2", SWIZZLE, {}),
        ("ch3", [], {"K": 192}),
        ("ch4", [("            nv.sync_threads()  #", "            #")], {"M": 128, "N": 128, "K": 320}),
        ("ch4", [], {"M": 128, "N": 128, "K": 8}),
        ("ch6", [*ONE_PIECE, ("bulk_wait_group(1,", "bulk_wait_group(0,")], {"M": 128, "N": 256, "K": 64}),
        ("ch7", [], {"K": 64, "group": 1, "blocks": 3}),
        ("ch7", [], {"K": 64, "group": 64, "blocks": 131}),
        ("ch8", [], {"M": 1024, "N": 256, "K": 64, "cluster": 4, "blocks": 120}),
        ("ch9", [], {"N": 256, "K": 128, "tile": (128, 128, 64), "stages": 6}),
        ("ch17", NEIGHBOURS, {"lanes": 32}),
    ], 5),
    ids=lambda x: " ".join(f"{k}={v}" for k, v in x.items()) if isinstance(x, dict) else None,
)  # fmt: skip
def test_what_is_right(run, chapter, changes, options):
    run(chapter, changes, **options)


@pytest.mark.parametrize(
    ("chapter", "options", "said"),
    [
        ("ch6", {"stages": 1}, "stages = 1"),
        ("ch7", {"stages": 1}, "stages = 1"),
        ("ch8", {"stages": 1}, "stages = 1"),
        ("ch9", {"stages": 1}, "stages = 1"),
        ("ch9", {"M": 64, "N": 64, "tile": (64, 64, 64)}, "a tile of 1 pieces"),
        ("ch2", {"M": 17}, "M = 17"),
        ("ch3", {"M": 100}, "an accumulator of 100 x 128"),
    ],
    ids=str,
)
def test_values_that_do_not_fit(run, chapter, options, said):
    with pytest.raises(nv.NvdslError, match=said):
        run(chapter, **options)
