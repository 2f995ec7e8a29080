"""On plain Python values a converted function does what the original does."""

import functools
import inspect
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvdsl.trace.rewrite import convert
from tests.unit.trace.corpus import CORPUS
from tests.unit.trace.tracing import define

INTS = st.integers(-20, 20)


def outcome(function, *arguments):
    """What a call gives, an exception included. Local classes and functions compare by name."""
    try:
        return "returned", function(*arguments)
    except Exception as error:
        return "raised", type(error), str(error)


@pytest.mark.parametrize("function", CORPUS, ids=lambda f: f.__name__)
@given(a=INTS, b=INTS)
def test_same_as_python(function, a, b):
    assert outcome(convert(function), a, b) == outcome(function, a, b)


def test_conversion_is_not_the_identity():
    """Or the corpus would compare functions with themselves."""
    assert all(convert(function).__code__ is not function.__code__ for function in CORPUS)


def test_signature_and_names_stay():
    def original(a, b: int = 3, /, c=4, *rest, d: "str" = "x", **others) -> float:
        """Doc."""
        if a:
            return d
        return rest

    original.mark = 5
    converted = convert(original)
    assert inspect.signature(converted) == inspect.signature(original)
    assert converted.__doc__ == "Doc." and converted.mark == 5
    for name in ("__name__", "__qualname__", "__module__", "__annotations__", "__defaults__", "__kwdefaults__"):
        assert getattr(converted, name) == getattr(original, name)
    assert converted(1) == "x" and converted(0, 1, 2, 3, 4) == (3, 4)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
def test_type_parameters():
    generic = define("def f[T](x: T) -> T:\n    def g[U](y: U):\n        return T if x else y\n    return g\n")
    converted = convert(generic)
    assert converted(1)(2) is generic.__type_params__[0] and converted(0)(2) == 2
    assert converted.__type_params__ == generic.__type_params__
    assert converted.__annotations__ == generic.__annotations__


def test_a_default_is_evaluated_once():
    evaluated = []

    def original(a, items=evaluated.append(1)):  # noqa: B008
        return 1 if a else items

    assert convert(original)(0) is None
    assert evaluated == [1]


def test_cells_are_shared():
    count = 0

    def original():
        nonlocal count
        if count >= 0:
            count += late
        return count

    converted = convert(original)
    late = 5
    assert (converted(), original(), count) == (5, 10, 10)


def test_recursion_uses_the_closure():
    def factorial(n):
        return n * factorial(n - 1) if n > 1 else 1

    assert convert(factorial)(5) == 120


def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


def test_recursion_uses_the_module(monkeypatch):
    converted = convert(fibonacci)
    assert converted(7) == 13 and converted.__name__ == converted.__code__.co_name == "fibonacci"
    monkeypatch.setitem(globals(), "fibonacci", lambda n: 100)
    assert converted(7) == 200


def test_converted_once_for_each_code():
    def make(x):
        def inner():
            return x if x else None

        return inner

    first, second = convert(make(1)), convert(make(2))
    assert first.__code__ is second.__code__
    assert (first(), second()) == (1, 2)
    assert convert(first) is first


def test_qualified_names_of_nested_functions():
    def outer():
        def inner():
            pass

        return inner

    assert convert(outer)().__qualname__ == outer().__qualname__


class Meter:
    def __init__(self, n):
        self.__n = n

    def double(self):
        return Meter(2 * self.__n if self.__n else 1)

    def reader(self):
        def inner():
            return self.__n if self.__n else None

        return inner, lambda: self.__n or None

    def read(self):
        if self.__n > 0:
            __local = self.__n
            return __local
        return super().__repr__()


def test_a_method_that_names_its_class():
    assert convert(Meter.read)(convert(Meter.double)(Meter(3))) == 6


def test_functions_inside_of_a_method():
    for function in Meter(3).reader():
        assert convert(function)() == 3


def test_a_method_alone():
    read = convert(Meter.read)
    assert read(Meter(3)) == 3
    assert read(Meter(0)).startswith("<")


def test_decorators_are_not_applied_again():
    applied = []

    def mark(function):
        applied.append(function.__name__)
        return function

    @mark
    @functools.partial(lambda g, **k: g, key=[
        1,
    ])  # fmt: skip
    def target(x):
        text = """
not the end of the function
"""
        # nor this
        return text if x else None

    assert convert(target)(1) == target(1)
    assert applied == ["target"]


def test_generators_and_coroutines_stay():
    async def coroutine():
        return 1 if coroutine else 2

    def generator():
        yield 1 if generator else 2

    for function in (coroutine, generator):
        assert convert(function) is function


PAIR = (lambda x, y=2: x if x > y else y), (lambda x: x and not x)
NESTED = lambda x: lambda y: x if y else (lambda: y and x)()  # noqa: E731


def test_lambdas():
    # fmt: off
    first, second, third = (lambda x: x or 1), (lambda x: x or 2), (lambda x: (x
        if x else
        3))
    # fmt: on
    for function in (*PAIR, first, second, third):
        converted = convert(function)
        assert converted.__code__ is not function.__code__
        for x in (0, 1, 5):
            assert converted(x) == function(x)
    inner = NESTED(4)
    for y in (0, 3):
        assert convert(inner)(y) == convert(NESTED)(4)(y) == inner(y)
    assert convert(lambda a: a if a else PAIR)(0) is PAIR


def test_a_lambda_without_source():
    module = {}
    exec("f = lambda x: x if x else 1", module)
    assert convert(module["f"]) is module["f"]


def test_only_functions():
    with pytest.raises(TypeError, match="takes a Python function"):
        convert(len)


def test_the_traceback_names_the_line():
    def fails(x):
        if x:
            for i in range(3):
                raise KeyError(i)

    with pytest.raises(KeyError) as caught:
        convert(fails)(1)
    entry = caught.traceback[-1]
    assert str(entry.path) == __file__
    assert entry.lineno + 1 == fails.__code__.co_firstlineno + 3
