"""nvdsl: write NVIDIA Hopper kernels as decorated Python functions.

The public names, nothing else. ``import nvdsl as nv`` is the usual form.

* host functions and kernels: `jit`, `kernel`, `empty`, `zeros`, `ShapeDtype`, `no_gpu`, `synchronize`
* the matrix product for any layout, type and size: `matmul`; of groups of rows: `grouped_matmul`;
  with weights of 4 and 8 bits: `quantized_matmul`, `QuantizedWeight`
* softmax(q k^T) v: `attention`, and its gradients: `attention_backward`
* over the rows of an array: `softmax`, `log_softmax`, `layer_norm`, `rms_norm`, `cross_entropy`, and the gradient of
  each, `softmax_backward` and so on
* recurrent layers over sequences: `lstm`, `gru`, `rnn`, their ``_backward`` and ``_cell``
* choosing a kernel's constants by trying them: `autotune`, `Space`
* control flow: `range` (traced loops); plain ``if``, ``while``, ``and``, ``or``, ``not`` on traced values
* types and values: `f16` ... `u64`, `const`, `vector`, `select`, `min`, `max`, `abs`, `clamp`, `bitcast`, `popc`;
  `nvdsl.math`
* annotations of a program's own helpers: `Int`, `Bool`, `Number`, beside `Value`, `Array`, `Tile` ...
* what threads compute together: `warp`, `warpgroup`, `block`, `cluster`
* tiles: `smem`, `TMA`, `copy`, `accumulator`, `Ring`, `PipelineState`, `TileQueue`, `Turns`
* atomics: `atomic_add` and its like; also methods of arrays and tiles
* instructions, one function each: `nvdsl.ops`; others as text: `ptx`
* layouts, and their algebra: `nvdsl.layout`
* the names of LLVM's NVGPU examples: `nvdsl.thin`
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from nvdsl import errors, layout
from nvdsl.call.compiled import Compiled
from nvdsl.call.device import no_gpu, synchronize
from nvdsl.call.garbage import none_collected as _none_collected
from nvdsl.call.jit import Jit, jit
from nvdsl.call.specialize import ShapeDtype
from nvdsl.errors import (
    AdvisoryWarning,
    ArgumentError,
    DeviceError,
    LayoutError,
    LowerError,
    NvdslError,
    ScheduleError,
    ToolchainError,
    TraceError,
    TuneError,
    TuneWarning,
    VerifyError,
    WatchdogError,
)
from nvdsl.lang import specs as spec
from nvdsl.lang.accumulator import Accumulator, Fragment, accumulator, pack_pair
from nvdsl.lang.array import Array
from nvdsl.lang.atomics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_dec,
    atomic_exch,
    atomic_inc,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_sub,
    atomic_xor,
)
from nvdsl.lang.collectives import Group, block, cluster, warp, warpgroup
from nvdsl.lang.copies import copy
from nvdsl.lang.extents import Shaped
from nvdsl.lang.fragment import fragment
from nvdsl.lang.fragment_vector import FragmentVector, column_vector, row_vector
from nvdsl.lang.pipeline import PipelineState, Ring
from nvdsl.lang.requirements import cdiv, require, require_multiples
from nvdsl.lang.scratch import empty, zeros
from nvdsl.lang.smem import smem
from nvdsl.lang.tile import Tile
from nvdsl.lang.tile_queue import TileQueue
from nvdsl.lang.tile_stack import TileStack
from nvdsl.lang.tma import TMA
from nvdsl.lang.turns import Turns
from nvdsl.lang.warp_accumulator import WarpAccumulator, warp_accumulator
from nvdsl.lang.warp_fragment import WarpFragment, load_a, load_b
from nvdsl.lower.cache import CacheWarning
from nvdsl.lower.version import __version__ as __version__
from nvdsl.ops.cluster import (
    cluster_arrive,
    cluster_block_id,
    cluster_dim,
    cluster_id,
    cluster_rank,
    cluster_sync,
    cluster_wait,
    griddep_launch_dependents,
    griddep_wait,
    mapa,
)
from nvdsl.ops.cp_async import cp_async, cp_async_arrive, cp_async_commit, cp_async_wait
from nvdsl.ops.fence import (
    fence_mbarrier_init,
    fence_proxy_alias,
    fence_proxy_async,
    fence_sc_cluster,
    threadfence,
)
from nvdsl.ops.grid import grid_sync
from nvdsl.ops.inline_ptx import ptx
from nvdsl.ops.mbarrier import Mbarrier, Mbarriers
from nvdsl.ops.mma import mma_sync
from nvdsl.ops.order import sched_barrier
from nvdsl.ops.smem import get_dynamic_shared_memory, ldmatrix, stmatrix
from nvdsl.ops.timers import clock, globaltimer
from nvdsl.ops.tma import (
    L2_EVICT_FIRST,
    L2_EVICT_LAST,
    L2_EVICT_NORMAL,
    bulk_commit_group,
    bulk_load,
    bulk_store,
    bulk_wait_group,
)
from nvdsl.ops.warp import (
    WARP_GROUP_SIZE,
    WARP_SIZE,
    ballot,
    block_dim,
    block_id,
    elect,
    grid_dim,
    lane_id,
    linear_thread_id,
    named_barrier_any,
    named_barrier_arrive,
    named_barrier_sync,
    nanosleep,
    setmaxnreg_dec,
    setmaxnreg_inc,
    shuffle,
    shuffle_down,
    shuffle_up,
    shuffle_xor,
    sync_threads,
    sync_warp,
    thread_id,
    vote_all,
    vote_any,
    warp_id,
    warpgroup_id,
    warpgroup_thread,
)
from nvdsl.ops.wgmma import wgmma_commit, wgmma_fence, wgmma_wait
from nvdsl.testing import debug as debug
from nvdsl.trace.launch import kernel
from nvdsl.trace.range import Range as range
from nvdsl.tune import Autotuned, Space, Tuning, autotune
from nvdsl.values import math as math
from nvdsl.values.bits import brev, clz, popc
from nvdsl.values.dtypes import (
    DType,
    bf16,
    bool_,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    index,
    tf32,
    u8,
    u16,
    u32,
    u64,
)
from nvdsl.values.math import exp2 as exp2
from nvdsl.values.select import abs, clamp, max, maximum, min, minimum, select, where
from nvdsl.values.traced import Unsigned, Value, bitcast, const
from nvdsl.values.typing import Bool, Int, Number
from nvdsl.values.vector import vector

if TYPE_CHECKING:
    from nvdsl.kernels.attention.attention import attention as attention
    from nvdsl.kernels.attention.gradient import attention_backward as attention_backward
    from nvdsl.kernels.dropout import dropout as dropout
    from nvdsl.kernels.gemm.grouped_matmul import grouped_matmul as grouped_matmul
    from nvdsl.kernels.gemm.matmul import matmul as matmul
    from nvdsl.kernels.gemm.quantized_matmul import quantized_matmul as quantized_matmul
    from nvdsl.kernels.gemm.quantized_weight import QuantizedWeight as QuantizedWeight
    from nvdsl.kernels.mlp.calls import mlp as mlp
    from nvdsl.kernels.recurrent.calls import gru as gru
    from nvdsl.kernels.recurrent.calls import lstm as lstm
    from nvdsl.kernels.recurrent.calls import rnn as rnn
    from nvdsl.kernels.recurrent.cell_calls import gru_cell as gru_cell
    from nvdsl.kernels.recurrent.cell_calls import lstm_cell as lstm_cell
    from nvdsl.kernels.recurrent.cell_calls import rnn_cell as rnn_cell
    from nvdsl.kernels.recurrent.gradients import gru_backward as gru_backward
    from nvdsl.kernels.recurrent.gradients import lstm_backward as lstm_backward
    from nvdsl.kernels.recurrent.gradients import rnn_backward as rnn_backward
    from nvdsl.kernels.rows.cross_entropy import cross_entropy as cross_entropy
    from nvdsl.kernels.rows.cross_entropy import cross_entropy_backward as cross_entropy_backward
    from nvdsl.kernels.rows.norm import layer_norm as layer_norm
    from nvdsl.kernels.rows.norm import layer_norm_backward as layer_norm_backward
    from nvdsl.kernels.rows.norm import rms_norm as rms_norm
    from nvdsl.kernels.rows.norm import rms_norm_backward as rms_norm_backward
    from nvdsl.kernels.rows.softmax import log_softmax as log_softmax
    from nvdsl.kernels.rows.softmax import log_softmax_backward as log_softmax_backward
    from nvdsl.kernels.rows.softmax import softmax as softmax
    from nvdsl.kernels.rows.softmax import softmax_backward as softmax_backward


_KERNELS = {
    "matmul": "nvdsl.kernels.gemm.matmul",
    "grouped_matmul": "nvdsl.kernels.gemm.grouped_matmul",
    "mlp": "nvdsl.kernels.mlp.calls",
    "dropout": "nvdsl.kernels.dropout",
    "quantized_matmul": "nvdsl.kernels.gemm.quantized_matmul",
    "QuantizedWeight": "nvdsl.kernels.gemm.quantized_weight",
    "attention": "nvdsl.kernels.attention.attention",
    "attention_backward": "nvdsl.kernels.attention.gradient",
    **dict.fromkeys(("lstm", "gru", "rnn"), "nvdsl.kernels.recurrent.calls"),
    **dict.fromkeys(("lstm_backward", "gru_backward", "rnn_backward"), "nvdsl.kernels.recurrent.gradients"),
    **dict.fromkeys(("lstm_cell", "gru_cell", "rnn_cell"), "nvdsl.kernels.recurrent.cell_calls"),
    **dict.fromkeys(
        ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward"), "nvdsl.kernels.rows.softmax"
    ),
    **dict.fromkeys(
        ("layer_norm", "rms_norm", "layer_norm_backward", "rms_norm_backward"), "nvdsl.kernels.rows.norm"
    ),
    **dict.fromkeys(("cross_entropy", "cross_entropy_backward"), "nvdsl.kernels.rows.cross_entropy"),
}


def __getattr__(name: str) -> Any:
    """Finished kernels are imported where they are first used: importing nvdsl stays fast."""
    if name in _KERNELS:
        with _none_collected():
            globals()[name] = found = getattr(importlib.import_module(_KERNELS[name]), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Programs written for 0.1 import some modules by these names.
for _name, _now in {
    "accumulator": "lang.accumulator", "array": "lang.array", "debug": "testing.debug", "dtypes": "values.dtypes",
    "math": "values.math", "pipeline": "lang.pipeline", "tile": "lang.smem", "tma": "lang.tma",
}.items():  # fmt: skip
    sys.modules[f"nvdsl.{_name}"] = sys.modules[f"nvdsl.{_now}"]
