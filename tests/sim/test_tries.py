"""What chapters 6 to 9 say to try: a change of their source, and what the simulator or the verifier says to it."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import SimError
from tests.sim.programs import ROOT

TURNS = (
    ("                nv.named_barrier_arrive(others_turn, 256)\n            for t", "            for t"),
    ("                nv.named_barrier_sync(my_turn, 256)\n", ""),
    ("                if t + blocks < tiles:\n                    nv.named_barrier_arrive(others_turn, 256)\n", ""),
)
ONE_PIECE = (("(2 * consumers, 64, 64)", "(consumers, 64, 64)"), ("consumer * 2 + piece % 2", "consumer"))


def run(path, name, changes, m, n, k, **options):
    """Run a changed chapter in the simulator, on small integers."""
    source = (ROOT / "chapters" / name).read_text()
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    path.write_text(source)
    module = {"__name__": path.stem}
    exec(compile(source, str(path), "exec"), module)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    d = np.full((m, n), np.nan, np.float16)
    module["gemm"](a, b, d, target="sim", **options)
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(
    ("name", "changes", "call", "error", "said"),
    [
        ("ch6_tma_store_gemm.py", [("        nv.fence_proxy_async()  #", "        #")], ((128, 256, 64), {}),
         nv.VerifyError, "no proxy fence in between"),
        ("ch6_tma_store_gemm.py", ONE_PIECE, ((128, 256, 64), {}), SimError, "bulk store"),
        ("ch8_cluster_gemm.py", [("        nv.cluster_sync()  # nobody leaves", "        # nobody leaves")],
         ((512, 512, 256), {"blocks": 4}), SimError, "has not returned"),
        ("ch9_pingpong_gemm.py", TURNS, ((512, 384, 256), {"blocks": 2}), SimError, "nothing orders the two"),
    ],
    ids=["6 without the fence", "6 with one piece", "8 without the last sync", "9 without turns"],
)  # fmt: skip
def test_what_is_reported(tmp_path, name, changes, call, error, said):
    shape, options = call
    with pytest.raises(error, match=said) as caught:
        run(tmp_path / "changed.py", name, changes, *shape, **options)
    assert caught.value.where.file == str(tmp_path / "changed.py")


@pytest.mark.parametrize(
    ("name", "changes", "shape", "options"),
    [
        ("ch6_tma_store_gemm.py", [*ONE_PIECE, ("bulk_wait_group(1,", "bulk_wait_group(0,")], (128, 256, 64), {}),
        ("ch7_persistent_gemm.py", [], (512, 512, 64), {"group": 1, "blocks": 3}),
        ("ch7_persistent_gemm.py", [], (512, 512, 64), {"group": 64, "blocks": 131}),
        ("ch8_cluster_gemm.py", [], (1024, 256, 64), {"cluster": 4, "blocks": 120}),
        ("ch9_pingpong_gemm.py", [], (512, 256, 128), {"tile": (128, 128, 64), "stages": 6, "blocks": 2}),
    ],
    ids=["6 with one piece and its wait", "7 group=1", "7 group=64 blocks=131", "8 cluster=4", "9 tile and stages"],
)
def test_what_is_right(tmp_path, name, changes, shape, options):
    run(tmp_path / "changed.py", name, changes, *shape, **options)
