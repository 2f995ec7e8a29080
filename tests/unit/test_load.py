"""`nvdsl.thin.load`: kernels and host functions that are written as MLIR."""

import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import thin
from nvdsl.errors import ArgumentError, SimError, TraceError, VerifyError
from nvdsl.ir.walk import find
from nvdsl.mlir import ir
from tests.unit.load_modules import COPIED, DOUBLED, REVERSED

X = np.arange(256, dtype=np.float32)


def reversed_by_64(factor):
    return factor * X.reshape(4, 64)[:, ::-1].ravel()


def line_of(text, part):
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)


def test_a_host_function_launches_outlined_kernels_in_clusters():
    loaded = thin.load(REVERSED)
    assert loaded.functions == ("main",) and loaded.kernels == ("m::reverse",)
    y = np.zeros_like(X)
    loaded.main(X, y, 2.0, target="sim")
    np.testing.assert_array_equal(y, reversed_by_64(2))
    (kernel,) = loaded["main"].compile(X, y, 2.0).kernels.values()
    assert kernel.cluster == (2, 1, 1) and kernel.block == (64, 1, 1) and kernel.smem_bytes == 64 * 4
    assert ".reqnctapercluster 2, 1, 1" in kernel.ptx and kernel.name == "reverse"


def test_a_kernel_is_launched_without_a_host_function():
    loaded = thin.load(REVERSED)
    assert loaded.reverse is loaded["m::reverse"] is loaded["reverse"]
    y = np.zeros_like(X)
    loaded.reverse(X, y, 3.0, grid=4, block=64, target="sim")
    np.testing.assert_array_equal(y, reversed_by_64(3))
    (kernel,) = loaded.reverse.compile(X, y, 3.0, grid=4, block=64, cluster=4, smem=1000).kernels.values()
    assert kernel.cluster == (4, 1, 1) and kernel.smem_bytes == 1024 + 64 * 4, "behind the 1000 bytes, aligned"


@pytest.mark.parametrize("three", [np.float32(3), np.float16(3), np.int8(3), np.uint64(3)])
def test_numbers_of_numpy_are_numbers(three):
    y = np.zeros_like(X)
    thin.load(REVERSED).reverse(X, y, three, grid=4, block=64, target="sim")
    np.testing.assert_array_equal(y, reversed_by_64(3))


