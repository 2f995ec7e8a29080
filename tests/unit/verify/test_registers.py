"""setmaxnreg: a split of more than a block starts with hangs on the device; here it is an error with the line."""

import pytest

import nvdsl as nv
from tests.unit.kernels import array, host, refused


def specialized(producer, consumer, condition=lambda group: group == 0):
    """The body of a kernel whose first warpgroup loads."""

    def body(*arguments):
        if condition(nv.warpgroup_id()):
            nv.setmaxnreg_dec(producer)
        else:
            nv.setmaxnreg_inc(consumer)

    return body


def check(body, groups, *arguments):
    return host(body, block=128 * groups).trace(*arguments)


@pytest.mark.parametrize(
    ("groups", "producer", "consumer"),
    [(3, 24, 240), (3, 40, 232), (2, 40, 232), (2, 240, 256), (4, 32, 160), (4, 24, 160), (5, 24, 112), (8, 24, 64)],
)
def test_splits_that_fit(groups, producer, consumer):
    check(specialized(producer, consumer), groups)


@pytest.mark.parametrize(
    ("groups", "producer", "consumer", "total"),
    [
        (3, 40, 240, "66,560"),
        (3, 32, 240, "65,536"),  # an SM has as many
        (3, 48, 232, "65,536"),
        (2, 248, 256, "64,512"),
        (4, 32, 168, "68,608"),
    ],
)
def test_splits_that_hang(groups, producer, consumer, total):
    body = specialized(producer, consumer)
    error = refused(lambda: check(body, groups), body)
    assert isinstance(error, nv.VerifyError)
    assert f"{producer}*128 + {consumer}*128" in error.message
    assert f"{total} registers" in error.message
    starts_with = {2: "63,488", 3: "64,512", 4: "65,536"}[groups]
    assert starts_with in error.rule
    assert error.where.line == body.__code__.co_firstlineno + 4, "the larger of the two"


def test_warpgroups_without_setmaxnreg_keep_what_the_launch_gave():
    def body():
        if nv.warpgroup_id() == 1:
            nv.setmaxnreg_inc(184)

    error = refused(lambda: check(body, 3), body)
    assert "168*128 + 184*128 + 168*128" in error.message


def test_the_last_of_several_counts():
    def body():
        nv.setmaxnreg_dec(24)
        if nv.warpgroup_id() > 0:
            nv.setmaxnreg_inc(240)

    check(body, 3)


def neither(group):
    return not (group != 0)


SPELLINGS = {
    "==": lambda group: group == 0,
    "<": lambda group: group < 1,
    "thread": lambda group: nv.thread_id.x < 128,
    "warp": lambda group: nv.warp_id() // 4 == 0,
    "not": neither,
    "unsigned": lambda group: nv.u32(group) - 1 >= 2,
}


@pytest.mark.parametrize("condition", SPELLINGS.values(), ids=list(SPELLINGS))
def test_roles_are_understood_however_they_are_written(condition):
    check(specialized(24, 240, condition), 3)
    with pytest.raises(nv.VerifyError, match="66,560"):
        check(specialized(40, 240, condition), 3)


def nested(second):
    def body():
        group = nv.warpgroup_id()
        if group == 0:
            nv.setmaxnreg_dec(40)
        else:
            if group == 1:
                nv.setmaxnreg_inc(second)
            else:
                nv.setmaxnreg_inc(232)

    return body


def test_nested_branches_are_followed():
    check(nested(232), 3)  # 64,512 to the last register
    body = nested(240)  # 65,536: an SM has them, the block does not
    error = refused(lambda: check(body, 3), body)
    assert "40*128 + 240*128 + 232*128" in error.message
    assert error.where.line == body.__code__.co_firstlineno + 6


def test_roles_that_only_the_device_knows_raise_no_alarm():
    def body(n):
        if nv.warpgroup_id() == n:
            nv.setmaxnreg_dec(40)
        else:
            nv.setmaxnreg_inc(240)

    check(body, 3, 0)


def test_blocks_of_two_axes_count_their_threads_along_x_first():
    def body(producer):
        def rows():
            if nv.thread_id.y == 0:
                nv.setmaxnreg_dec(producer)
            else:
                nv.setmaxnreg_inc(240)

        return rows

    host(body(24), block=(128, 3)).trace()
    error = refused(lambda: host(body(40), block=(128, 3)).trace(), body)
    assert "40*128 + 240*128 + 240*128" in error.message


def test_blocks_that_the_rule_says_nothing_about_are_let_through():
    def body(n):
        for _ in nv.range(n):
            if nv.warpgroup_id() > 0:
                nv.setmaxnreg_inc(240)

    check(body, 3, 0)
    host(lambda: None, block=100).trace()


def test_each_launch_has_its_own_budget():
    def body(x):
        for producer, consumer in ((24, 240), (40, 240)):
            nv.kernel(grid=1, block=384)(specialized(producer, consumer))()

    error = refused(lambda: nv.jit(body).trace(array(nv.f32, 4)), specialized)
    assert "66,560" in error.message


@pytest.mark.parametrize(
    ("first", "then", "since"),
    [
        (nv.setmaxnreg_inc, None, "the launch"),
        (nv.setmaxnreg_dec, lambda: nv.setmaxnreg_inc(96), None),
        (nv.setmaxnreg_dec, lambda: nv.setmaxnreg_inc(64), "the setmaxnreg at"),
        (nv.setmaxnreg_dec, lambda: nv.setmaxnreg_dec(96), "the setmaxnreg at"),
        (nv.setmaxnreg_dec, lambda: nv.setmaxnreg_dec(80), None),
    ],
)
def test_inc_takes_and_dec_releases(first, then, since):
    """Three warpgroups start with 168 registers a thread."""

    def body():
        if nv.warpgroup_id() == 0:
            first(80)
            nv.sync_warp()
            if then is not None:
                then()

    if since is None:
        check(body, 3)
    else:
        with pytest.raises(nv.VerifyError, match=rf"in a warpgroup that has (168|80) since {since}"):
            check(body, 3)


def test_blocks_of_two_warpgroups_ask_for_what_larger_ones_do():
    check(specialized(40, 232), 2)
