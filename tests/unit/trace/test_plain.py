"""On plain Python values a converted function does what the original does: a corpus of ordinary Python."""

import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvdsl.trace.rewrite import convert
from tests.unit.trace.tracing import define

INTS = st.integers(-20, 20)
counter = 0
Point = namedtuple("Point", "x y")


def ifs(a, b):
    if a > b:
        x = 1
    elif a == b:
        x = 2
    else:
        x = 3
        if a < -5:
            y = x
            del y
    return x


def early_returns(a, b):
    if a > 10:
        return "big"
    if a > 5:
        if b > 0:
            return "middle", b
        a = b
    elif b == 3:
        return None
    for i in range(a):
        if i == b:
            return i
    return a, b


def returns_nothing(a, b):
    if a > b:
        return
    a += 1


def loops(a, b):
    total = 0
    for i in range(abs(a)):
        if i % 3 == 0:
            continue
        if i > abs(b):
            break
        total += i
    else:
        total = -total
    while total > 3:
        total -= 2
        if total == b:
            break
        if total % 2:
            continue
        total -= 1
    else:
        total += 100
    return total, i if a else None


def nested_loops(a, b):
    found = []
    for i in range(a % 7):
        for j in range(b % 5):
            if i == j:
                continue
            if i + j > 6:
                break
            found.append((i, j))
        else:
            found.append("else")
            continue
        found.append("broken")
    return found


def while_true(a, b):
    steps = 0
    while True:
        steps += 1
        a += 1
        if a > b:
            break
    return steps


def boolean(a, b):
    return (a and b, a or b, not a, a and b or 5, [] or {} or a, a > 3 and b > 3, 0 < a < b, 0 < a <= b < 9 != a)


def short_circuit(a, b):
    trace = []

    def note(x):
        trace.append(x)
        return x

    note(a) and note(b) and note(a + b)
    note(a) or note(b) or note(a + b)
    _ = note(a) < note(b) < note(a + b)
    note(1 if note(a) else 2)
    assert note(True), note("never")
    return trace


def targets(a, b):
    (x, y), *rest = (a, b), 1, 2, 3
    first, *middle, last = range(5)
    for i, (j, k) in enumerate([(a, 1), (b, 2)]):
        x += i + j + k
    for rest[0] in range(3):
        y += rest[0]
    point = Point(a, b)
    box = {"p": [point]}
    for box["q"], *box["r"] in [(1, 2, 3), (4,)]:
        pass
    return x, y, rest, first, middle, last, i, j, k, box


def comprehensions(a, b):
    i = "kept"
    squares = [i * i for i in range(abs(a)) if i % 2 or i > b]
    table = {k: (v if v > 2 else None) for k, v in zip("abc", range(3), strict=True) if not k == "b"}
    lazy = sum(max(x, y) for x in range(3) for y in range(x) if x and y)
    names = {(i, j) for i in range(2) for j in range(i)}
    return squares, table, lazy, names, i


def walrus(a, b):
    seen = []
    while (n := a - b) > 0 and len(seen) < 5:
        seen.append(n)
        b += 2
    if (m := a) and (k := b):
        seen += [m, k]
    if any((hit := x) > 3 for x in range(a % 9)):
        seen.append(hit)
    return seen, n


def closures(a, b):
    count = 0
    made = []

    def bump(by=a):
        nonlocal count
        if by > 0:
            count += by
        else:
            count -= 1
        return count

    for i in range(3):
        made.append(lambda x, i=i: x + i if x > 0 else count)
        bump()
    late = "unset"

    def reads_late():
        return late

    late = b
    return count, [f(b) for f in made], reads_late(), bump(b)


def decorated(a, b):
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs), function(*args, **kwargs)

        return wrapper

    @twice
    def inner(x, *, y=2):
        if x > y:
            return x
        return -x

    return inner(a), inner(b, y=a), inner.__name__


def uses_global(a, b):
    global counter
    counter = 0
    for _ in range(3):
        counter += a
        if counter > b:
            counter = -counter
    return counter


def exceptions(a, b):
    log = []
    try:
        if b == 0:
            raise ValueError("zero")
        x = a / (b - 1)
    except ZeroDivisionError as error:
        log.append(type(error).__name__)
        x = 0
    except ValueError:
        log.append("value")
        return log
    else:
        log.append("else")
    finally:
        log.append("finally")
    with contextlib.suppress(KeyError):
        log.append({}[a])
    for i in range(3):
        try:
            if i == a:
                break
            if i == b:
                continue
            log.append(i)
        finally:
            log.append("f")
    return log, x


def matches(a, b):
    out = []
    for thing in (a, (a, b), {"k": a, "z": 1}, [1, 2, 3], Point(a, b), "text", None):
        match thing:
            case 0:
                out.append("zero")
            case int(n) if n > 5:
                out.append(n)
            case (x, y) if x > y:
                out.append((x, y))
            case {"k": v, **rest}:
                out.append((v, rest))
            case [first, *others]:
                out.append((first, others))
            case str() | None:
                out.append("other")
            case _:
                out.append("default")
    return out


