"""What a newcomer writes and Python or NumPy refuses: our own error, at the line, with the rule and the mend."""

import operator
import random
import re
import time
import traceback

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import SimError
from nvdsl.trace import elsewhere
from tests.unit.kernels import array, host
from tests.unit.trace.tracing import define

F32 = array(nv.f32, 128)

# A statement in a kernel: `x` an array, `t` a traced i32, `acc` an accumulator, `s` a tile; a word of the message, of
# the fix.
STATEMENTS = {
    "x[t] = {0: 1.0}[t]": ("the hash of a traced value", "nv.select"),
    "x[t] = {0: 1.0}.get(t, 2.0)": ("the hash", "nv.select"),
    "y = {0, 1} >= {t}": ("the hash", "compare"),
    "d = {t: 1}": ("the hash", "plain number"),
    "x[t] = [1.0, 2.0][t]": ("Python int", "nv.range"),
    "x[t] = np.arange(4.0)[t]": ("only integers", "nv.select"),
    "x[t] = np.ones((4, 4))[t, 0]": ("only integers", "nv.select"),
    "x[t] = np.exp(x[t])": ("np.exp", "nv.math.exp"),
    "x[t] = np.maximum(x[t], 0)": ("np.maximum", "nv.max"),
    "x[t] = np.sum(x[t])": ("np.sum of a traced value", "nv.math"),
    "x[t] = np.where(x[t] > 0, 1.0, 0.0)": ("np.where of a traced value", "nv.where(c, a, b)"),
    "x[t] = np.float32(x[t])": ("ValueError", "nv.f32(x)"),
    "a = np.zeros(4); a[0] = x[t]": ("ValueError", "list"),
    "y = np.ones(4) * x[t]": ("np.multiply", "lists"),
    "y = acc * s": ("'Accumulator'", "acc.elements()"),
    "y = acc + nv.vector([1.0, 2.0])": ("a vector of 2 elements of each thread", "nv.row_vector"),
    "y = acc + acc.max(1)": ("FragmentVector of shape (64,)", "v[:, None]"),
    "y = acc * acc.max(1)[None, :]": ("[None, :] of a vector", "v[:, None]"),
    "y = acc + nv.accumulator(64, 32)": ("shape (64, 64) and Accumulator of shape (64, 32)", "one shape"),
    "y = acc.sum(1, partial=True) > 0.0": ("each thread has a part of", "v.total()"),
    "acc.sum(1, partial=True).store(x, 0)": ("each thread has a part of", "v.total()"),
    "y = acc.sum(1).total()": ("a vector that is whole", "leave it out"),
    "y = acc.sum(0)": ("no scratch memory", "nv.smem(256, nv.f32)"),
    "y = acc.sum(2)": ("sum(axis=2)", "axis=1"),
    "y = acc.any(1)": ("any of a fragment of f32", "(x > 0).any(axis=1)"),
    "y = acc[0]": ("[0] of an Accumulator", "acc.elements()"),
    "y = acc[:, t:64]": ("[:, ...:64] of an Accumulator", "acc.elements()"),
    "y = acc[0:8, 0:8] * 2.0": ("'Excerpt'", "acc[0:8, 0:8]"),
    "y = acc[0:80, :]": ("[0:80] of an axis of 64", "check the slice"),
    "acc.store(nv.smem((64, 32), nv.f16))": ("64 x 64 fragment and a tile of 64 x 32", "tile.rows"),
    "acc.store(x)": ("without a place", "acc.store(out, (row, col))"),
    "y = (acc > 0.0) @ s": ("as a fragment of bool_", "p.to(nv.f16) @ b"),
    "y = nv.row_vector(x, 0, 32)": ("a vector of 32 rows", "as many rows as"),
    "acc[0] = 1.0": ("'Accumulator'", "acc.elements()"),
    "y = nv.max(acc)": ("a loop over the elements of an Accumulator", "nv.where"),
    "y = np.exp(acc)": ("Accumulator", "acc.elements()"),
    "y = 1 if acc else 2": ("truth value of an Accumulator", "nv.where"),
    "y = acc > 0 if acc > 0 else acc": ("truth value of a Fragment", "nv.vote_any"),
    "y = nv.accumulator(64, 64, 'f32')": ("'f32' as the type of elements", "nv.f32"),
    "y = nv.accumulator(64, 64, float)": ("as the type of elements", "nv.f32"),
    "y = nv.accumulator(64, 64, np.complex64)": ("complex64", "nv.f32"),
    "y = x == 1": ("an array == 1", "x[i] == value"),
    "y = x + 1": ("'Array'", "x[i]"),
    "y = x.sum()": ("'Array'", "x[i]"),
    "y = x(t)": ("'Array'", "x[i]"),
    "y = s + 1": ("'Tile'", "tile[i, j]"),
    "print(nv.smem((64, 64), nv.f16))": ("print of a Tile", "tile[row, column]"),
    "print(acc)": ("print of an Accumulator", "acc[0:8, 0:8]"),
    "y = t.item()": ("'Value'", "operators"),
    "y = t(1)": ("'Value'", "operators"),
    "y = t + 'a'": ("'Value'", "operators"),
    "y = f'{t:.2f}'": ("in the format '.2f'", "print("),
    "y = f'{t}'": ("as text", "print("),
    "y = str(x[t])": ("as text", "print("),
    "y = '%s' % t": ("as text", "plain number"),
    "print('{}'.format(t))": ("as text", "in one call"),
    "y = {f'{t}': 1.0}": ("as text", "a key"),
    "y = open(f'/{t}')": ("as text", "a name"),
    "y = '{:d}'.format(t)": ("in the format 'd'", "print("),
    "y = nv.math.exp('a')": ("must be real number", "help(nv)"),
    "y = nv.min()": ("IndexError", "help(nv)"),
    "y = nv.ops.memory.load_acquire(t, 0)": ("ValueError", "help(nv)"),
    "y = nv.clamp(x, 0, 1)": ("Array(shape=(128,), dtype=f32) is not a number", "x[i] loads"),
    "y = nv.max(x, 0.0)": ("Array(shape=(128,), dtype=f32) is not a number", "x[i] loads"),
    "x[t] = max(0, x)": ("Array(shape=(128,), dtype=f32) is not a number", "x[i] loads"),
    "y = nv.math.exp(s)": ("must be real number, not Tile", "tile[i, j] loads"),
    "y = nv.math.exp(x)": ("Array(shape=(128,), dtype=f32) is not a number", "x[i] loads"),
    "x[t] = nv.smem((2, 8, 8), nv.f32)": ("is not a number", "stack[stage][row, column]"),
    "x[t] = nv.thread_id": ("is not a number", "nv.thread_id.x"),
    "x[nv.lane_id] = 1.0": ("the function `nv.lane_id` is not a number", "call it: nv.lane_id()"),
    "x[t] = nv.lane_id": ("the function `nv.lane_id` is not a number", "call it: nv.lane_id()"),
    "x[t] = nv.lane_id + 1": ("'function' and 'int'", "call it: nv.lane_id()"),
    "y = t * nv.warp_id": ("'function'", "call it: nv.warp_id()"),
    "x[nv.thread_id()] = 1.0": ("'Dim3' object is not callable", "nv.thread_id.x"),
    "y = nv.block_id * 128": ("'Dim3' and 'int'", "nv.block_id.y"),
    "y = nv.Ring(2, bytes=64)[0]": ("'Ring' object is not subscriptable", "tiles[state.stage]"),
    "y = nv.PipelineState(2) + 1": ("'PipelineState' and 'int'", "state.next()"),
    "y = nv.Mbarriers(2, arrivals=1)[0][0]": ("'Mbarrier' object is not subscriptable", "bars[stage]"),
    "y = nv.warp(x[t])": ("'Group' object is not callable", "nv.warp.sum(x)"),
    "y = nv.f32 * x[t]": ("'DType'", "nv.f32(x)"),
    "y = nv.load_a(nv.smem((16, 16), nv.f16))[0]": ("'WarpFragment' object", "a.elements()"),
    "y = nv.warp_accumulator(16, 8)(t)": ("'WarpAccumulator' object", "acc.elements()"),
    "nv.TMA.load(s, (0, 0))": ("missing 2 required", "help(TMA.load)"),
    "x[t] = acc": ("Accumulator", "acc.store(array, (row, column))"),
    "y = nv.shuffle_xor(x.vector(0, 4), 1)": ("a shuffle of 4 numbers", "nv.vector([nv.shuffle_xor"),
    "y = s[x.vector(0, 4), 0]": ("as an index", "v[0] is the first"),
    "y = x[x.vector(0, 4)]": ("4 numbers where one integer belongs", "v[0]"),
    "y = nv.smem((2, 8, 8), nv.f32)[nv.vector([t, t])]": ("as an index", "v[0] is the first"),
    "y = s['a', t]": ("'a' as an index", "v[0] is the first"),
    "y = nv.mapa(x, 0)": ("mapa of Array", "tile.at(rank)"),
    "nv.cp_async_arrive(3)": ("'int' object has no attribute", "help(nv)"),
    "y = nv.sqrt(x[t])": ("`nv.sqrt` does not exist", "`nv.math.sqrt`"),
    "y = nv.program_id(0)": ("`nv.program_id` does not exist", "`nv.block_id.x`"),
    "y = nv.threadIdx.x": ("`nv.threadIdx` does not exist", "`nv.thread_id`"),
    "y = nv.atomicCAS(x, 0, 1, 2)": ("`nv.atomicCAS` does not exist", "`nv.atomic_cas`?"),
    "y = nv.sum(x)": ("`nv.sum` does not exist", "`nv.block.sum`, `nv.warp.sum` over threads"),
    "y = nv.fmaxf(x[t], 0.0)": ("`nv.fmaxf` does not exist", "`nv.max`"),
    "y = nv.__expf(x[t])": ("`nv.__expf` does not exist", "`nv.math.exp`?"),
    "y = nv.float32(x[t])": ("`nv.float32` does not exist", "`nv.f32`?"),
    "y = nv.math.pow(x[t], 2)": ("`nv.math.pow` does not exist", "`x ** 2`"),
    "y = nv.sigmoid(x[t])": ("`nv.sigmoid` does not exist", "1 / (1 + nv.math.exp(-x))"),
    "y = nv.mesh": ("`nv.mesh` does not exist", "help(nvdsl) lists what there is"),
    "y = nv.math.rqsrt(x[t])": ("`nv.math.rqsrt` does not exist", "`nv.math.rsqrt`"),
    "y = nv.warp.summ(t)": ("'Group' object has no attribute 'summ'", "`.sum`"),
    "y = nv.thread_id.w": ("'Dim3' object has no attribute 'w'", "one of these"),
    "y = x[t].astype(nv.f16)": ("no attribute 'astype'", "`.to`"),
    "y = s.transpose()": ("no attribute 'transpose'", "`.T`"),
    "y = x.nbytes": ("no attribute 'nbytes'", "`.bytes`"),
    "y = nv.Mbarriers(1, arrivals=1).arrive_expect(8)": ("no attribute 'arrive_expect'", "bars[stage]"),
    "y = nv.smem((4,))": ("missing 1 required positional argument: 'dtype'", "help(nv.smem)"),
    "y = acc.sum()": ("missing 1 required positional argument: 'axis'", "help(Matrix.sum)"),
    "y = x[t].to('f16')": ("'f16' as the type of elements", "nv.f16"),
    "y = nv.thread_id == 0": ("a thread or block id == 0", "nv.thread_id.x"),
    "y = nv.block_id != 0": ("a thread or block id == 0", "nv.thread_id.x"),
    "y = 1 if nv.thread_id else 2": ("a thread or block id as a condition", "nv.thread_id.x"),
    "y = nv.lane_id == 0": ("`lane_id` without parentheses", "nv.lane_id()"),
    "y = 0 != nv.warp_id": ("`warp_id` without parentheses", "nv.warp_id()"),
    "y = nv.warpgroup_id in (0, 1)": ("`warpgroup_id` without parentheses", "nv.warpgroup_id()"),
    "y = not nv.elect": ("`elect` without parentheses", "nv.elect()"),
    "y = t == 0 and nv.elect": ("`elect` without parentheses", "nv.elect()"),
    "y = 1 if nv.elect else 2": ("`elect` without parentheses", "nv.elect()"),
    "assert nv.elect": ("`elect` without parentheses", "nv.elect()"),
    "x.store(0, 1.0, predicate=nv.elect)": ("is not a number", "call it"),
    "y = nv.warpgroup == 0": ("nv.warpgroup == 0", "nv.warpgroup_id()"),
    "y = s == 0": ("a tile == 0", "tile[i, j]"),
    "y = x == t": ("an array ==", "x[i] == value"),
    "y = 'a' != t": ("!= of a traced number and 'a'", "compare the elements"),
    "y = x[t] == [0.0]": ("== of a traced number and [0.0]", "compare the elements"),
    "y = t == nv.i32": ("== of a traced number and nv.i32", "`x.dtype == nv.f32`"),
    "y = acc == 'a'": ("== of a traced number and 'a'", "compare the elements"),
    "y = x.dtype == 'float32'": ("nv.f32 == 'float32'", "x.dtype == nv.f32"),
    "y = x.dtype != float": ("nv.f32 == <class 'float'>", "x.dtype == nv.f32"),
    "y = nv.select(nv.elect, 1.0, 2.0)": ("select by <function elect", "call it"),
    "y = nv.where(None, 1.0, 2.0)": ("select by None", "compare it"),
    "x[nv.block_id] = 1.0": ("a triple, of which .x", "x[i]"),
    "m, n = x.shape": ("x has the shape (", "as many axes"),
    "y = random.random()": ("`random` of random in a function that is traced", "a seed"),
    "y = random.randint(1, 6)": ("`randint` of random in a function that is traced", "a seed"),
    "y = np.random.rand()": ("`rand` of numpy.random.mtrand in a function that is traced", "a seed"),
    "time.sleep(1)": ("`sleep` of time in a function that is traced", "nv.nanosleep"),
    "y = t // 0": ("// by zero", "1 or more"),
    "y = t << -1": ("<< by -1", ">> 1"),
    "x[0, 1] = 1.0": ("2 indices", "write one index"),
    "y = nv.smem((2, 2, 8, 8), nv.f32)": ("nv.smem of shape (2, 2, 8, 8)", "[i * b + j]"),
    "x[t] = 1e300": ("does not fit f32", "nv.f64(x)"),
    "y = t == 0 & t == 0": ("a chain of comparisons around `&`", "(a == 0) & (b == 0)"),
    "y = t < 4 | t < 0": ("a chain of comparisons around `&`", "(a == 0) & (b == 0)"),
    "nv.sync_threads": ("`sync_threads` without parentheses", "call it"),
    "acc.store": ("`store` without parentheses", "call it"),
    "x[t] == 1.0": ("the value of an expression is not used", "assign it"),
    "t + 1": ("the value of an expression is not used", "assign it"),
    "nv.PipelineState(2).next()": ("the result of `next` is not used", "state = state.next()"),
    "acc.mma(s, s)": ("the result of `mma` is not used", "acc += a @ b"),
    "nv.block.sum(x[t])": ("the result of `sum` is not used", "y = sum(...)"),
    "nv.max(t, 0)": ("the result of `max` is not used", "y = max(...)"),
    "nv.math.exp(x[t])": ("the result of `exp` is not used", "y = exp(...)"),
    "nv.f32(t)": ("the result of `nv.f32` is not used", "y = nv.f32(...)"),
    "acc.to(nv.f16)": ("the result of `to` is not used", "x.to(dtype)"),
    "x[t].to(nv.f16)": ("the result of `to` is not used", "x.to(dtype)"),
    "nv.sync_thread()": ("`nv.sync_thread` does not exist", "`nv.sync_threads`"),
    "y = None; y[0] = 1.0": ("'NoneType' object does not support item assignment", "pass the array"),
    "with t: pass": ("'Value'", "operators"),
    "del x[t]": ("__delitem__", "x[i]"),
    "y = bool(t)": ("truth value", "if"),
    "y = int(t)": ("int()", "nv.i32"),
    "y = float(t)": ("float()", "nv.f32"),
    "y = len(t)": ("len()", "vector"),
    "y = list(t)": ("loop over", "nv.range"),
    "a, b = t": ("loop over", "nv.range"),
    "y = range(t)": ("Python int", "nv.range"),
    "y = [0] * t": ("Python int", "nv.range"),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement(statement):
    message, fix = STATEMENTS[statement]
    names = {"nv": nv, "np": np, "random": random, "time": time, "parts": parts}
    body = define(f"def body(x):\n    t, s, acc = parts()\n    {statement}\n", **names)
    with pytest.raises(nv.TraceError) as caught:
        host(body, block=128).trace(F32)
    error = caught.value
    assert (error.where.file, error.where.line) == (body.__code__.co_filename, 3), error
    assert message in error.message and fix in error.fix, error


CONDITIONS = ("if nv.lane_id == 0:", "if nv.elect:", "if nv.thread_id:", "while nv.lane_id < 4:", "if t == 0 & t == 0:")


@pytest.mark.parametrize("head", CONDITIONS)
def test_a_condition_that_python_would_decide(head):
    """Without a word, and the kernel would not do what stands there."""
    body = define(f"def body(x):\n    t = nv.thread_id.x\n    {head}\n        x[t] = 1.0\n", nv=nv)
    with pytest.raises(nv.TraceError) as caught:
        host(body).trace(F32)
    assert caught.value.where.line == 3 and caught.value.fix


class Odd(dict):
    """An object that answers what it does not have in a way of its own."""

    __getattr__ = dict.__getitem__

    def __call__(self, t):
        pass


def test_conditions_that_look_like_mistakes():
    odd = Odd()
    odd["act"] = odd

    def body(x):
        t = nv.thread_id.x
        lane_id, elect = nv.lane_id(), nv.elect()
        if lane_id == 0 and not elect:  # variables of these names
            x[t] = 1.0
        if 0 <= t & 7 < 4:
            x[t] = 2.0
        x.atomic_add(t, 1.0)  # what was there before is not needed
        odd.act(t)
        assert nv.warp == nv.warp and nv.thread_id != nv.block_id and nv.smem((8, 8), nv.f16) is not None

    host(body).trace(F32)


def test_a_kernel_is_not_launched_with_brackets():
    kernel = "    @nv.kernel(grid=1, block=32)\n    def k():\n        x[0] = 1.0\n"
    body = define(f"def body(x):\n{kernel}    k[(1,)]()\n", nv=nv)
    with pytest.raises(nv.TraceError, match="not subscriptable") as caught:
        nv.jit(body).trace(F32)
    assert caught.value.where.line == 5 and "@nv.kernel(grid=" in caught.value.fix


def parts():
    return nv.thread_id.x, nv.smem((8, 8), nv.f16), nv.accumulator(64, 64)


def test_types_of_numpy_are_types():
    def body(x):
        assert nv.accumulator(64, 64, np.float32).dtype is nv.f32
        assert nv.accumulator(64, 64, np.dtype("float16")).dtype is nv.f16
        assert nv.smem((8, 8), np.float16).dtype is nv.f16
        assert nv.f32(nv.thread_id.x).to(np.float16).dtype is nv.f16

    host(body, block=128).trace(F32)
    assert nv.ShapeDtype((4,), np.float16) == nv.ShapeDtype((4,), nv.f16)


@pytest.mark.parametrize("shape", [(None, 4), 4, "ab", (4.0,), (-1, 4), None])
def test_shapes_that_are_none(shape):
    with pytest.raises(nv.ArgumentError, match="ShapeDtype of shape") as caught:
        nv.ShapeDtype(shape, nv.f16)
    assert caught.value.where.file == __file__


def test_what_the_user_raises_stays():
    def body(x):
        if x.shape == (128,):
            raise TypeError("an Array of 128 'Value's")

    with pytest.raises(TypeError, match="an Array of 128"):
        host(body).trace(F32)

    def index(x):
        [][3]

    with pytest.raises(IndexError):
        host(index).trace(F32)


def helper(x):
    return np.exp(x)


def test_tracebacks_end_at_the_users_line(monkeypatch):
    def body(x):
        x[0] = helper(x[1])

    function = host(body)

    def frames():
        with pytest.raises(nv.TraceError) as caught:
            function.trace(F32)
        assert caught.value.__cause__ is None or full
        return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]

    full = False
    names = frames()
    assert names[0] == "frames" and names[-2:] == ["body", "helper"] and names.count("located") == 1
    assert len(names) <= 5
    full = True
    monkeypatch.setenv("NVDSL_TRACEBACK", "full")
    assert len(frames()) > 8


def test_a_path_that_is_not_utf8():
    source = "def body(x):\n    x[0] = 1.0\n"
    names = {}
    exec(compile(source, "/tmp/\udcff/kernels.py", "exec"), names)
    with pytest.raises(nv.TraceError, match="the path of the file that defines `body` is not UTF-8") as caught:
        host(names["body"]).trace(F32)
    str(caught.value).encode()


def test_a_seed_that_is_no_number(monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_SEED", "x")

    def body(x):
        x[0] = 1.0

    with pytest.raises(SimError, match="NVDSL_SIM_SEED=x") as caught:
        host(body)(np.zeros(128, np.float32), target="sim")
    assert caught.value.where.file == __file__


def test_what_is_said_instead_of_foreign_names_exists():
    for said in elsewhere._SAID.values():
        for path in re.findall(r"nv\.((?:math\.|block\.|warp\.)?\w+)", said):
            operator.attrgetter(path)(nv)
