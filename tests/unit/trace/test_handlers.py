"""`try` in a kernel: its handlers run for what Python raises while it traces, and never for what the kernel does."""

import numpy as np
import pytest

import nvdsl as nv
from tests.sim.simulate import run

X = np.arange(32, dtype=np.float32)


def called(body):
    @nv.jit
    def f(x, y):
        @nv.kernel(grid=1, block=32)
        def kernel():
            body(x, y, nv.thread_id.x)

        kernel()

    y = np.zeros(32, np.float32)
    run(f, X.copy(), y)
    return y


def divided(x, y, i):
    try:  # here
        y[i] = x[i] / (i - 3)
    except ZeroDivisionError:
        y[i] = 0.0


def beyond(x, y, i):
    def element(j):
        try:  # here
            return x[j]
        except (KeyError, IndexError):
            return 0.0

    y[i] = element(i + 1)


def asserted(x, y, i):
    try:  # here
        assert i < 3
        y[i] = x[i]
    except AssertionError:
        y[i] = 1.0


def anything(x, y, i):
    if i > 3:
        try:  # here
            y[i] = x[i]
        except:  # noqa: E722
            y[i] = 0.0


def swallowed(x, y, i):
    try:
        y[i] = x[i] << 2  # here
    except Exception:
        y[i] = 0.0


@pytest.mark.parametrize("body", [divided, beyond, asserted, anything, swallowed], ids=lambda body: body.__name__)
def test_handlers_that_would_not_run(body):
    with pytest.raises(nv.TraceError) as caught:
        called(body)
    assert "# here" in open(__file__).read().splitlines()[caught.value.where.line - 1]
    assert body is swallowed or "`except" in str(caught.value)


def named(x, y, i):
    try:
        y[i] = x[i] << 2
    except nv.TraceError:
        y[i] = x[i] * 4


def of_python(x, y, i):
    registers, numbers, total = [x[i], 2.0], {"a": 1.0}, nv.f32(0)
    for j in range(3):
        try:
            total += registers[j]
        except IndexError:
            total += 1.0
    try:
        total += numbers["b"]
    except KeyError as error:
        total += len(error.args)
    finally:
        total += 1.0
    y[i] = total


def left_early(x, y, i):
    for j in range(4):
        try:
            if j == 1:
                continue
            if j == 3:
                break
            y[i] = x[i] + j
        except ValueError:
            y[i] = 0.0


EXPECTED = {named: 4 * X, of_python: X + 5, left_early: X + 2}


@pytest.mark.parametrize("body", EXPECTED, ids=lambda body: body.__name__)
def test_handlers_of_the_trace(body):
    np.testing.assert_array_equal(called(body), EXPECTED[body])
