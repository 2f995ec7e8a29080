"""Arrays of which only a call knows the steps and the rows of the batch: kernels are compiled for the rest."""

from __future__ import annotations

import nvdsl as nv

State = nv.Shaped[nv.Array, "batch", ...]
"""[batch, hidden]"""

Gates = nv.Shaped[nv.Array, ..., "batch", ...]
"""[kinds, batch, hidden]"""

States = nv.Shaped[nv.Array, "steps", "batch", ...]
"""[steps, batch, hidden]"""

AllGates = nv.Shaped[nv.Array, "steps", ..., "batch", ...]
"""[steps, kinds, batch, hidden]"""

Rows = nv.Shaped[nv.Array, "rows", ...]
"""[rows, columns]"""
