"""The GPU, as a user asks about it. CUDA is loaded by the first call, not by the import."""

from __future__ import annotations


def no_gpu() -> str | None:
    """Why no kernel can run on a GPU here, in one sentence; None if kernels can run.

    The reason may be a missing driver, an old one, or that there is no Hopper GPU.
    """
    from nvdsl.driver.device import probe

    return probe()


def synchronize() -> None:
    """Wait until everything launched on the current CUDA context is done (``cuCtxSynchronize``). In the simulator
    every call has ended when it returns.

    Raises DeviceError with what went wrong in a kernel, if something did.
    """
    from nvdsl import sim

    if sim.wanted():
        return
    from nvdsl.driver.device import devices

    devices.default().synchronize()
