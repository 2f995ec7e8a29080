"""The limits agree with one another, as the documents that they come from say."""

from nvdsl.hopper import arch


def test_shared_memory():
    assert arch.MAX_SMEM_PER_BLOCK == 227 * 1024
    assert arch.SMEM_PER_SM - arch.RESERVED_SMEM_PER_BLOCK == arch.MAX_SMEM_PER_BLOCK
    assert arch.SMEM_WITHOUT_OPT_IN == 48 * 1024
    assert arch.SMEM_ALIGNMENT == 8 * max(arch.SWIZZLES)  # 8 rows of the widest swizzle


def test_registers():
    # A full block of warpgroups that each hold the most registers of setmaxnreg does not fit: hence the check.
    assert arch.SETMAXNREG_MAX * arch.WARPGROUP_SIZE * 3 > arch.REGISTERS_PER_SM
    # 24 for a producer and 240 for each of two consumers does, 40 and 240 does not.
    assert (24 + 2 * 240) * arch.WARPGROUP_SIZE <= arch.REGISTERS_PER_SM < (40 + 2 * 240) * arch.WARPGROUP_SIZE
    for limit in (arch.SETMAXNREG_MIN, arch.SETMAXNREG_MAX):
        assert limit % arch.SETMAXNREG_STEP == 0


def test_blocks():
    assert arch.MAX_THREADS_PER_BLOCK % arch.WARPGROUP_SIZE == 0
    assert arch.MAX_CLUSTER_SIZE_NON_PORTABLE == 2 * arch.MAX_CLUSTER_SIZE
    assert max(arch.MAX_BLOCK_DIM) == arch.MAX_THREADS_PER_BLOCK


def test_a_full_box_fits_an_mbarrier_and_shared_memory():
    largest = arch.MAX_SMEM_PER_BLOCK
    assert largest < arch.MBARRIER_MAX_TX
    assert arch.WGMMA_MAX_N == arch.TMA_MAX_BOX  # B's widest tile is one box
