"""What schedules and payloads are refused: the error names the step and its line."""

import pytest

import nvdsl as nv
from nvdsl import schedule as sc
from nvdsl.errors import ArgumentError, ScheduleError, TraceError
from nvdsl.mlir.dialects import math
from tests.unit.schedule.products import BLOCK, WARP, relu


def steps_with(name, *steps, **other):
    """The schedule with the steps called ``name`` replaced."""
    whole = sc.wmma_steps(BLOCK, WARP, **other)
    place = [one.name for one in whole].index(name)
    return [*whole[:place], *steps, *whole[place + 1 :]]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([sc.tile_blocks(32, 64, 0), sc.bufferize()], r"tile_blocks\(32, 64, 0\): tiles of 32 x 64 x 0"),
        ([sc.stage()], r"stage\(\): the product is still on tensors"),
        ([sc.bufferize(), sc.stage(), sc.copies(8)], r"copies\(8\): no loop over warps or threads"),
        ([sc.bufferize(), sc.wmma()], r"wmma\(\): no products of vectors"),
        ([sc.bufferize(), sc.tile_warps(32, 24)], r"tile_warps\(32, 24\): tiles of 32 x 24 for warps"),
        ([sc.bufferize(), sc.vectorize()], r"vectorize\(\): no tiles of a tensor core"),
        ([sc.bufferize(), sc.permute()], r"permute\(\): no three loops"),
        ([sc.bufferize(), sc.pad()], r"pad\(\): no tile in shared memory"),
        ([sc.bufferize(), sc.launch()], r"launch\(\): no loop over warps or threads"),
        ([sc.bufferize(), sc.hide_latency()], r"hide_latency\(\): no loop over K in a launch"),
        ([sc.tile_blocks(32, 32, 32), sc.merge_barriers()], r"finish\(\): 0 launches|finish\(\): a \S+ is left"),
        (steps_with("pad", sc.pad(3)), r"pad\(3\): rows of .* longer by 3 elements"),
        (steps_with("permute", sc.permute("kk")), r"permute\('kk'\): the order 'kk'"),
        (steps_with("copies", sc.copies(16)), r"copies\(16\): 16 elements at once"),
        (steps_with("tile_fragments", sc.tile_fragments(16, 8, 16)), r"wmma\(\): tiles of 16 x 8 x 16"),
        (steps_with("unroll"), r"hoist_sums\(\): loops over tiles of a tensor core"),
        (steps_with("stage", sc.stage(), sc.tile_warps(*WARP), sc.pad()), r"pad\(\): .* is in parts"),
        ([sc.tile_blocks(*BLOCK)], r"tile_blocks\(32, 64, 32\): there are tiles for blocks already"),
        (steps_with("stage", sc.stage(), sc.stage()), r"stage\(\): operands that are in shared memory"),
        ([sc.bufferize(), sc.tile_warps(*WARP), sc.stage()], r"stage\(\): a product that is not a block's"),
        (steps_with("tile_warps", sc.tile_warps(*WARP), sc.tile_threads(4, 8)), r"tile_threads\(4, 8\): .* is divided"),
        (steps_with("launch", sc.wmma()), r"wmma\(\): no gpu.launch"),
        ([sc.persistent()], r"persistent\(\): operands that are not in shared memory"),
        ([sc.bufferize(), sc.persistent()], r"persistent\(\): operands that are not in shared memory"),
        ([sc.bufferize(), sc.stage(), sc.persistent(0)], r"persistent\(0\): 0 blocks"),
        ([sc.wgmma()], r"wgmma\(\): operands that are not in shared memory"),
        ([*sc.mma_steps(BLOCK, WARP, stages=3)[1:], sc.prefetch()], r"prefetch\(\): a loop that carries more"),
    ],
)
def test_a_step_that_does_not_fit_is_named(steps, says):
    if steps[0].name != "tile_blocks" or len(steps) == 1:
        steps = [sc.tile_blocks(*BLOCK), *steps]
    with pytest.raises(ScheduleError, match=says) as caught:
        sc.compile(sc.matmul(64, 64, 64), steps)
    assert caught.value.where.file == __file__ and caught.value.rule


