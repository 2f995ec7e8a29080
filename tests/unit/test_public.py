"""Names that programs of users' import, beside `nv.X`."""

import subprocess
import sys

PROGRAM = """
import nvdsl.math
from nvdsl.accumulator import pack_pair
from nvdsl.array import Array
from nvdsl.debug import run
from nvdsl.driver.arrays import describe
from nvdsl.dtypes import f16
from nvdsl.lower import Options, lower
from nvdsl.ops.pointer import GLOBAL, address_of, byte_offset
from nvdsl.pipeline import Ring
from nvdsl.tile import Tile, TileStack, smem
from nvdsl.tma import TMA
from nvdsl.values import const, wrap

assert nvdsl.math.exp2
assert (Array, Ring, TMA, Tile) == (nvdsl.Array, nvdsl.Ring, nvdsl.TMA, nvdsl.Tile)
assert (TileStack, smem) == (nvdsl.TileStack, nvdsl.smem)
assert f16 is nvdsl.f16 and pack_pair is nvdsl.pack_pair and run is nvdsl.debug.run
"""


def test_a_program_of_0_1_still_finds_what_it_imports():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
