"""nvdsl.sim.matrix against nvdsl.layout, against the PTX ISA's figures, and against what an H200 did."""

import itertools
import zlib

import ml_dtypes
import numpy as np
import pytest

from nvdsl.layout import Operand, TileLayout
from nvdsl.sim import matrix

pytestmark = pytest.mark.usefixtures("warnings_off")

KINDS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "i8", "u8")
BASE = 5 * 1024
"""Where tiles start: aligned for every swizzle, and not 0."""


def random(shape, kind, seed=0):
    """Elements with random bits, but no NaN (whose comparison fails) and no infinity."""
    dtype = matrix.ELEMENTS[kind]
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return (rng.standard_normal(shape) * 4).astype(np.float32).astype(dtype)


def stored(values, layout):
    """Shared memory with a tile at `BASE`, written element by element as ``layout`` says."""
    rows, cols = np.indices(values.shape)
    offsets = layout.offset(rows, cols)
    smem = np.full(BASE + layout.panels * layout.panel_stride + 1024, 0xA5, np.uint8)
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, layout.itemsize)
    smem[(BASE + offsets)[..., None] + np.arange(layout.itemsize)] = raw
    return smem


def descriptor(operand, offset):
    return operand.descriptor_constant() | (BASE + offset) >> 4


# --- operands ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("panels", [1, 2])
@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
def test_k_major_operands_lie_as_the_layout_says(swizzle, panels, kind):
    itemsize = matrix.ELEMENTS[kind].itemsize
    panels *= 2 if swizzle == 16 else 1  # a wgmma reads two panels of 16 bytes
    layout = TileLayout.of(256, panels * swizzle // itemsize, itemsize, swizzle)
    values = random((256, layout.cols), kind)
    smem, operand, k = stored(values, layout), Operand(layout, "k"), 32 // itemsize
    wide = matrix.widen(values, kind)
    for start, rows in ((0, 64), (64, 64), (0, 8), (8, 24), (0, 256), (200, 56)):
        for step in range(layout.cols // k):
            found = matrix.read_operand(
                smem, descriptor(operand, operand.mn_offset(start) + operand.k_offset(step)), rows, kind, "k"
            )
            assert np.array_equal(found, wide[start : start + rows, step * k : step * k + k])


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("panels", [1, 2, 4])
@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
def test_mn_major_operands_lie_as_the_layout_says(swizzle, panels, kind):
    layout = TileLayout.of(48, panels * swizzle // 2, 2, swizzle)
    values = random((48, layout.cols), kind)
    smem, operand, width = stored(values, layout), Operand(layout, "mn"), layout.panel_cols
    for panel in range(panels):
        start = panel * width
        for rows in {8, width, layout.cols - start}:
            for step in range(3):
                found = matrix.read_operand(
                    smem,
                    descriptor(operand, operand.mn_offset(start) + operand.k_offset(step)),
                    rows,
                    kind,
                    "mn",
                )
                assert np.array_equal(
                    found, values[step * 16 : step * 16 + 16, start : start + rows].T.astype(np.float32)
                )


def test_a_part_of_a_taller_tile_keeps_its_panels():
    whole = TileLayout.of(128, 128, 2, 128)
    values = random((128, 128), "f16")
    smem, part = stored(values, whole), Operand(whole.take_rows(64), "k")
    for step in range(8):
        found = matrix.read_operand(smem, descriptor(part, 64 * 128 + part.k_offset(step)), 64, "f16", "k")
        assert np.array_equal(found, values[64:, step * 16 : step * 16 + 16].astype(np.float32))


# (descriptor, major, CRC-32 of the [64, 16] indices of the 16-bit elements) that an H200 read through this
# descriptor, measured with every element of 64 KiB of shared memory holding its index. Strides and starts
# are of tiles, of k-steps within a swizzled row, at odd 128-byte lines with a base offset, and of nothing.
MEASURED_OPERANDS = [
    (0x0000001000800000, "k", 0xEBD2CC52),
    (0x0000007000200004, "k", 0x8D6D7558),
    (0x000A004001000068, "k", 0x3369B540),
    (0x000000210029009D, "k", 0x92D55158),
    (0x00000010000800C0, "mn", 0x02FA682C),
    (0x0000004800400084, "mn", 0x342700B6),
    (0x0000004001000040, "mn", 0xDA8BD1CC),
    (0x00000064001A0051, "mn", 0x141E2F2A),
    (0x4000004000800040, "k", 0x0285DD44),
    (0x4000005800400004, "k", 0x2E6F9119),
    (0x400C004001000070, "k", 0xC55EB318),
    (0x4000002D002800FE, "k", 0x2FEFD57C),
    (0x4000004000800000, "mn", 0x8107A023),
    (0x4000007000400004, "mn", 0xD3198241),
    (0x4008004001000060, "mn", 0x24236C22),
    (0x40000076000900F8, "mn", 0xC2EDE8B9),
    (0x8000002000800080, "k", 0x46C86E51),
    (0x8000007000280004, "k", 0x2DCE3CDB),
    (0x800E004001000038, "k", 0xEB056495),
    (0x8000006600130096, "k", 0x96450C0B),
    (0x8000002000800040, "mn", 0xDC7277D8),
    (0x80000008002000C4, "mn", 0x4E01E303),
    (0x8006004001000018, "mn", 0x7B83EBC4),
    (0x80000078002800C9, "mn", 0x5964D228),
    (0xC000001000800040, "k", 0xD8A0AA0B),
    (0xC000008000280044, "k", 0x8EC0550D),
    (0xC00A0040010000E8, "k", 0xA9D37A1A),
    (0xC000000E000900AB, "k", 0x030E6CE4),
    (0xC000001000800080, "mn", 0x5E463363),
    (0xC000006000380084, "mn", 0x0CD43E3C),
    (0xC00A0040010000E8, "mn", 0x855D5D0A),
    (0xC000005F00230050, "mn", 0x7DF06D6C),
]


@pytest.mark.parametrize(("bits", "major", "crc"), MEASURED_OPERANDS)
def test_operands_are_read_as_an_h200_reads_them(bits, major, crc):
    index = np.arange(1 << 15)
    low, high = ((index & 1023).astype(np.float16), (index >> 10).astype(np.float16))
    low, high = (matrix.read_operand(x.view(np.uint8), bits, 64, "f16", major) for x in (low, high))
    assert zlib.crc32((low + 1024 * high).astype(np.uint16).tobytes()) == crc


def test_descriptor_fields():
    bits = 3 << 62 | 5 << 49 | 0x123 << 32 | 0x2BC << 16 | 0x3FFF
    assert matrix.decode(bits) == (0x3FFF0, 0x2BC0, 0x1230, 5, 32)
    assert matrix.decode(bits - (1 << 64)) == matrix.decode(bits)  # a signed i64
    assert [matrix.decode(mode << 62).swizzle for mode in range(4)] == [16, 128, 64, 32]


def test_footprints_are_the_bytes_that_matter():
    layout = TileLayout.of(64, 64, 2, 128)
    smem, operand = stored(random((64, 64), "f16"), layout), Operand(layout, "k")
    bits = descriptor(operand, operand.k_offset(1))
    ranges = matrix.operand_footprint(bits, 64, "k")
    assert sum(stop - start for start, stop in ranges) == 64 * 32
    before = matrix.read_operand(smem, bits, 64, "f16", "k")
    inside = np.zeros(len(smem), bool)
    for start, stop in ranges:
        inside[start:stop] = True
    smem[~inside] = 0xFF
    assert np.array_equal(matrix.read_operand(smem, bits, 64, "f16", "k"), before)
    start, stop = ranges[7]
    smem[start : start + 2] ^= 0x40
    assert not np.array_equal(matrix.read_operand(smem, bits, 64, "f16", "k"), before)


def test_adjacent_bytes_of_a_footprint_are_one_range():
    operand = Operand(TileLayout.of(64, 64, 2, 128), "mn")
    assert matrix.operand_footprint(descriptor(operand, 0), 64, "mn") == [(BASE, BASE + 16 * 128)]
    assert matrix.operand_footprint(descriptor(operand, 2048), 32, "mn")[0][0] >= BASE + 2048
    assert sum(b - a for a, b in matrix.operand_footprint(descriptor(operand, 0), 32, "mn")) == 32 * 32


def test_an_operand_out_of_shared_memory_is_an_error():
    operand = Operand(TileLayout.of(64, 64, 2, 128), "k")
    with pytest.raises(IndexError):
        matrix.read_operand(np.zeros(BASE + 4096, np.uint8), descriptor(operand, 0), 64, "f16", "k")


@pytest.mark.parametrize("kind", ["tf32", "e4m3", "i8"])
def test_only_16_bit_operands_are_mn_major(kind):
    with pytest.raises(ValueError, match="no MN-major operand"):
        matrix.read_operand(np.zeros(65536, np.uint8), 0, 64, kind, "mn")


# --- the product ---------------------------------------------------------------------------------


def test_tf32_operands_lose_their_low_bits():
    x = np.array([0x3F801FFF, 0xBF803FFF, 0x00001FFF, 0x7F801FFF], np.uint32).view(np.float32)
    wide = matrix.widen(x, "tf32").view(np.uint32).tolist()
    assert wide == [0x3F800000, 0xBF802000, 0, 0x7F800000]


@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
@pytest.mark.parametrize("exact", [False, True])
def test_products_of_small_integers_are_exact(kind, exact):
    rng = np.random.default_rng(1)
    k = 32 // matrix.ELEMENTS[kind].itemsize
    a, b = (matrix.widen(rng.integers(-8, 9, (m, k)).astype(matrix.ELEMENTS[kind]), kind) for m in (64, 24))
    acc = rng.integers(-50, 50, (64, 24)).astype(np.float32)
    found = matrix.mma(a, b, acc, scale_b=-1, exact=(kind, kind) if exact else None)
    assert found.dtype == np.float32
    assert np.array_equal(found, acc - a @ b.T)
    assert np.array_equal(matrix.mma(a, b, scale_a=-1, scale_b=-1), a @ b.T)


def test_an_accumulator_is_not_written_in_place():
    a = np.ones((64, 16), np.float32)
    acc = np.zeros((64, 8), np.float32)
    assert (matrix.mma(a, a[:8], acc) == 16).all()
    assert (acc == 0).all()


def test_f16_accumulators_are_rounded():
    a = np.zeros((64, 16), np.float32)
    a[0, 0], a[1, :2] = 1, (1, 1)
    acc = np.full((64, 8), 2048, np.float16)
    found = matrix.mma(a, np.ones((8, 16), np.float32), acc, d_dtype="f16")
    assert found.dtype == np.float16
    assert found[:2, 0].tolist() == [2048, 2050]  # 2049 is a tie
    assert np.isinf(matrix.mma(a * 60000, np.ones((8, 16), np.float32), d_dtype="f16")[1, 0])


def test_integer_accumulators_wrap():
    a = matrix.widen(np.full((64, 32), 255, np.uint8), "u8")
    b = matrix.widen(np.full((8, 32), -128, np.int8), "s8")
    acc = np.full((64, 8), -(2**31), np.int32)
    assert (matrix.mma(a, b, d_dtype="i32") == -32 * 255 * 128).all()
    assert (matrix.mma(a, b, acc, d_dtype="s32") == 2**31 - 32 * 255 * 128).all()


# (A, B, D types, accumulator, D, a row of A, a row of B): sums of an H200 that float32 sums miss: wide
# ranges of exponents, subnormal operands, the two together.
MEASURED_SUMS = [
    (
        *("f16", "f16", "f32", 0xAAE2C26F, 0xADEAFB00),  # sub
        "4e00240000801d00008000001e8000000000328000000880010003807100c400",
        "01008d8014800000000000000700a10101801e0002802d000100000003800000",
    ),
    (
        *("f16", "f16", "f32", 0x00000000, 0x36D69240),  # mixed
        "0200008000002c80350008800480020000804500158004000280af812e000180",
        "01006a4a0a000000000000005c000b00240d203ed4a20db0d4803d002b290000",
    ),
    (
        *("bf16", "bf16", "f32", 0x013040B2, 0x013040BE),  # sub
        "0398071936879e940200991752832f0204117401080065000a04c01c00000000",
        "01009f95eb030000bb8b2c1f909f0780880d8f05bf1f5e12a49b691601800493",
    ),
    (
        *("bf16", "bf16", "f32", 0x2F3DCB1A, 0x2F3DCBFD),  # mixed
        "00000000a90d60179b157115fd059d9219041da100001d0920921f8036030000",
        "14c700000000824fa42c00000000beb7c23f38bb25380000ddcfcd3a0000fdce",
    ),
    (
        *("tf32", "tf32", "f32", 0x00000001, 0x00000004),  # sub
        "c2a7a309000000000000000000000000df4199a05eb541a0b595b8208c321804",
        "e63a8083000000002c19a09740456f1f1cc98b0cfb232995000000009c553215",
    ),
    (
        *("e4m3", "e4m3", "f32", 0x2EB714DB, 0xC3A90400),  # wide
        "3e035580b7000080c600abab0644813f183c5896b20062470007d23504000002",
        "0000342d88102bb50a4dae22820000af834b2903b238d18c3800810301000001",
    ),
    (
        *("e4m3", "e4m3", "f32", 0x395FE7EF, 0x38CFC000),  # sub
        "8000818403048100000180008300000280000003800281818201000404858481",
        "0000860003890080020085010300050086010001000101028081000003010280",
    ),
    (
        *("e4m3", "e4m3", "f32", 0xC08E9078, 0xC09D0800),  # mixed
        "0000800001000100010086838182000401008082820102008100008101060201",
        "4b0054020282c0a7c52861003b0000811a4e8381948f9c81008400d101c40000",
    ),
    (
        *("e5m2", "e5m2", "f32", 0x2D92B9F5, 0xBBBB8400),  # mixed
        "03000083870000840101810902000d8101008801818707000081000100810100",
        "0100d4574800a8bc1c0080b81e0036013b19bb98bda93200828c229714331da9",
    ),
    (
        *("e4m3", "e5m2", "f32", 0x345BD1CB, 0x4519CC00),  # wide
        "023b000002d200131047014800000a005fe400008d8486100000340325000000",
        "001100000e10c6d40000a280b100004d55bd59b9003c9abec99645ce07290400",
    ),
    (
        *("e4m3", "e5m2", "f32", 0x00000000, 0x36800000),  # mixed
        "0081828982010081008483000000000081028100008402000285828100840200",
        "34ac8025003840000010001aba923718b102003100318090af2b2424008435c9",
    ),
    (
        *("e4m3", "e4m3", "f16", 0x0002, 0x1880),  # mixed
        "0080800080038200018184808100808101000102008301830080000080020100",
        "879100b081c400a98541a454df84a424608900dd00a633a5840081202003a100",
    ),
    (
        *("e5m2", "e5m2", "f16", 0x1122, 0x8DBB),  # mixed
        "008780000000008a818082030600008000000200020000010502098280070086",
        "8800b0c7008faec4272700029900de0b80a19b5c890095a21e5100a3a8964a50",
    ),
]


@pytest.mark.parametrize(("a", "b", "d", "acc", "expected", "a_bytes", "b_bytes"), MEASURED_SUMS)
def test_exact_sums_have_an_h200s_bits(a, b, d, acc, expected, a_bytes, b_bytes):
    word, kind = (np.uint16, np.float16) if d == "f16" else (np.uint32, np.float32)
    rows = (
        matrix.widen(np.frombuffer(bytes.fromhex(x), matrix.ELEMENTS[t])[None], t)
        for x, t in ((a_bytes, a), (b_bytes, b))
    )
    found = matrix.mma(*rows, np.array([[acc]], word).view(kind), d_dtype=d, exact=(a, b))
    assert f"{found.view(word)[0, 0]:X}" == f"{expected:X}"


@pytest.mark.parametrize(("kind", "bits"), [("e4m3", 13), ("f16", 24)])
def test_how_much_an_exact_accumulator_keeps(kind, bits):
    # Measured on an H200: 8-bit floats cut the accumulator itself off after 13 bits, at every wgmma.
    a = np.zeros((64, 32 if kind == "e4m3" else 16), np.float32)
    acc = np.zeros((64, 8), np.float32)
    acc[0, 0], acc[1, 0] = 1 + 2.0**-13, 1 + 2.0**-14
    found = matrix.mma(a, a[:8], acc, exact=(kind, kind))[:2, 0].tolist()
    assert found == [1 + 2.0**-13, 1 if bits == 13 else 1 + 2.0**-14]


def test_infinities_and_nans_pass_through():
    a, b = np.zeros((64, 16), np.float32), np.ones((8, 16), np.float32)
    a[0, 0], a[1, :2], a[2, 3] = np.inf, (np.inf, -np.inf), np.nan
    for exact in (None, ("f16", "f16")):
        found = matrix.mma(a, b, np.zeros((64, 8), np.float32), exact=exact)[:4, 0]
        assert np.isposinf(found[0]) and np.isnan(found[1]) and np.isnan(found[2]) and found[3] == 0


# --- stmatrix and ldmatrix -----------------------------------------------------------------------


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_to_and_from_shared_memory(count, transpose):
    rng = np.random.default_rng(2)
    registers = rng.integers(0, 1 << 32, (count, 32), np.uint32)
    addresses = 16 * rng.permutation(200)[:32]
    smem = np.full(4096, 0xEE, np.uint8)
    matrix.stmatrix(smem, addresses, registers, transpose)
    halves = smem.view(np.uint16)
    for i, lane, half in itertools.product(range(count), range(32), range(2)):
        row, col = lane // 4, lane % 4 * 2 + half
        if transpose:
            row, col = col, row
        assert halves[addresses[8 * i + row] // 2 + col] == registers[i, lane] >> 16 * half & 0xFFFF
    assert (smem == 0xEE).sum() >= 4096 - count * 128  # nothing else is written
    assert np.array_equal(matrix.ldmatrix(smem, addresses, count, transpose), registers)


def test_rows_of_matrices_are_16_byte_aligned():
    addresses = np.full(32, 16)
    addresses[5] = 40
    with pytest.raises(ValueError, match="0x28"):
        matrix.ldmatrix(np.zeros(256, np.uint8), addresses, 1)
    addresses[5], addresses[9] = 32, 40  # a lane whose address is not used
    assert not matrix.ldmatrix(np.zeros(256, np.uint8), addresses, 1).any()


# --- all together --------------------------------------------------------------------------------


def test_a_gemm_tile():
    a, b = random((64, 64), "bf16", 3), random((64, 128), "bf16", 4)  # B is N-major
    b_layout = TileLayout.of(64, 128, 2, 128)
    a_layout = TileLayout.of(64, 64, 2, 128)
    a_smem, b_smem = stored(a, a_layout), stored(b, b_layout)
    a_operand, b_operand = Operand(a_layout, "k"), Operand(b_layout, "mn")
    acc = None
    for step in range(4):
        rows = matrix.read_operand(a_smem, descriptor(a_operand, a_operand.k_offset(step)), 64, "bf16", "k")
        cols = matrix.read_operand(b_smem, descriptor(b_operand, b_operand.k_offset(step)), 128, "bf16", "mn")
        acc = matrix.mma(rows, cols, acc)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert acc.shape == (64, 128)
    np.testing.assert_allclose(acc, expected, rtol=1e-5, atol=1e-4)


def test_elements_are_those_of_ml_dtypes():
    assert matrix.ELEMENTS["f8E4M3FN"] == matrix.ELEMENTS["e4m3"] == np.dtype(ml_dtypes.float8_e4m3fn)
    assert matrix.ELEMENTS["s8"] == matrix.ELEMENTS["i8"] == np.int8
