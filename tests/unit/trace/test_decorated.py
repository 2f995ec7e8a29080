"""What nv.jit and nv.kernel can't decorate, and what would never run, are errors at their lines."""

import functools
import linecache
import warnings

import numpy as np
import pytest

import nvdsl as nv

X = np.zeros(32, np.float32)

# The error names the line with `# <-`; `f(x)` is called where there is an `f`.
REFUSED = {
    "a kernel that is never launched": """
@nv.jit
def f(x):
    @nv.kernel(grid=1, block=32)  # <-
    def kernel():
        x[0] = 1.0
""",
    "a kernel without its parentheses": """
@nv.jit
def f(x):
    @nv.kernel(grid=1, block=32)
    def first():
        x[0] = 1.0
    first()
    @nv.kernel(grid=1, block=32)  # <-
    def second():
        x[0] = 1.0
    second
""",
    "a variable in the place of an array": """
@nv.jit
def f(x):
    @nv.kernel(grid=1, block=32)
    def k():
        if nv.thread_id.x < 3:
            x = nv.thread_id.x * 2  # <-
    k()
""",
    "a kernel's result": """
@nv.jit
def f(x):
    @nv.kernel(grid=1, block=32)
    def k():
        if x.shape[0] == 3:
            return
        return x[0]  # <-
    k()
""",
    "a host function's result": """
@nv.jit
def f(x):
    @nv.kernel(grid=1, block=32)
    def k():
        x[0] = 1.0
    k()
    return x  # <-
""",
    "a generator": """
@nv.jit  # <-
def f(x):
    yield x
""",
    "a coroutine": """
@nv.jit  # <-
async def f(x):
    pass
""",
    "a generator as kernel": """
@nv.jit
def f(x):
    @nv.kernel(grid=1, block=32)  # <-
    def k():
        yield 1
    k()
""",
    "an option's name": """
@nv.jit  # <-
def f(x, *, target):
    pass
""",
    "another option's name": """
@nv.jit  # <-
def f(x, stream):
    pass
""",
    "a method": """
class A:
    @nv.jit  # <-
    def f(self, x):
        pass
""",
    "a static method": """
class A:
    @nv.jit  # <-
    @staticmethod
    def f(x):
        pass
""",
    "a jit of a jit": """
@nv.jit  # <-
@nv.jit
def f(x):
    pass
""",
    "a class": """
@nv.jit  # <-
class A:
    pass
""",
    "a number": """
nv.jit(3)  # <-
""",
    "no sizes": """
@nv.jit
def f(x):
    @nv.kernel  # <-
    def k():
        x[0] = 1.0
    k()
""",
    "no block": """
@nv.jit
def f(x):
    @nv.kernel(grid=1)  # <-
    def k():
        x[0] = 1.0
    k()
""",
    "a launch outside of a host function": """
@nv.kernel(grid=1, block=32)
def k():
    X[0] = 1.0
k()  # <-
""",
    "a host function in a host function": """
@nv.jit
def g(x):
    @nv.kernel(grid=1, block=32)
    def k():
        x[0] = 1.0
    k()
g(X)
@nv.jit
def f(x):
    g(X)  # <-
    @nv.kernel(grid=1, block=32)
    def k():
        x[0] = 1.0
    k()
""",
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")
    source = REFUSED[case]
    with pytest.raises(nv.TraceError) as caught:
        names = define_all(source)
        if "f" in names:
            names["f"](X)
    error = caught.value
    (line,) = (number for number, text in enumerate(source.splitlines(), 1) if text.endswith("# <-"))
    assert error.where is not None and error.where.line == line, error
    assert error.rule and error.fix


def define_all(source):
    """The names that a module with this source has."""
    module = {"__name__": "defined", "nv": nv, "X": X}
    filename = f"<test module {hash(source)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), module)
    return module


def test_kernels_that_are_launched_by_somebody():
    def make(x, value):
        @nv.kernel(grid=1, block=32)
        def fill():
            x[nv.thread_id.x] = value

        return fill

    @nv.jit
    def one_of_two(x, *, first):
        @nv.kernel(grid=1, block=32)
        def ones():
            x[nv.thread_id.x] = 1.0

        @nv.kernel(grid=1, block=32)
        def twos():
            x[nv.thread_id.x] = 2.0

        for launch in [ones if first else twos, make(x, 3.0), functools.partial(make(x, 4.0))]:
            launch()

    x = np.zeros(32, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one_of_two(x, first=True, target="sim")
    assert (x == 4.0).all()


def test_a_call_that_launches_nothing_warns():
    @nv.jit
    def function(x):
        @nv.kernel(grid=1, block=32)
        def kernel():
            x[0] = 1.0

        if x.shape[0] > 64:
            kernel()

    with pytest.warns(nv.AdvisoryWarning, match="`function` makes `kernel` and launches nothing"):
        function(np.zeros(32, np.float32), target="sim")


def test_nothing_to_do_is_no_error():
    @nv.jit
    def function(x, y):
        @nv.kernel(grid=nv.cdiv(x.shape[0], 32), block=32)
        def ones():
            x[nv.thread_id.x] = 1.0

        @nv.kernel(grid=(1, 1), block=32)
        def twos():
            y[nv.thread_id.x] = 2.0

        ones()
        twos()

    y = np.zeros(32, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(np.zeros(0, np.float32), y, target="sim")
        function(np.zeros((0, 4), np.float32), y, target="sim")
    assert (y == 2.0).all()
    assert list(function.compile(np.zeros(0, np.float32), y).kernels) == ["twos::twos"]


def test_an_empty_product():
    def empty(m, n, k):
        return nv.matmul(np.zeros((m, k), np.float16), np.zeros((k, n), np.float16))

    assert empty(0, 64, 64).shape == (0, 64) and empty(64, 0, 64).shape == (64, 0)
    result = empty(64, 128, 0)
    assert result.shape == (64, 128) and not result.any()


def test_functions_that_are_alike_in_two_files():
    source = "def f(x):\n    y = 1\n    if x > 0:\n        y = 2\n    return y[0]\n"
    for name in ("one", "two"):
        module = define_all(f"# {name}\n{source}")
        kernel = module["f"]

        def body(x, kernel=kernel):
            nv.kernel(grid=1, block=32)(lambda: kernel(x[0]))()

        with pytest.raises(nv.TraceError) as caught:
            nv.jit(body).trace(nv.ShapeDtype((4,), nv.i32))
        assert caught.value.where.file == kernel.__code__.co_filename
