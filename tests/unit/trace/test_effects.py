"""Which arguments are copied back: those that something in the host function may write."""

import pytest

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.trace.effects import written_arguments
from tests.unit.kernels import array, trace

X, Y = array(nv.f32, 64, 64), array(nv.f32, 64, 64)


def written(body, *arguments, **launch):
    """Positions of the arguments of ``body``, a kernel's, that it writes."""
    module = trace(body, *(arguments or (X, Y)), **launch)
    return set(written_arguments(module.body.operations[0]))


def through_tma(use):
    """Positions that ``use(tma of x, tma of y, tile, barrier)`` writes."""

    def host(x, y):
        x_tma, y_tma = nv.TMA(x, tile=(8, 64), swizzle=128), nv.TMA(y, tile=(8, 64), swizzle=128)

        @nv.kernel(grid=1, block=32)
        def kernel():
            tile = nv.smem((8, 64), nv.f32, swizzle=128)
            use(x_tma, y_tma, tile, nv.Mbarriers(1, arrivals=1)[0])

        kernel()

    module = nv.jit(host).trace(X, Y)
    return set(written_arguments(module.body.operations[0]))


def store(x, y):
    y[0, 0] = x[0, 0]


def store_vector(x, y):
    y.store_vector(x.load_vector((0, 0), 4), (0, 4))


def store_to_a_view(x, y):
    y.view((nv.thread_id.x, 0), (1, 32))[0, 3] = x[0:4, 0:4][1, 1]


def store_to_a_view_of_a_view(x, y):
    y[8:16, 0:64][0:4, 0:8][0, 0] = x[0:4, 0:4][0:2, 0:2][1, 1]


def store_in_a_branch(x, y):
    for i in nv.range(8):
        if x[i, 0] > 0.0:
            y[i, 0] = 1.0


def in_place(x, y):
    y[0, 0] += x[0, 0]


def accumulator(x, y):
    nv.accumulator(64, 64).map(lambda v: v + x[0, 0]).store(y, (0, 0))


def bulk(x, y):
    memory, full = nv.smem((64,), nv.f32), nv.Mbarriers(1, arrivals=1)[0]
    nv.bulk_load(memory, x, 256, full)
    nv.bulk_store(y, memory, 256)


@pytest.mark.parametrize(
    "body",
    [store, store_vector, store_to_a_view, store_to_a_view_of_a_view, store_in_a_branch, in_place, accumulator, bulk],
)
def test_x_is_read_and_y_is_written(body):
    assert written(body, block=128) == {1}


def test_what_is_not_used_is_not_written():
    assert written(lambda x, y: None) == set()


def test_scalars_are_not_written():
    def body(x, n, y):
        y[0, 0] = nv.f32(n)

    assert written(body, X, 3, Y) == {2}


TMA = {
    "load": (lambda x, y, tile, full: x.load(tile, full, (0, 0)), set()),
    "load with a hint": (lambda x, y, tile, full: x.load(tile, full, (0, 0), l2_hint=nv.L2_EVICT_LAST), set()),
    "prefetch": (lambda x, y, tile, full: x.prefetch(), set()),
    "prefetch of a tile": (lambda x, y, tile, full: x.prefetch_tile((0, 0)), set()),
    "store": (lambda x, y, tile, full: y.store(tile, (0, 0)), {1}),
    "store with a hint": (lambda x, y, tile, full: y.store(tile, (0, 0), l2_hint=nv.L2_EVICT_LAST), {1}),
    "reduce": (lambda x, y, tile, full: y.reduce_add(tile, (0, 0)), {1}),
    "load and store": (lambda x, y, tile, full: (x.load(tile, full, (0, 0)), x.store(tile, (0, 0))), {0}),
}


@pytest.mark.parametrize(("use", "expected"), TMA.values(), ids=list(TMA))
def test_tma(use, expected):
    assert through_tma(use) == expected


COPIES = """
  %token = gpu.wait async
  %x, %t1 = gpu.alloc async [%token] () : memref<8xf32>
  %t2 = gpu.memcpy async [%t1] %x, %a : memref<8xf32>, memref<8xf32>
  %t3 = gpu.memcpy async [%t2] %d, %x : memref<8xf32>, memref<8xf32>
  gpu.memcpy %e, %b : memref<8xf32>, memref<8xf32>
  gpu.wait [%t3]
"""
UNKNOWN = '"test.op"(%a) : (memref<8xf32>) -> ()'


@pytest.mark.parametrize(("text", "expected"), [(COPIES, {2, 3}), (UNKNOWN, {0})], ids=["gpu.memcpy", "an unknown op"])
def test_ops_of_the_host(text, expected):
    """A copy reads its source; what is not known may write."""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        names = ", ".join(f"%{name}: memref<8xf32>" for name in "abde")
        module = ir.Module.parse(f"func.func @f({names}) {{ {text} return }}")
        assert set(written_arguments(module.body.operations[0])) == expected