def generators(a, b):
    def numbers(n):
        for i in range(n):
            if i % 2:
                continue
            received = yield i
            if received:
                yield received

    events = []

    def managed():
        try:
            yield 1
            yield 2
        finally:
            events.append("closed")

    for x in managed():
        if x == 1:
            break
    events.append("after")  # a generator is closed as soon as its loop is left
    return list(numbers(abs(a))), events


class Base:
    def __init__(self, x):
        self.x = x
        self.__private = x + 1

    def value(self):
        if self.x > 0:
            return self.x + self.__private
        return 0

    @classmethod
    def make(cls, x):
        return cls(x) if x else cls(1)

    @staticmethod
    def double(x):
        return 2 * x if x > 0 else x

    @property
    def sign(self):
        return 1 if self.x > 0 else -1


class Derived(Base):
    def __init__(self, x):
        super().__init__(x)
        if x > 3:
            self.x = -x

    def value(self):
        total = 0
        for _ in range(2):
            total += super().value()
        return total

    def __call__(self, y):
        return self.x if self.x > y else y

    def __bool__(self):
        return self.x > 0


def classes(a, b):
    d = Derived(a)
    e = Derived.make(b)

    class Local(Derived):
        limit = 3 if a > 2 else 4

        def value(self):
            if self.x > self.limit:
                return super().value()
            return self.limit

    return d.value(), e.value(), d(b), Base.double(b), e.sign, bool(d) and bool(e), Local(a).value()


def attributes(a, b):
    base = Base(a)
    if a > b:
        base.x = b
        base.new = 1
    for _ in range(3):
        base.x += 1
    items = [1, 2, 3]
    alias = items
    for i in range(2):
        items[i] += a
        if items[i] > b:
            alias[i] = b
    return base.x, hasattr(base, "new"), items, alias is items


def builtins_used(a, b):
    values = [a, b, 3]
    return (
        min(values), max(a, b), min(values, key=abs), max([], default=a), sum(values), sum([[a], [b]], []),
        any(values), all(values), any([]), all([]), any(x > 5 for x in values), all(x for x in values),
        round(a / 3), round(a / 3, 1), abs(a), pow(a, 2), divmod(a, 3), sorted(values, key=lambda x: -x),
        isinstance(a, int), len(values), list(map(str, filter(None, values))), f"{a}", f"{a!r:>5} {b:d}",
    )  # fmt: skip


def calls(a, b):
    def spread(*args, key=None, **kwargs):
        return args, key, kwargs

    partial = functools.partial(spread, a, key=b)
    return (
        spread(*[a, b], key=1, z=2), partial(3), math.floor(a / 2), list(itertools.chain([a], [b])),
        (lambda x, y=b: x if x > y else y)(a), dataclasses.make_dataclass("D", ["x"])(a).x, str.upper("x"),
    )  # fmt: skip


def sees_its_names(a, b):
    c = a + b
    if c > 0:
        d = 1
    names = sorted(name for name in locals() if not name.startswith("__nv"))
    return names, "ifs" in globals(), eval("a + b"), sorted(vars(Point(1, 2))._fields if False else ["x"])


def unbound(a, b):
    if a > 0:
        x = 1
    try:
        return x
    except UnboundLocalError:
        return "unbound"


arms = "".join(f"    elif a == {i}:\n        r = {i}\n" for i in range(1, 30))
many_arms = define(f"""
def many_arms(a, b):
    if a == 0:
        r = 0
{arms}    else:
        for i in range(3):
            while i < b:
                i += 3
        r = i
    return r
""")

returns = "".join(f"    if a == {i}:\n        return {i}, b\n" for i in range(30))
many_returns = define(f"""
def many_returns(a, b):
{returns}    for i in range(20):
        if i == a:
            return i
        if i == b:
            return "i", i
    return "end"
""")

deep = "".join(f"{' ' * (4 + i)}if a > {i}:\n{' ' * (5 + i)}x = {i}\n" for i in range(17))
many_levels = define(f"""
def many_levels(a, b):
    x = -1
{deep}    return x
""")


CORPUS = [
    ifs, early_returns, returns_nothing, loops, nested_loops, boolean, short_circuit, targets, comprehensions,
    walrus, closures, decorated, uses_global, exceptions, matches, generators, classes, attributes, builtins_used,
    calls, unbound, many_arms, many_returns, many_levels, while_true, sees_its_names,
]  # fmt: skip


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

    def read(self):
        if self.__n > 0:
            __local = self.__n
            return __local
        return super().__repr__()


def test_a_method_that_names_its_class():
    assert convert(Meter.read)(convert(Meter.double)(Meter(3))) == 6


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


def test_lambdas_generators_and_coroutines_stay():
    async def coroutine():
        return 1 if coroutine else 2

    def generator():
        yield 1 if generator else 2

    for function in (coroutine, generator, lambda x: x if x else 1):
        assert convert(function) is function


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