def test_bf16_and_other_functions_have_no_wmma():
    with pytest.raises(ScheduleError, match=r"wmma\(\): a product of bf16"):
        sc.compile(sc.matmul(64, 64, 64, nv.bf16), sc.wmma_steps(BLOCK, WARP))
    with pytest.raises(ScheduleError, match=r"wmma\(\): math.exp\w* has no form"):
        sc.compile(sc.matmul(64, 64, 64, then=math.exp), sc.wmma_steps(BLOCK, WARP))
    with pytest.raises(ScheduleError, match=r"wmma\(\): arith.maxnumf has no form"):
        sc.compile(sc.matmul(64, 64, 64, then=lambda x: nv.max(x, 0.0)), sc.wmma_steps(BLOCK, WARP))


def test_what_mma_sync_and_swizzles_do_not_take():
    unhoisted = [step for step in sc.mma_steps(BLOCK, WARP) if step.name != "hoist_sums"]
    with pytest.raises(ScheduleError, match=r"mma_sync\(\): (vector.transfer_write has|products whose operands)"):
        sc.compile(sc.matmul(64, 64, 64, then=relu), unhoisted)
    with pytest.raises(ScheduleError, match=r"wmma\(\): sums that are stored in each step of K"):
        sc.compile(sc.matmul(64, 64, 64, then=relu), sc.wmma_steps(BLOCK, WARP, without=["hoist_sums", "hide_latency"]))
    with pytest.raises(ScheduleError, match=r"wmma\(\): sums that are stored in each step of K"):
        sc.compile(sc.matmul(64, 64, 32, then=relu), sc.wmma_steps(BLOCK, WARP, without=["hoist_sums"]))
    steps = sc.mma_steps(BLOCK, WARP)
    with pytest.raises(ScheduleError, match=r"mma_sync\(\): products whose|swizzle\(\): linalg.copy of"):
        without_copies = [step for step in steps if step.name != "copies"]
        sc.compile(sc.matmul(64, 64, 64, of_a=lambda x: x + 1.0, then=relu), without_copies)
    with pytest.raises(ScheduleError, match=r"mma_sync\(\): a product of bf16 beside f16"):
        rounded = sc.matmul(64, 64, 64, nv.bf16, then=lambda x: nv.f32(nv.f16(x)))
        sc.compile(rounded, sc.mma_steps(BLOCK, WARP, nv.bf16))
    with pytest.raises(ScheduleError, match=r"mma_sync\(\): tiles of 16 x 16 x 16"):
        sc.compile(sc.matmul(64, 64, 64), [*sc.wmma_steps(BLOCK, WARP)[:-1], sc.mma_sync()])
    with pytest.raises(ScheduleError, match=r"swizzle\(\): a tile of memref<32x72xf16"):
        sc.compile(sc.matmul(64, 64, 64), [*steps[:4], sc.pad(), *steps[4:]])
    with pytest.raises(ScheduleError, match=r"swizzle\(\): gpu.subgroup_mma_load_matrix of a tile"):
        sc.compile(sc.matmul(64, 64, 64), [*sc.wmma_steps(BLOCK, WARP, without=["pad"]), sc.swizzle()])
    with pytest.raises(ScheduleError, match=r"copy_async\(1\): 1 buffers"):
        sc.compile(sc.matmul(64, 64, 64), [sc.copy_async(1)])
    narrow = sc.wmma_steps(BLOCK, WARP, without=["hide_latency", "wide"])
    with pytest.raises(ScheduleError, match=r"copy_async\(\): copies of 2 bytes"):
        sc.compile(sc.matmul(64, 64, 64), [*narrow, sc.copy_async()])
    with pytest.raises(ScheduleError, match=r"hide_latency\(\): loops or branches"):
        sc.compile(sc.matmul(96, 64, 64), sc.mma_steps((48, 64, 32), (16, 32)))


