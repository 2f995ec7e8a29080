"""Traced values that outlive their trace: pytest shows the arguments of the functions that an error came through."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import TraceError


def test_an_error_in_a_loop_leaves_values_that_can_be_shown():
    kept = []

    @nv.jit
    def host(x: nv.Array["n"]):  # noqa: F821
        (n,) = x.shape

        @nv.kernel(grid=1, block=32)
        def kernel():
            for k in nv.range(n):
                value = k * n
                for _ in range(50):
                    value = value * n + k
                    kept.append(value)
                kept.append(x[k:n])
                nv.no_such_name(value)

        kernel()

    with pytest.raises(TraceError, match="no_such_name"):
        host(np.zeros(8, np.float32), target="sim")
    *values, part = kept  # the loop is erased, and they with it
    for value in values:
        assert f"{value!r} {value!s} {value}" == "<a traced value> <a traced value> <a traced value>"
        with pytest.raises(TraceError, match="is not known"):
            bool(value)
        for late in (lambda x: x + 1, lambda x: -x, lambda x: x < 3):
            with pytest.raises(TraceError, match="no function is being traced"):
                late(value)
    assert repr(part) == str(part) == f"{part}"
    assert "f32" in str(part)


def traced(body):
    """A kernel with this body, traced."""

    @nv.jit
    def host(x):
        @nv.kernel(grid=1, block=32)
        def kernel():
            body(x)

        kernel()

    return host.trace(nv.ShapeDtype((32,), nv.f32))


def of_a_failed_loop():
    """A number, an array and a vector that were made in a loop that an error left."""
    kept = []

    def body(x):
        for k in nv.range(4):
            kept.extend((nv.thread_id.x + k, x[k : k + 8], x.vector((0,), 4)))
            nv.no_such_name(k)

    with pytest.raises(TraceError, match="no_such_name"):
        traced(body)
    return kept


@pytest.mark.parametrize(
    ("number", "use"),
    [
        (0, lambda kept, x: x.store(kept, 1.0)),
        (0, lambda kept, x: kept + 1),
        (0, lambda kept, x: nv.max(kept, 1)),
        (0, lambda kept, x: nv.shuffle(kept, 0)),
        (1, lambda kept, x: x.store(0, kept[0])),
        (1, lambda kept, x: nv.copy(kept, x[0:8], group="warp")),
        (2, lambda kept, x: x.store_vector(kept, 0)),
        (2, lambda kept, x: x.store(0, kept.sum())),
    ],
)
def test_values_of_a_trace_that_failed_are_refused_in_another(number, use):
    kept = of_a_failed_loop()[number]
    with pytest.raises(TraceError, match="used in a trace that did not make it"):
        traced(lambda x: use(kept, x))


def test_a_trace_that_is_refused_leaves_values_that_are_refused():
    kept = of_a_failed_loop()[:1]

    def body(x):
        kept.append(kept[-1] + nv.thread_id.x)

    for _ in range(3):  # each uses a value of the one before
        with pytest.raises(TraceError, match="used in a trace that did not make it"):
            traced(body)


def test_a_trace_goes_on_after_an_error_in_a_loop():
    def body(x):
        try:
            for k in nv.range(4):
                x[k] = nv.f32(k)
                raise nv.TraceError("no")
        except nv.TraceError:
            x[0] = 1.0

    text = str(traced(body).operation)
    assert "memref.store" in text and "scf.for" not in text and "discarded" not in text


VALUE, TILE = (
    "a traced value of the kernel `first` is used in the kernel `second`",
    "a tile of the kernel `first` is used",
)


@pytest.mark.parametrize(
    ("made", "use", "message"),
    [
        (lambda: nv.thread_id.x, lambda kept, x: x.store(kept, 1.0), VALUE),
        (lambda: nv.smem(32, nv.f32), lambda kept, x: x.store(0, kept[0]), VALUE),
        (lambda: nv.smem((8, 32), nv.f32), lambda kept, x: x.store(0, kept[0, 0]), TILE),
        (lambda: nv.smem((2, 8, 32), nv.f32), lambda kept, x: x.store(0, kept[1][0, 0]), TILE),
        (lambda: nv.smem((8, 32), nv.f16, swizzle=64), lambda kept, x: nv.load_a(kept.T), TILE),
        (lambda: nv.smem((8, 32), nv.f16), lambda kept, x: kept.rows(4, 2).pointer(), TILE),
    ],
)
def test_what_one_kernel_made_is_refused_in_another(made, use, message):
    @nv.jit
    def host(x):
        kept = []

        @nv.kernel(grid=1, block=32)
        def first():
            kept.append(made())

        @nv.kernel(grid=1, block=32)
        def second():
            use(kept[0], x)

        first()
        second()

    with pytest.raises(TraceError, match=message):
        host.trace(nv.ShapeDtype((32,), nv.f32))
