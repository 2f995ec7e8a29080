"""gpu.subgroup_mma_*: what a warp loads, multiplies and stores, and what the simulator reports of it."""

import numpy as np
import pytest

from nvdsl import sim, thin
from nvdsl.driver.arrays import describe
from nvdsl.errors import SimError, VerifyError

SHARED = "#gpu.address_space<workgroup>"
TYPES = {"f16": np.float16, "f32": np.float32, "i32": np.int32}


def kernel(body, arguments, threads=32, smem=8192):
    return thin.load(
        f"""
        func.func @main({arguments}) {{
          %z = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c8 = arith.constant 8 : index
          %c16 = arith.constant 16 : index
          %threads = arith.constant {threads} : index
          %bytes = arith.constant {smem} : i32
          gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
              threads(%t, %ty, %tz) in (%nx = %threads, %ny = %c1, %nz = %c1) dynamic_shared_memory_size %bytes {{
            {body}
            gpu.terminator
          }}
          return
        }}"""
    )["main"]


def load(name, array, of, shape="16x16", type="f16", at="%z, %z", lead=16, more="", space=""):
    return (
        f"%{name} = gpu.subgroup_mma_load_matrix %{array}[{at}] {{leadDimension = {lead} : index{more}}} : "
        f'memref<{of}x{type}{space}> -> !gpu.mma_matrix<{shape}x{type}, "{name[0].upper()}Op">\n'
    )


def compute(a="16x16xf16", b="16x16xf16", d="16x16xf32", more=""):
    return (
        f'%d = gpu.subgroup_mma_compute %a, %b, %c {{{more}}} : !gpu.mma_matrix<{a}, "AOp">, '
        f'!gpu.mma_matrix<{b}, "BOp"> -> !gpu.mma_matrix<{d}, "COp">\n'
    )


def store(array, of, value="d", type="f32", shape="16x16", more="", lead=16):
    return (
        f"gpu.subgroup_mma_store_matrix %{value}, %{array}[%z, %z] {{leadDimension = {lead} : index{more}}} : "
        f'!gpu.mma_matrix<{shape}x{type}, "COp">, memref<{of}x{type}>\n'
    )


