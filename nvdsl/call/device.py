"""The GPU, as a user asks about it. CUDA is loaded by the first call, not by the import."""

from __future__ import annotations


def no_gpu() -> str | None:
    """None where kernels can run, else the reason in one sentence (no driver, no Hopper GPU, a driver too old)."""
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
