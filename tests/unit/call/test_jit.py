"""nv.jit: compiling once, calls, the traced function, and what is left when tracing fails."""

import ast
import importlib
import queue
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.ir.location import where
from nvdsl.ir.walk import find
from nvdsl.lower import compiler
from nvdsl.lower.options import Options
from nvdsl.lower.result import Lowered
from nvdsl.mlir import ir
from tests.unit.kernels import array, host, refused, trace

F32 = array(nv.f32, 64)
jit_module = importlib.import_module("nvdsl.call.jit")  # `nvdsl.jit` is the decorator


def ignore(*values):
    """A host function that launches nothing."""


# --- compiling once ------------------------------------------------------------------------------------------


def test_two_threads_compile_once(monkeypatch):
    count, gate = [], threading.Barrier(2)

    def slow(module, options, *_):
        count.append(module)
        time.sleep(0.05)
        return Lowered(module, {}, {})

    monkeypatch.setattr(compiler, "lower", slow)
    function = nv.jit(ignore)
    results = []

    def work():
        gate.wait()
        results.append(function.compile(1))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(count) == 1
    assert results[0] is results[1]


def test_functions_are_traced_in_several_threads():
    """MLIR takes locations from tracebacks while a switch of the process is on: the first function to be done must
    not turn it off for another."""
    begun, joined, done = (threading.Event() for _ in range(3))

    def first(x):
        begun.set()
        joined.wait(0.3)  # nobody comes where one is traced after the other

    def second(x):
        joined.set()
        done.wait(0.3)  # in vain, too
        x[0] = 1.0

    def work():
        host(first).trace(F32)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait(5)
    module = host(second).trace(F32)
    thread.join()
    (store,) = find(module, "memref.store")
    assert where(store).line == second.__code__.co_firstlineno + 3


class Executable:
    def __init__(self):
        self.calls = []

    def __call__(self, values, specs, stream):
        self.calls.append((values, specs, stream))


def test_a_call_hands_the_run_time_values_to_the_executable(compiled, monkeypatch):
    executable = Executable()
    monkeypatch.setattr(jit_module.Compiled, "executable", lambda self: executable)
    x = np.zeros(64, np.float32)

    @nv.jit
    def function(x, mode, n, *, tile):
        pass

    for n in (1, 2):
        function(x, "fast", n, tile=(1, 2), stream=7, target="gpu")
    assert len(compiled) == 1
    for (values, specs, stream), n in zip(executable.calls, (1, 2), strict=True):
        (_, _, memory), number = values
        assert memory is x
        assert number == n
        assert len(specs) == 2
        assert stream == 7


@pytest.mark.parametrize("constant", [[1.0] * 100_000, {}, bytearray(4), memoryview(bytearray(4))], ids=type)
def test_a_constant_that_cannot_be_hashed_is_an_error_of_the_call(constant):
    with pytest.raises(nv.ArgumentError, match="can't be hashed") as caught:
        nv.jit(ignore)(constant, target="sim")
    assert caught.value.where.file == __file__ and len(str(caught.value)) < 1000


def test_a_shape_cannot_be_run():
    function = nv.jit(ignore)
    error = refused(lambda: function(F32))
    assert isinstance(error, nv.ArgumentError)
    assert "compile" in error.fix


@pytest.mark.skipif(nv.no_gpu() is None, reason="this machine has a Hopper GPU")
def test_without_a_gpu_a_call_says_so_at_its_line():
    def call():
        host(lambda x: x.__setitem__(0, 1.0))(np.zeros(3, np.float32), target="gpu")

    with pytest.raises(nv.DeviceError) as caught:
        call()
    assert caught.value.where.line == call.__code__.co_firstlineno + 1


def test_names_of_the_arguments_that_messages_use(compiled):
    @nv.jit
    def function(a, n, *rest, mode="x", **options):
        pass

    x = np.zeros(4, np.float32)
    assert function.compile(x, "constant", x, x, mode="y", extra=x).arguments == ["a", "rest", "rest", "extra"]


def test_a_host_function_keeps_its_name_and_docs():
    @nv.jit
    def gemm(a):
        """Multiplies."""

    assert (gemm.__name__, gemm.__doc__) == ("gemm", "Multiplies.")
    assert "func.func @gemm" in str(gemm.trace(F32))