def numbers(*shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("sums", ["f16", "f32"])
@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_product_of_halves_with_either_layout(sums, ta, tb):
    body = load("a", "x", "16x16", more=", transpose" * ta) + load("b", "y", "16x16", more=", transpose" * tb)
    body += load("c", "o", "16x16", type=sums)
    body += compute(d=f"16x16x{sums}", more=", ".join(["a_transpose"] * ta + ["b_transpose"] * tb))
    body += store("o", "16x16", type=sums)
    x, y, o = numbers(16, 16), numbers(16, 16, seed=1), numbers(16, 16, dtype=TYPES[sums], seed=2)
    want = np.float32(x.T if ta else x) @ np.float32(y.T if tb else y) + o
    array = "memref<16x16xf16>"
    kernel(body, f"%x: {array}, %y: {array}, %o: memref<16x16x{sums}>")(x, y, o, target="sim")
    np.testing.assert_array_equal(o, want)


def test_a_product_of_f32_drops_what_tf32_has_not():
    body = load("a", "x", "16x8", "16x8", "f32", lead=8) + load("b", "y", "8x16", "8x16", "f32")
    body += load("c", "o", "16x16", type="f32") + compute("16x8xf32", "8x16xf32") + store("o", "16x16")
    x, y = np.random.default_rng(0).normal(size=(2, 16, 8)).astype(np.float32)
    y = np.ascontiguousarray(y.T)
    o = np.zeros((16, 16), np.float32)
    kernel(body, "%x: memref<16x8xf32>, %y: memref<8x16xf32>, %o: memref<16x16xf32>")(x, y, o, target="sim")
    cut = [(v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (x, y)]
    np.testing.assert_allclose(o, cut[0] @ cut[1], rtol=1e-6, atol=1e-6)
    assert not np.allclose(o, x @ y, rtol=1e-6, atol=1e-6)


def test_elementwise_ops_and_constants():
    body = """
      %two = arith.constant 2.0 : f32
      %c = gpu.subgroup_mma_constant_matrix %two : !gpu.mma_matrix<16x16xf32, "COp">
    """
    body += load("cx", "x", "16x16", type="f32")
    for made, name, operands in (("e", "mulf", "%cx, %c"), ("f", "maxf", "%e, %c"), ("d", "negatef", "%f")):
        count = operands.count("%")
        types = ", ".join(['!gpu.mma_matrix<16x16xf32, "COp">'] * count)
        result = '!gpu.mma_matrix<16x16xf32, "COp">'
        body += f"%{made} = gpu.subgroup_mma_elementwise {name} {operands} : ({types}) -> {result}\n"
    x, o = numbers(16, 16, dtype=np.float32), np.zeros((16, 16), np.float32)
    kernel(body + store("o", "16x16"), "%x: memref<16x16xf32>, %o: memref<16x16xf32>")(x, o, target="sim")
    np.testing.assert_array_equal(o, -np.maximum(2 * x, 2))


def test_a_sum_is_stored_as_columns():
    body = load("c", "x", "16x16", type="f32") + store("o", "16x16", "c", more=", transpose")
    x, o = numbers(16, 16, dtype=np.float32), np.zeros((16, 16), np.float32)
    kernel(body, "%x: memref<16x16xf32>, %o: memref<16x16xf32>")(x, o, target="sim")
    np.testing.assert_array_equal(o, x.T)


# --- what is wrong

STAGED = f"""
  %block = gpu.dynamic_shared_memory : memref<?xi8, {SHARED}>
  %s = memref.view %block[%z][] : memref<?xi8, {SHARED}> to memref<32x16xf16, {SHARED}>
  %w = arith.divui %t, %c16 : index
"""
COPY = f"""
  scf.for %i = %z to %c16 step %c1 {{
    %v = memref.load %x[%t, %i] : memref<64x16xf16>
    memref.store %v, %s[%ROW, %i] : memref<32x16xf16, {SHARED}>
  }}
"""
BARRIER = "gpu.barrier\n"
USE = (
    load("a", "s", "32x16", space=f", {SHARED}")
    + load("b", "y", "16x16")
    + load("c", "o", "16x16", type="f32")
    + compute()
)


def staged(*parts, threads=32):
    arrays = "%x: memref<64x16xf16>, %y: memref<16x16xf16>, %o: memref<16x16xf32>"
    text = STAGED + "".join(parts).replace("%ROW", "%t")
    return kernel(text, arrays, threads), (numbers(64, 16), numbers(16, 16), np.zeros((16, 16), np.float32))


def kind_of(made, arguments, level="traced"):
    module = made.trace(*arguments)
    specs, values = zip(*(describe(a) for a in arguments), strict=True)
    try:
        sim.run(module, "main", [*values], [*specs], options=sim.Options(level=level))
    except SimError as error:
        return error.kind
    return None


@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_lanes_need_an_order_before_the_warp_loads_what_they_stored(level):
    made, arguments = staged(COPY, BARRIER, USE, store("o", "16x16"))
    assert kind_of(made, arguments, level) is None
    made, arguments = staged(COPY, USE, store("o", "16x16"))
    assert kind_of(made, arguments, level) == "warp-sync"


@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_a_store_after_a_load_by_another_warp_needs_an_order(level):
    other = "scf.if %first {\n" + USE + store("o", "16x16") + "} else {\n" + COPY + "}\n"
    first = "%first = arith.cmpi ult, %w, %c1 : index\n".replace("%w, %c1", "%t, %thirtytwo")
    setup = "%thirtytwo = arith.constant 32 : index\n" + first
    fill = "scf.if %first {\n" + COPY + "}\n" + BARRIER
    body = (setup + fill + other).replace("memref.store %v, %s[%ROW", "memref.store %v, %s[%lane")
    lane = "%lane = arith.remui %t, %thirtytwo : index\n"
    made, arguments = staged(body.replace("%first = ", lane + "%first = "), threads=64)
    assert kind_of(made, arguments, level) in ("war", "raw")


def test_a_warp_may_load_the_sum_that_it_stored_without_a_barrier():
    again = load("c2", "o", "16x16", type="f32") + store("o", "16x16", "c2")
    made, arguments = staged(COPY, BARRIER, USE, store("o", "16x16"), again)
    assert kind_of(made, arguments) is None


def test_another_place_of_the_sum_needs_one():
    body = load("c", "x", "32x16", type="f32", lead=16) + store("x", "32x16", "c")
    body += load("c2", "x", "32x16", type="f32", at="%c8, %z") + store("o", "16x16", "c2")
    made = kernel(body, "%x: memref<32x16xf32>, %o: memref<16x16xf32>")
    assert kind_of(made, (np.zeros((32, 16), np.float32), np.zeros((16, 16), np.float32))) == "warp-sync"


def run(body, threads=32):
    body += load("b", "y", "16x16") + load("c", "o", "16x16", type="f32") + compute() + store("o", "16x16")
    made = kernel(body, "%x: memref<32x24xf16>, %y: memref<16x16xf16>, %o: memref<16x16xf32>", threads)
    return kind_of(made, (numbers(32, 24), numbers(16, 16), np.zeros((16, 16), np.float32)))


@pytest.mark.parametrize(
    ("a", "kind"),
    [
        (load("a", "x", "32x24", lead=24), None),
        (load("a", "x", "32x24", lead=24, at="%c16, %z"), None),
        (load("a", "x", "32x24", lead=24, at="%c16, %c16"), "out-of-bounds"),
        (load("a", "x", "32x24", lead=24, at="%c1, %z"), "misaligned"),
        (load("a", "x", "32x24", lead=20), "misaligned"),
        ("%u = arith.remui %t, %c16 : index\n" + load("a", "x", "32x24", lead=24, at="%u, %z"), "not-uniform"),
        (load("a", "x", "32x24", lead=24, more=", transpose"), "wmma-layout"),
    ],
)
def test_where_a_matrix_lies(a, kind):
    assert run(a) == kind


def test_a_warp_of_less_than_32_lanes():
    assert run(load("a", "x", "32x24", lead=24), threads=16) == "divergent-collective"


def test_half_a_warp_in_a_branch_is_refused_before_it_runs():
    half = "%half = arith.cmpi slt, %t, %c8 : index\nscf.if %half {\n"
    body = half + load("a", "x", "32x24", lead=24) + "}\n"
    made = kernel(body, "%x: memref<32x24xf16>")
    with pytest.raises(VerifyError, match=r"wmma\.load"):
        made.trace(numbers(32, 24))
