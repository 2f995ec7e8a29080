"""None for an argument that a kernel uses as an array: an error at the call, which names the parameter and the use."""

import inspect

import numpy as np
import pytest

import nvdsl as nv


def line(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, one in enumerate(lines) if text in one)


def host(use):
    """A host function around a kernel that uses ``bias`` so."""

    @nv.jit
    def given(x, bias, *, scale=None):
        @nv.kernel(grid=1, block=32)
        def body():
            t = nv.thread_id.x
            if t < 16:
                x[t] = use(bias, t, scale)

        body()

    return given


def loaded(bias, t, scale):
    return bias[t]  # USE


def through_another(b, t, scale):
    return loaded(t=t, bias=b, scale=scale)


def added(bias, t, scale):
    return nv.f32(t) + bias  # USE


def extent(bias, t, scale):
    return nv.f32(bias.shape[0])  # USE


def length(bias, t, scale):
    return nv.f32(len(bias))  # USE


def in_a_branch(bias, t, scale):
    y = nv.f32(0.0)
    if t < 8:
        y = nv.f32(bias[t])  # USE
    return y


USES = {"loaded": loaded, "through another": loaded, "added": added, "extent": extent, "length": length,
        "in a branch": in_a_branch}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_the_call_is_named_and_the_use(name):
    given = host(through_another if name == "through another" else USES[name])
    with pytest.raises(nv.ArgumentError) as caught:
        given(np.zeros(32, np.float32), None, target="sim")  # CALL
    error = caught.value
    assert (error.where.file, error.where.line) == (__file__, line(test_the_call_is_named_and_the_use, "# CALL"))
    assert "`bias` of given is None" in error.message and "scale" not in error.message
    assert f"{__file__}:{line(USES[name], '# USE')}" in error.message


def test_an_argument_that_is_left_out():
    given = host(lambda bias, t, scale: bias[t] * scale[0])
    with pytest.raises(nv.ArgumentError, match="`scale` of given is None"):
        given(np.zeros(32, np.float32), np.zeros(32, np.float32), target="sim")


def test_on_the_host_side():
    @nv.jit
    def given(x, w=None):
        w_tma = nv.TMA(w, tile=(32,))

        @nv.kernel(grid=1, block=32)
        def body():
            w_tma.prefetch()

        body()

    with pytest.raises(nv.ArgumentError, match="`w` of given is None"):
        given(np.zeros(32, np.float32), target="sim")


def of_its_own(bias, t, scale):
    bias = None
    return bias[t]


def raised(bias, t, scale):
    raise TypeError(f"bias is {bias}, which is my own affair")


@pytest.mark.parametrize(("use", "kind", "x"), [(of_its_own, nv.TraceError, 1.0), (raised, TypeError, None)])
def test_what_has_other_reasons_stays_as_it_is(use, kind, x):
    with pytest.raises(kind) as caught:
        host(use)(np.zeros(32, np.float32), x, target="sim")
    assert caught.type is kind


def test_none_that_is_asked_for():
    x = np.zeros(32, np.float32)
    host(lambda bias, t, scale: nv.f32(1.0 if bias is None else 2.0))(x, None, target="sim")
    assert (x[:16] == 1).all()
