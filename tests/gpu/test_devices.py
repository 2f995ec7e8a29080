"""Several GPUs: a call runs where its arrays are, whatever device is current. Skipped where there is one GPU."""

import pytest

import nvdsl as nv
from chapters.ch4_multistage_gemm import gemm
from nvdsl.testing import in_child


@in_child(timeout=120)
def test_the_arrays_own_device():
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    torch.cuda.set_device(0)
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        a, b = torch.randn(256, 256, device=device).half(), torch.randn(256, 256, device=device).half()
        d = torch.full((256, 256), float("nan"), device=device)
        gemm(a, b, d)
        reference = a.double() @ b.double()
        assert ((d.double() - reference).norm() / reference.norm()).item() < 1e-5
        assert torch.cuda.current_device() == 0  # the caller's device is left as it was
    with pytest.raises(nv.ArgumentError, match="device"):
        gemm(a, b, d.to("cuda:0"))