def test_too_much_shared_memory_and_too_many_threads():
    with pytest.raises(ScheduleError, match=r"finish\(\): \d+,\d+ bytes of shared memory"):
        steps = sc.wmma_steps((256, 256, 512), (128, 128), without=["hide_latency", "hoist_sums", "unroll"])
        sc.compile(sc.matmul(256, 256, 512), steps)
    with pytest.raises(ScheduleError, match=r"copies\(8\): 2,048 threads"):
        sc.compile(sc.matmul(256, 256, 32), sc.wmma_steps((256, 256, 32), (32, 32)))


def test_payloads_that_there_are_not():
    with pytest.raises(ArgumentError, match="a product of bf16 with f16 sums"):
        sc.matmul(16, 16, 16, nv.bf16, sums=nv.f16)
    with pytest.raises(ArgumentError, match="operands without a function"):
        sc.matmul(16, 16, 16, operands=["n"])
    with pytest.raises(ArgumentError, match=r"0 x 16 x 16"):
        sc.matmul(0, 16, 16)
    with pytest.raises(TraceError, match="2 functions"):
        sc.payload("func.func @a() { return }\nfunc.func @b() { return }")
    with pytest.raises(TraceError, match="custom op"):
        sc.payload("func.func @a() { nonsense }")


def test_what_is_no_step():
    with pytest.raises(ArgumentError, match="'tile_warps' in a schedule"):
        sc.compile(sc.matmul(16, 16, 16), [sc.tile_warps])
    with pytest.raises(ArgumentError, match="a schedule without 'launch'"):
        sc.wmma_steps(without=["launch"])
    with pytest.raises(TypeError):
        sc.tile_blocks(1)


IDENTITY, SWAPPED = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j, i)>"


def product_with(before="", behind="", arguments="", types=("f16", "f16"), a="%A", a_type="tensor<64x64xf16>"):
    """A payload on tensors with other operations around the product."""
    left, right = types
    return sc.payload(f"""
    func.func @f(%A: {a_type}, %B: tensor<64x64x{right}>{arguments}, %C: tensor<64x64xf32>) -> tensor<64x64xf32> {{
      %e = tensor.empty() : tensor<64x64x{left}>
      {before}
      %p = linalg.matmul ins({a}, %B : tensor<64x64x{left}>, tensor<64x64x{right}>)
                         outs(%C : tensor<64x64xf32>) -> tensor<64x64xf32>
      {behind or "%r = tensor.cast %p : tensor<64x64xf32> to tensor<64x64xf32>"}
      return %r : tensor<64x64xf32>
    }}""")


INDEX = f"""%r = linalg.generic {{indexing_maps = [{IDENTITY}], iterator_types = ["parallel", "parallel"]}}
      outs(%p : tensor<64x64xf32>) {{ ^bb0(%x: f32):
        %i = linalg.index 0 : index
        %k = arith.index_cast %i : index to i32
        %f = arith.sitofp %k : i32 to f32
        %y = arith.addf %x, %f : f32
        linalg.yield %y : f32 }} -> tensor<64x64xf32>"""
TURNED = f"""%x = linalg.generic {{indexing_maps = [{SWAPPED}, {IDENTITY}], iterator_types = ["parallel", "parallel"]}}
      ins(%A : tensor<64x64xf16>) outs(%e : tensor<64x64xf16>) {{ ^bb0(%u: f16, %o: f16):
        %y = arith.addf %u, %u : f16
        linalg.yield %y : f16 }} -> tensor<64x64xf16>"""
WGMMA = sc.wgmma_steps((64, 64, 64), 2, 1)


