import pytest

import nvdsl as nv
from nvdsl import sim


def test_no_gpu_is_none_or_one_sentence():
    reason = nv.no_gpu()
    assert reason is None or (isinstance(reason, str) and len(reason) > 10 and "\n" not in reason)


@pytest.mark.skipif(nv.no_gpu() is None, reason="this machine has a Hopper GPU")
def test_without_a_gpu_synchronize_says_so(monkeypatch):
    monkeypatch.setattr(sim, "wanted", lambda target=None: False)  # as NVDSL_TARGET=gpu asks for
    with pytest.raises(nv.DeviceError) as caught:
        nv.synchronize()
    error = caught.value
    assert error.message == nv.no_gpu()
    assert "compil" in error.rule, "what works without one"
    assert error.fix