def test_options_are_the_lowerings(monkeypatch):
    seen = []

    def record(module, options, *_):
        seen.append(options)
        return Lowered(module, {}, {})

    monkeypatch.setattr(compiler, "lower", record)

    @nv.jit(strict=True, opt_level=2)
    def chosen(x):
        pass

    @nv.jit
    def default(x):
        pass

    chosen.compile(F32)
    monkeypatch.setenv("NVDSL_LINEINFO", "1")
    default.compile(F32)
    assert seen == [Options(strict=True, opt_level=2), Options(lineinfo=True)]


# --- the traced function -------------------------------------------------------------------------------------


def test_arguments_are_memrefs_and_scalars():
    @nv.jit
    def function(a, b, n, x):
        assert (a.shape, a.dtype, b.strides, b.dtype) == ((4, 8), nv.f16, (32, 1), nv.u8)

    text = str(function.trace(array(nv.f16, 4, 8), array(nv.u8, 4, 8, strides=(32, 1)), 1, 1.0))
    assert "(%arg0: memref<4x8xf16>, %arg1: memref<4x8xi8, strided<[32, 1]>>, %arg2: i32, %arg3: f32)" in text


def test_an_exception_in_a_body_is_the_users_own():
    class Mine(Exception):
        pass

    def stop():
        raise Mine("here")

    def body(x):
        x[0] = 1.0
        if nv.thread_id.x < 4:
            for _ in nv.range(3):
                stop()

    with pytest.raises(Mine) as caught:
        trace(body, F32)
    assert caught.value.args == ("here",)
    assert "raised while a branch of the `if` at" in caught.value.__notes__[0]
    assert ir.Context.current is None
    assert ir.Location.current is None
    with pytest.raises(nv.TraceError):
        nv.thread_id.x  # noqa: B018  (no kernel is left open)
    assert "gpu.thread_id" in str(trace(lambda x: x.__setitem__(nv.thread_id.x, 1.0), F32))


def test_a_failed_trace_is_not_remembered():
    fail = [True]

    @nv.jit
    def function(x):
        if fail[0]:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        function.compile(F32)
    fail[0] = False
    assert function.compile(F32).name == "function"


def test_a_value_that_leaves_its_branch_is_explained():
    def body(x):
        kept = queue.SimpleQueue()  # what it holds is not watched
        if nv.thread_id.x < 4:
            kept.put(x[0] + 1.0)
        x[1] = kept.get()

    error = refused(lambda: trace(body, F32), body)
    assert "`if` or loop" in error.message
    assert error.where.line in (body.__code__.co_firstlineno + i for i in (3, 4))


def test_what_mlirs_verifier_finds_has_the_users_line():
    from nvdsl.mlir.dialects import memref

    def body(x):
        memref.subview(x, [60], [10], [1])

    error = refused(lambda: trace(body, F32), body)
    assert isinstance(error, nv.TraceError)
    assert "out-of-bounds" in error.message
    assert error.where.line == body.__code__.co_firstlineno + 1


def test_a_compilation_reports_what_it_made():
    def kernel(x):
        x[nv.thread_id.x] = 1.0

    result = host(kernel, block=64).compile(F32)
    assert list(result.kernels) == ["kernel::kernel"]
    assert ".entry kernel" in result.ptx
    assert "gpu.launch" in result.mlir
    assert result.written == {0}
    assert set(result.seconds) == {"trace", "passes", "ptx", "ptxas"}
    assert "64 threads, 0 bytes of stack" in result.report()
    assert result.kernels["kernel::kernel"].cubin[:4] == b"\x7fELF"


# --- the import ------------------------------------------------------------------------------------------------


def test_the_import_is_light():
    """No array library, no CUDA, no compiler driver; and no MLIR context is open."""
    program = """
import sys, nvdsl
from nvdsl.mlir import ir
heavy = ("torch", "cupy", "jax", "cuda", "cuda.bindings", "cuda.core", "numba", "numba_cuda_mlir.cuda",
         "nvdsl.lower.compiler", "nvdsl.driver.cuda", "nvdsl.driver.executable", "nvdsl.verify", "hypothesis", "pytest")
loaded = [name for name in heavy if name in sys.modules]
print((loaded, ir.Context.current, sys.modules["nvdsl.call.module"]._context))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert ast.literal_eval(run.stdout) == ([], None, None)


def test_a_value_kept_from_an_earlier_trace_is_an_error_and_not_a_crash():
    kept = []

    def body(x):
        if kept:
            x[0] = kept[0] + 1.0
        else:
            kept.append(x[1])

    function = host(body)
    function.trace(nv.ShapeDtype((4,), nv.f32))
    with pytest.raises(nv.TraceError, match="a trace that did not make it"):
        function.trace(nv.ShapeDtype((4,), nv.f32))