@pytest.mark.parametrize("steps", [sc.fma_steps((16, 32, 16), (4, 8)), sc.wmma_steps(BLOCK, WARP), WGMMA])
def test_operations_that_are_not_of_elements_place_by_place(steps):
    with pytest.raises(ScheduleError, match=r"tile_blocks\(.*\): an operation that sums up elements, or asks"):
        sc.compile(product_with(behind=INDEX), steps)
    with pytest.raises(ScheduleError, match=r"(copies|wgmma)\(.*\): .* (not of one array|of one array)"):
        sc.compile(product_with(TURNED, a="%x", a_type="tensor<64x64xf16>"), steps)


def test_operands_of_two_types_and_arrays_with_strides():
    mixed = product_with(types=("f16", "f32"), a_type="tensor<64x64xf16>")
    with pytest.raises(ScheduleError, match=r"vectorize\(\): a product of f16 with f32"):
        sc.compile(mixed, sc.wmma_steps(BLOCK, WARP, without=["wide"]))
    with pytest.raises(ScheduleError, match=r"wgmma\(2, 1\): a product of f16 with f32"):
        sc.compile(mixed, WGMMA)
    strided = "memref<32x64xf16, strided<[128, 1]>>"
    text = f"""func.func @f(%A: {strided}, %B: memref<64x64xf16>, %C: memref<32x64xf32>) {{
      linalg.matmul ins(%A, %B : {strided}, memref<64x64xf16>) outs(%C : memref<32x64xf32>)
      return }}"""
    with pytest.raises(ScheduleError, match=r"tile_blocks\(64, 64, 64\): memref.* no multiples of the tiles"):
        sc.compile(sc.payload(text), WGMMA)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sc.matmul(16.0, 16, 16), "16.0 x 16 x 16"), (lambda: sc.matmul(16, 16, 16, batch=0), "a batch of 0"),
        (lambda: sc.matmul(16, 16, 16, then=lambda x: nv.f16(x)), "gives f16"),
        (lambda: sc.payload(3), "3 as a payload"),
        (lambda: sc.tile_blocks(32.0, 32, 32), "m = 32.0"), (lambda: sc.persistent(blocks="all"), "blocks = 'all'"),
    ],
)  # fmt: skip
def test_arguments_of_other_types(make, says):
    with pytest.raises(ArgumentError, match=says):
        make()


def test_payloads_with_numbers_and_unknown_extents():
    with pytest.raises(TraceError, match="argument 2 of a payload is f32"):
        product_with(arguments=", %s: f32")
    with pytest.raises(TraceError, match=r"argument 0 of a payload is tensor<\?x64xf16>"):
        sc.payload("func.func @f(%A: tensor<?x64xf16>) { return }")


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: sc.compile("func.func ...", []), "func.func ... in the place of a payload"),
        (lambda: sc.compile(sc.matmul(64, 64, 64), 4), "4 in a schedule"),
        (lambda: sc.mma_steps((64, 64)), r"a schedule with block=\(64, 64\)"),
        (lambda: sc.wmma_steps(warp=32), "a schedule with warp=32"),
        (lambda: sc.wmma_steps(without="wid"), "a schedule without 'wid'"),
    ],
)
def test_what_is_no_payload_no_schedule_or_no_tile(made, says):
    with pytest.raises(ArgumentError, match=says):
        made()
    assert "pad" not in [step.name for step in sc.wmma_steps(without="pad")]


def test_a_payload_overwrites_no_argument_but_the_last():
    text = """func.func @f(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %d: tensor<64x64xf32>, %c: tensor<64x64xf32>)
        -> tensor<64x64xf32> {
      %p = linalg.matmul ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%d : tensor<64x64xf32>)
        -> tensor<64x64xf32>
      return %p : tensor<64x64xf32>
    }"""
    with pytest.raises(TraceError, match="linalg.matmul makes its result of argument 2"):
        sc.payload(text)
    sc.payload(text.replace("outs(%d", "outs(%c"))
