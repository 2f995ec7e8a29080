"""What is tuned for: names of arguments, layouts, classes of shapes."""

import nvdsl as nv
from nvdsl.call.jit import Jit
from nvdsl.tune import problem as problems
from nvdsl.tune.names import fingerprint


def described(function, *args, **kwargs):
    jit = nv.jit(function)
    call = Jit.describe(jit, args, kwargs)
    return problems.of_call(call, call.parameters(jit._signature))


def array(*shape, strides=None, dtype=nv.f16):
    return nv.ShapeDtype(shape, dtype, strides)


def test_arguments_by_name():
    def function(a, b, n, *rest, mode, act=None):
        pass

    problem = described(function, array(4, 8), array(8, 4), 3, array(2), array(3), mode="fast", act=nv.f32)
    assert list(problem.arrays) == ["a", "b", "rest", "rest1"] or list(problem.arrays) == ["a", "b", "rest0", "rest1"]
    assert problem.constants == {"mode": "fast", "act": nv.f32}
    assert problem.values == {"n": 3}
    assert problem.arguments["a"].shape == (4, 8)


def test_layouts():
    specs = described(
        lambda a, b, c: None, array(4, 8), array(4, 8, strides=(1, 4)), array(4, 8, strides=(16, 1))
    ).arrays  # fmt: skip
    assert [problems.layout(s) for s in specs.values()] == ["row", "column", "strided"]


def test_extents_of_one_class_have_size_and_divisibility_in_common():
    classes = {n: problems.extent_class(n) for n in (4096, 5120, 4095, 4097, 6144, 16, 17, 100)}
    assert classes == {4096: "4096/256", 5120: "4096/256", 4095: "4096/1", 4097: "4096/1", 6144: "8192/256",
                       16: "16", 17: "16/1", 100: "128/4"}  # fmt: skip


def test_questions_tell_calls_apart():
    def function(a, *, act=None):
        pass

    def ask(*args, classify=None, **kwargs):
        return problems.question(described(function, *args, **kwargs), "k", classify)

    base = ask(array(4096, 64))
    assert ask(array(5120, 64)) == base
    assert ask(array(4096, 64), classify=lambda a: len(a.shape))["shapes"] == 2
    others = [ask(array(2048, 64)), ask(array(4096, 64, dtype=nv.bf16)), ask(array(4096, 64, strides=(1, 4096))),
              ask(array(4096, 64), act="relu"), ask(array(4096, 64), act=fingerprint)]  # fmt: skip
    assert base not in others
    assert "0x" not in str(others)  # no addresses


def helper():
    return 1


LIMIT = 3


def test_fingerprints_follow_helpers_globals_and_closures(monkeypatch):
    def make(n):
        def kernel():
            def inner():
                return helper() + LIMIT + n

            return inner()

        return kernel

    before = fingerprint(make(1))
    assert fingerprint(make(1)) == before
    assert fingerprint(make(2)) != before
    monkeypatch.setitem(globals(), "LIMIT", 4)
    assert fingerprint(make(1)) != before
    monkeypatch.undo()

    def other():
        return 2

    monkeypatch.setitem(globals(), "helper", other)
    assert fingerprint(make(1)) != before