@pytest.mark.parametrize("count", [1, 32, 70])
def test_parameters_that_are_open_take_the_arrays_shapes(count):
    x, y = np.arange(count, dtype=np.float32), np.zeros(count, np.float32)
    kernel = thin.load(DOUBLED)["double"]
    kernel(x, y, count, grid=-(-count // 32), target="sim")  # the block is what the kernel says
    np.testing.assert_array_equal(y, 2 * x)
    (binary,) = kernel.compile(x, y, count, grid=3).kernels.values()
    assert binary.block == (32, 1, 1) and binary.smem_bytes == 128


COPY = """
gpu.module @m {
  gpu.func @copy(%x: TYPE, %y: memref<4xf32>) kernel {
    %i = gpu.thread_id x
    INDEX
    memref.store %v, %y[%i] : memref<4xf32>
    gpu.return
  }
}
"""


def copy_of(type, index="%v = memref.load %x[%i] : TYPE"):
    return thin.load(COPY.replace("INDEX", index).replace("TYPE", type))["copy"]


@pytest.mark.parametrize("layout", ["[1], offset: ?", "[?]", "[?], offset: ?"])
def test_strides_and_offsets_that_are_open_are_the_arrays(layout):
    x, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    copy_of(f"memref<4xf32, strided<{layout}>>")(x[4:], y, grid=1, block=4, target="sim")
    np.testing.assert_array_equal(y, x[4:])


@pytest.mark.parametrize("shape", [(4,), (2, 3)])
def test_an_array_that_an_open_parameter_does_not_stand_for_is_an_error(shape):
    first = "%v = memref.load %x[%i, %i] : TYPE"
    with pytest.raises(ArgumentError, match="argument 0 of kernel copy is a memref"):
        copy_of("memref<?x4xf32>", first).trace(np.zeros(shape, np.float32), X[:4], grid=1, block=1)


def test_a_grid_without_blocks_launches_nothing():
    y = np.full(4, 7, np.float32)
    copy_of("memref<4xf32>")(X[:4], y, grid=(2, 0), block=4, target="sim")
    assert (y == 7).all()


def test_a_path_is_no_text():
    with pytest.raises(TraceError, match="load of the text") as raised:
        thin.load("/nowhere/kernels.mlir")
    assert "pathlib.Path" in raised.value.fix


@pytest.mark.parametrize("level", ["traced", "nvvm"])
def test_tma_into_a_shared_global(level, monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_LEVEL", level)
    x = np.arange(128 * 64).reshape(128, 64).astype(np.float16)
    y = np.zeros_like(x)
    main = thin.load(COPIED)["main"]
    main(x, y, target="sim")
    np.testing.assert_array_equal(y, x)
    (kernel,) = main.compile(x, y).kernels.values()
    assert kernel.user_smem_bytes == 1024 + 64 * 64 * 2, "each global is aligned for a swizzle"


def test_clusters_and_the_index_dialect(capfd):
    text = """
    module attributes {gpu.container_module} {
      func.func @main() {
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %c4 = arith.constant 4 : index
        gpu.launch_func @m::@k clusters in (%c2, %c2, %c1) blocks in (%c4, %c4, %c1) threads in (%c1, %c1, %c1)
        return
      }
      gpu.module @m {
        gpu.func @k() kernel {
          %x = gpu.cluster_id x
          %y = gpu.cluster_id y
          %block_x = gpu.block_id x
          %block_y = gpu.block_id y
          %c3 = index.constant 3
          %sum = index.add %block_x, %block_y
          %c6 = index.mul %c3, %c3
          %last = arith.cmpi eq, %sum, %c3 : index
          %xi = index.casts %x : index to i32
          %yi = index.castu %y : index to i32
          scf.if %last {
            gpu.printf "%d %d %lld\\n", %xi, %yi, %c6 : i32, i32, index
          }
          gpu.return
        }
      }
    }"""
    main = thin.load(text)["main"]
    main(target="sim")
    assert sorted(capfd.readouterr().out.splitlines()) == ["0 1 9", "0 1 9", "1 0 9", "1 0 9"]
    assert ".reqnctapercluster 2, 2, 1" in main.compile().ptx


def test_an_ir_module_is_loaded_and_left_as_it_is():
    with ir.Context():
        module = ir.Module.parse(REVERSED)
        before = str(module)
        loaded = thin.load(module)
        assert str(module) == before
    y = np.zeros_like(X)
    loaded.main(X, y, 2.0, target="sim")
    np.testing.assert_array_equal(y, reversed_by_64(2))


def test_a_file_is_loaded_and_named(tmp_path):
    file = tmp_path / "reverse.mlir"
    file.write_text(REVERSED)
    kernel = thin.load(file)["reverse"]
    module = kernel.trace(X, X, 1.0, grid=4, block=64)
    (barrier,) = find(module, "gpu.barrier")
    assert nv.ir.location.where(barrier) == nv.errors.Where(str(file), line_of(REVERSED, "gpu.barrier"))


def test_reports_name_the_lines_of_the_text():
    racing = REVERSED.replace("      gpu.barrier\n", "")
    line = line_of(racing, "memref.load %s[%j]")
    with pytest.raises(SimError, match=rf"race.mlir:{line}") as raised:
        thin.load(racing, name="race.mlir").main(X, np.zeros_like(X), 1.0, target="sim")
    assert raised.value.kind == "raw"


def test_the_verifier_checks_what_was_loaded():
    wrong = COPIED.replace("constant 8192", "constant 8190")
    with pytest.raises(VerifyError, match="8190|8,190") as raised:
        thin.load(wrong, name="copy.mlir")["main"].trace(*[nv.ShapeDtype((128, 64), nv.f16)] * 2)
    assert raised.value.where.file == "copy.mlir"


def test_a_parse_error_shows_the_line():
    wrong = REVERSED.replace("arith.mulf %w, %a : f32", "arith.mulf %w, %b : f32")
    line = line_of(wrong, "%b : f32")
    message = r"use of undeclared SSA value name\n    %r = arith\.mulf %w, %b : f32"
    with pytest.raises(TraceError, match=message) as raised:
        thin.load(wrong, name="wrong.mlir")
    assert raised.value.where == nv.errors.Where("wrong.mlir", line)


LOCAL = """
gpu.module @m {
  gpu.func @turned(%x: memref<?xf32>, %y: memref<?xf32>) kernel {
    %t = gpu.thread_id x
    %zero = arith.constant 0.0 : f32
    %own = memref.alloca() : memref<2x4xf32>
    affine.for %i = 0 to 4 {
      %v = affine.load %x[%t + %i * 2 + 1] : memref<?xf32>
      affine.store %v, %own[1, 3 - %i] : memref<2x4xf32>
    }
    %j = affine.apply affine_map<(d) -> (d mod 4)>(%t)
    affine.if affine_set<(d) : (d - 2 >= 0)>(%t) {
      %r = memref.load %own[%ROW, %j] : memref<2x4xf32>
      memref.store %r, %y[%t] : memref<?xf32>
    }
    gpu.return
  }
}"""


def test_threads_have_buffers_of_their_own_and_affine_arithmetic():
    y = np.zeros(64, np.float32)
    text = LOCAL.replace("%zero = arith.constant 0.0 : f32", "%one = arith.constant 1 : index")
    thin.load(text.replace("%ROW", "%one"))["turned"](X[:64], y, grid=1, block=40, target="sim")
    expected = [X[t + (3 - t % 4) * 2 + 1] if 2 <= t < 40 else 0 for t in range(64)]
    np.testing.assert_array_equal(y, expected)
    text = LOCAL.replace("%zero = arith.constant 0.0 : f32", "%never = arith.constant 0 : index")
    thin.load(text.replace("%ROW", "%never"))["turned"](X[:64], y, grid=1, block=40, target="sim")
    assert np.isnan(y[2:40]).all()


@pytest.mark.parametrize("made", ["i128", "vector<[4]xf32>"])
def test_types_that_would_end_the_process_are_errors_at_their_line(made):
    op = "arith.fptosi %zero : f32 to i128" if made == "i128" else f"vector.broadcast %zero : f32 to {made}"
    text = LOCAL.replace("affine.for", f"%wide = {op}\n    affine.for", 1)
    with pytest.raises(TraceError, match=re.escape(f"makes a {made}")) as raised:
        thin.load(text.replace("%ROW", "%t"), name="text.mlir")
    assert raised.value.where == nv.errors.Where("text.mlir", line_of(text, "%wide"))


GLOBAL = REVERSED.replace("memref<64xf32, 3>", "memref<64xf32>")
CALL = DOUBLED.replace("%v = memref.load", "func.call @f() : () -> ()\n    %v = memref.load").replace(
    "gpu.module @m {", "gpu.module @m {\n  func.func private @f()"
)
PRIVATE = DOUBLED.replace("workgroup(%s: memref<32xf32, #gpu.address_space<workgroup>>)", "private(%s: memref<32xf32>)")
PRIVATE = PRIVATE.replace("memref<32xf32, #gpu.address_space<workgroup>>", "memref<32xf32>")


@pytest.mark.parametrize(
    ("text", "name", "message", "part"),
    [
        (GLOBAL, "main", "global @buffer in global memory", "memref.get_global"),
        (CALL, "double", "calls a function", "func.call"),
        (PRIVATE, "double", "private buffer", "gpu.func"),
    ],
    ids=["global", "call", "private"],
)
def test_what_cannot_be_launched_is_an_error_at_its_line(text, name, message, part):
    loaded = thin.load(text, name="text.mlir")[name]
    with pytest.raises(TraceError, match=message) as raised:
        if name == "main":
            loaded.trace(X, X, 1.0)
        else:
            loaded.trace(X, X, 1, grid=1)
    assert raised.value.where == nv.errors.Where("text.mlir", line_of(text, part))


def test_arguments_that_do_not_fit_are_errors():
    double, reverse = thin.load(DOUBLED)["double"], thin.load(REVERSED)["reverse"]
    x = np.zeros(64, np.float32)
    with pytest.raises(ArgumentError, match="takes 3 arguments, 2 were given"):
        double.trace(x, x, grid=1)
    with pytest.raises(ArgumentError, match="without a grid"):
        double.trace(x, x, 1)
    with pytest.raises(ArgumentError, match="without a block"):
        reverse.trace(x, x, 1.0, grid=1)
    with pytest.raises(ArgumentError, match="argument 0 .* is a number"):
        double.trace(1, x, 1, grid=1)
    with pytest.raises(ArgumentError, match="argument 2 .* is an array"):
        double.trace(x, x, x, grid=1)
    with pytest.raises(ArgumentError, match="elements f16"):
        double.trace(x.astype(np.float16), x, 1, grid=1)
    with pytest.raises(ArgumentError, match="smem=-1"):
        double.trace(x, x, 1, grid=1, smem=-1)
    with pytest.raises(ArgumentError, match="load of None"):
        thin.load(None)
    with pytest.raises(ArgumentError, match="unexpected threads"):
        double.trace(x, x, 1, grid=1, threads=32)
    with pytest.raises(ArgumentError, match="unexpected grid"):
        thin.load(REVERSED)["main"].trace(X, X, 1.0, grid=1)
    with pytest.raises(ArgumentError, match=r"shape \(64,\)|64"):
        reverse(x, X, 1.0, grid=4, block=64, target="sim")
    with pytest.raises(TraceError, match="2,048|2048"):
        double.trace(x, x, 1, grid=1, block=2048)


def test_names_that_are_not_there_are_errors():
    with pytest.raises(ArgumentError, match="nothing called 'other'") as raised:
        thin.load(REVERSED)["other"]
    assert "m::reverse, main" in str(raised.value)
    with pytest.raises(TraceError, match="neither a host function nor a kernel"):
        thin.load("module {}")


def test_a_tensor_map_needs_a_host_function():
    map_type = COPIED.partition("!map = ")[2].partition("none>")[0] + "none>"
    text = f"gpu.module @m {{\n gpu.func @k(%m: {map_type}) kernel {{ gpu.return }} }}"
    with pytest.raises(ArgumentError, match="parameter 0 of kernel k is a tensor map"):
        thin.load(text)["k"].trace(X, grid=1, block=32)
