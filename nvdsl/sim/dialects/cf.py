"""cf: assert. (Branches are in `graph`.)"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import string
from nvdsl.sim.decode import Decoder, Frame, op
from nvdsl.sim.dialects.gpu import failed_assert
from nvdsl.sim.values import LANES


@op("cf.assert")
def _assert(d: Decoder, op: Any) -> Any:
    (condition,) = d.operands(op)
    at, message = where(op), string(op, "msg")

    def step(v: Frame) -> None:
        w, c = v[0], v[condition]
        failed = w.mask & ~np.broadcast_to(np.asarray(c, np.bool_), (LANES,))
        if failed.any():
            raise failed_assert(w, int(np.flatnonzero(failed)[0]), message, at)

    return step
