"""The GPU that is tuned for, as far as the rest of `nvdsl.tune` must know it."""

from __future__ import annotations

from nvdsl import sim
from nvdsl.call.specialize import Call
from nvdsl.hopper import arch


def missing() -> str | None:
    """Why nothing can be timed here, or None where it can."""
    if not sim.wanted():
        return None
    from nvdsl.call.device import no_gpu

    return no_gpu() or "NVDSL_TARGET=sim"


def ordinal(call: Call) -> int:
    """The device of the call's first device array, or else the current one."""
    from nvdsl.driver.device import devices

    for value in call.values:
        if isinstance(value, tuple) and value[1].device >= 0:
            return value[1].device
    return devices.default().ordinal


def identity(call: Call) -> dict[str, str]:
    """The name and the compute capability of the call's device; no name where there is none."""
    capability = ".".join(map(str, arch.COMPUTE_CAPABILITY))
    if missing():
        return {"name": "", "capability": capability}
    from nvdsl.driver.device import devices

    return {"name": devices.cuda.device_name(ordinal(call)), "capability": capability}


def multiprocessors(call: Call) -> int:
    from nvdsl.driver.device import devices

    return devices.cuda.multiprocessors(ordinal(call))
