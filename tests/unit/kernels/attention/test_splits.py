"""How many blocks share a tile of attention: of queries in the forward kernel, of keys in that of the gradients."""

import pytest

from nvdsl.kernels.attention import choose, gradient_config
from nvdsl.kernels.attention.splits import in_clusters
from nvdsl.kernels.blocks.tile_scheduler import RowGroups

SMS = 132


@pytest.mark.parametrize(
    ("tiles", "steps", "mean", "blocks"),
    [
        (SMS, 137, 1.0, 1),  # a wave
        (137, 137, 1.0, 4),  # little more than one
        (137, 12, 1.0, 1),  # too short for a cluster's end
        (235, 47, 1.0, 1),  # nearly two
        (72, 36, 1.0, 1),  # 72 clusters of two come in two waves
        (64, 235, 0.99, 2),
        (188, 94, 0.5, 2),  # a causal tile takes as long as all SMs need for the sum of them
        (2048, 256, 0.5, 1),
    ],
)
def test_clusters_share_keys_where_waves_are_badly_filled(tiles, steps, mean, blocks):
    assert in_clusters(tiles, steps, mean, SMS) == blocks


@pytest.mark.parametrize("sms", [1, 2, 3, 7])
def test_a_cluster_has_no_more_blocks_than_there_are_sms(sms):
    assert in_clusters(2 * sms + 1, 500, 1.0, sms) <= sms


def of(queries, keys, heads, seen=None, **options):
    common = {"packed": False, "page": 0, "told": False, "splits": None, "sms": SMS, "left": seen is not None}
    given = {"bounded": True, "seen": seen} | common | options
    return choose.choose(192, 192, 1, queries, heads, heads, keys, **given)


def test_a_window_is_what_counts_of_many_keys():
    (wide, _), (narrow, _) = of(8192, 8192, 16), of(8192, 8192, 16, seen=146)
    assert narrow.tile_n < wide.tile_n
    assert of(128, 65536, 8)[0].cluster > of(128, 65536, 8, seen=300)[0].cluster == 1


def test_a_narrow_window_of_packed_sequences_has_short_tiles_of_keys():
    def tile_n(seen):
        return of(16000, 1500, 8, seen, packed=True, ragged=True)[0].tile_n

    assert tile_n(300) == 64 < tile_n(700)


@pytest.mark.parametrize(
    ("tiles", "group", "seen", "most", "cut"),
    [
        (32, 16, 2048, 4096, (1, 8)),  # 16 heads on one: two for a block
        (64, 1, 4096, 4096, (2, 1)),
        (64, 2, 4096, 4096, (1, 2)),  # heads rather than queries: loops as long as before
        (16, 2, 2048, 4096, (4, 2)),
        (176, 16, 393, 787, (1, 4)),  # short packed sequences
        (SMS, 1, 4096, 4096, (1, 1)),
        (140, 1, 4480, 4480, (3, 1)),  # little more than a wave
        (250, 1, 8000, 16000, (1, 1)),
        (20, 1, 60, 60, (1, 1)),  # a tile of queries is one block's
    ],
)
def test_blocks_share_keys_where_tiles_are_few(tiles, group, seen, most, cut):
    chosen = gradient_config.choose(128, 128, False, False, group * seen)
    assert gradient_config.shares(chosen, tiles, group, seen, most, SMS) == cut


def test_few_blocks_share_keys_where_they_wait_for_each_other():
    chosen = gradient_config.choose(128, 128, False, False, 16 * 2048)
    most = gradient_config.MOST_DESCENDING
    assert gradient_config.shares(chosen, 32, 16, 2048, 4096, SMS, most) == (1, 4)


def test_the_last_band_is_no_smaller_than_the_others():
    """14 heads fit into L2: with 16, the last two's long tiles would begin last."""
    order = RowGroups(16, 18, 14, 14)
    places = [order.place(i) for i in range(16 * 18)]
    assert sorted(places) == [(row, col) for row in range(16) for col in range(18)]
    assert [col for _, col in places] == sorted(col for _, col in places)
