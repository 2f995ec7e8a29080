"""What CUDA, Triton, JAX and NumPy call otherwise: names that users try, and what to write in nvdsl."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from types import ModuleType

from nvdsl.values import math

_MEMBERS = {"astype": "to", "transpose": "T", "nbytes": "bytes"}
"""Of arrays and tiles."""

_SAID = {
    "block_idx": "`nv.block_id`", "thread_idx": "`nv.thread_id`", "program_id": "`nv.block_id.x`",
    "tid": "`nv.thread_id.x`", "num_programs": "`nv.grid_dim.x`",
    "arange": "`nv.thread_id.x` is the thread's own index", "syncthreads": "`nv.sync_threads()`",
    "barrier": "`nv.sync_threads()`, or `nv.named_barrier_sync(id, threads)`",
    "syncthreads_count": "`nv.block.sum(condition)`", "syncthreads_or": "`nv.block.any(condition)`",
    "syncthreads_and": "`nv.block.all(condition)`", "this_grid": "`nv.grid_sync(counter)`",
    "shared": "`nv.smem(shape, dtype)`", "shared_memory": "`nv.smem(shape, dtype)`",
    "shared_array": "`nv.smem(shape, dtype)`", "local_array": "a Python list holds the registers of a thread",
    "load": "`x[i]` loads an element, `x.vector(i, 4)` several, `nv.TMA` a tile",
    "store": "`x[i] = v` stores an element, `x.store_vector(v, i)` several, `nv.TMA` a tile", "ldg": "`x[i]`",
    "dot": "`acc = nv.accumulator(m, n)`, then `acc += A @ B`", "mma": "`acc += A @ B`, or `nv.mma_sync`",
    "wgmma": "`acc += A @ B`", "gemm": "`acc += A @ B`, or `nv.matmul` of whole arrays",
    "tma": "`nv.TMA(array, tile)` in the host function",
    "make_tensor_descriptor": "`nv.TMA(array, tile)` in the host function", "tensor_map": "`nv.TMA(array, tile)`",
    "shfl": "`nv.shuffle(v, lane)`", "shfl_sync": "`nv.shuffle(v, lane)`", "any_sync": "`nv.vote_any(condition)`",
    "all_sync": "`nv.vote_all(condition)`", "ballot_sync": "`nv.ballot(condition)`",
    "cumsum": "`nv.block.inclusive_sum(v)`, `nv.warp.inclusive_sum(v)`",
    "associative_scan": "`nv.block.inclusive_scan(v, operation)`, `nv.warp.inclusive_scan(v, operation)`",
    "full": "`nv.zeros(shape, dtype)` in the host function", "ones": "`nv.zeros(shape, dtype)` in the host function",
    "zeros_like": "`nv.zeros(x.shape, x.dtype)` in the host function", "prefetch": "`x_tma.prefetch_tile(coords)`",
    "ceil_div": "`nv.cdiv`", "mean": "`nv.block.sum(v) / n`", "pow": "`x ** 2`, `nv.math.exp2(y * nv.math.log2(x))`",
    "sigmoid": "`1 / (1 + nv.math.exp(-x))`", "ffs": "`nv.clz(nv.brev(x)) + 1`", "popcount": "`nv.popc`",
    "popcll": "`nv.popc`", "clzll": "`nv.clz`", "brevll": "`nv.brev`", "fmax": "`nv.max`", "fmin": "`nv.min`",
    "mulhi": "`nv.i64(x) * y >> 32`", "umulhi": "`nv.u64(x) * y >> 32`",
    "dp4a": "`nv.ptx(...)`, with its meaning for the simulator",
    "byte_perm": "`nv.ptx(...)`, with its meaning for the simulator", "printf": '`print(f"...")`',
    "device_print": '`print(f"...")`', "static_assert": "`assert`",
    "static_range": "Python's `range(n)`, which is unrolled; `nv.range(n)` is a loop of the kernel",
    "unroll": "Python's `range(n)`, which is unrolled", "fori_loop": "`for i in nv.range(n):`",
    "while_loop": "`while`", "cond": "`if`, or `nv.select(condition, a, b)`",
    "constexpr": "a keyword-only parameter of the host function", "float": "`nv.f32(x)`", "double": "`nv.f64(x)`",
    "int": "`nv.i32(x)`", "bool": "`nv.bool_(x)`", "half": "`nv.f16(x)`",
}  # fmt: skip
_COLLECTIVES = ("sum", "reduce", "any", "all", "argmax", "argmin", "inclusive_sum", "exclusive_sum", "broadcast")
_TYPES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u"}
_CLOSE = 0.7


def instead(name: str, there: Collection[str], least: float = _CLOSE) -> str:
    """What to write in place of ``name``, a member that a module (``nv``) or an object does not have, or ""."""
    if (other := _MEMBERS.get(name)) in there:
        return f"`.{other}`?"
    return _or(difflib.get_close_matches(name, there, 3, least), ".")


def instead_of_public(name: str, module: ModuleType, path: str) -> str:
    """The same of a module that users call ``path``."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip("_")).lower()  # threadIdx, __syncthreads
    shorter = plain.removesuffix("f")  # fmaf
    there = {one.lower(): one for one in dir(module) if _is_public(one, getattr(module, one))}
    if plain not in there and path in ("nv", "nv.math"):
        for one in (plain, shorter):
            if said := _SAID.get(one):
                return said
            if path == "nv" and one in dir(math):
                return f"`nv.math.{one}`?"
        if plain in _COLLECTIVES:
            return f"`nv.block.{plain}`, `nv.warp.{plain}` over threads; methods of vectors and fragments"
        if (kind := re.fullmatch(r"([a-z]+)(\d+)", plain)) and kind[1] in _TYPES:
            return f"`nv.{_TYPES[kind[1]]}{kind[2]}`?"
    close = [plain] if plain in there else difflib.get_close_matches(plain, there, 3, _CLOSE)
    return _or([there[one] for one in close], f"{path}.") or f"help({module.__name__}) lists what there is"


def _is_public(name: str, value: object) -> bool:
    own = getattr(value, "__module__", None) or "nvdsl"
    return not name.startswith("_") and not isinstance(value, ModuleType) and own.partition(".")[0] == "nvdsl"


def _or(names: list[str], before: str) -> str:
    return " or ".join(f"`{before}{one}`" for one in names) + "?" if names else ""
