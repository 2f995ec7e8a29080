"""A short hunt (`make hunt` goes on): random correct kernels pass, and what their mutants do is written down."""

import numpy as np
import pytest

from tests.hunt import steps
from tests.hunt.__main__ import report
from tests.hunt.hunt import Finding, Hunted, hunt
from tests.hunt.kernels import draw


@pytest.mark.parametrize("number", range(6))
def test_random_kernels_are_right_and_their_mutants_do_not_pass_with_wrong_numbers(number):
    found = hunt(0, number, mutants=3)
    assert found.judged == 3
    assert not [f for f in found.findings if f.kind != "right numbers"]


def test_the_same_number_is_the_same_kernel():
    texts = [draw(3, number)[0] for number in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


def test_every_way_is_drawn():
    text = "".join(draw(0, number)[0] for number in range(40))
    ways = {"sync_warp", "shuffle_xor", "arrive_expect_tx", "multicast_mask", "mapa", "store_release", "fence_proxy"}
    assert not [way for way in ways if way not in text]
    assert len(ways) <= len(steps.ANYWHERE) + len(steps.CLUSTERS) + len(steps.BLOCKS)


def test_a_wrong_original_is_an_alarm(monkeypatch):
    """The model and the program are compared, and the verifier and the simulator asked."""

    def wrong(draft):
        steps.by_shuffle(draft)
        draft.values = np.zeros_like(draft.values)

    def racing(draft):
        s = draft.tile()
        draft.body += [f"{s}[0, tid] = v", f"v = {s}[0, {draft.threads - 1} - tid]"]
        draft.values = draft.values[:, ::-1]

    for way, said in ((wrong, "Arrays are not equal"), (racing, "nothing orders")):
        monkeypatch.setattr(steps, "ANYWHERE", (way,))
        monkeypatch.setattr(steps, "CLUSTERS", ())
        monkeypatch.setattr(steps, "BLOCKS", ())
        (finding,) = hunt(0, 1, mutants=1).findings
        assert finding.kind == "false alarm" and said in finding.what


def test_the_report_has_the_worst_first():
    def one(kind):
        return Finding(1, kind, "barrier deleted: without gpu.barrier", "line 9: nv.sync_threads()", "import nvdsl")

    text = report(7, [Hunted(1, 5, 3, (one("right numbers"), one("wrong numbers")))])
    assert "1 kernels, 5 mutants, 3 reported" in text
    assert text.index("## wrong numbers: 1") < text.index("## right numbers: 1") < text.index("```python")
