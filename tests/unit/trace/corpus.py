"""Ordinary Python functions of two ints: what they do must not change when they are converted."""

import contextlib
import dataclasses
import functools
import itertools
import math
from collections import namedtuple

from tests.unit.trace.tracing import define

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
