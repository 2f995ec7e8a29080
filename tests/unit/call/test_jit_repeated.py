"""Repeated calls of a jit function on the GPU's road, with a driver that records: each is what a first one would be."""

from __future__ import annotations

import pytest

import nvdsl as nv
from nvdsl.call import collect
from nvdsl.call import signature as signatures
from nvdsl.call.specialize import describe_argument
from nvdsl.driver import executable as executables
from nvdsl.driver.device import Devices
from nvdsl.errors import ArgumentError
from tests.unit.driver import libraries
from tests.unit.driver.fake_cuda import FakeCuda, Kernel, pointer
from tests.unit.passed_rooms import rooms, way


class Recorder(FakeCuda):
    """Two devices. ``loaded``: the cubin that was launched last. ``parameters``: how many each kernel has."""

    parameters = 3

    def function(self, module, name):
        self.kernels[module, name] = Kernel(name, (8,) * self.parameters)
        return module, name

    def launch(self, config, function, parameters):
        self.loaded = function[0]
        super().launch(config, function, parameters)


@pytest.fixture
def cuda(monkeypatch):
    """The driver, one that records."""
    cuda = Recorder(count=2)
    devices = Devices(cuda)
    monkeypatch.setitem(executables.build.__kwdefaults__, "devices", devices)
    monkeypatch.setattr(signatures, "_looks", {})
    return cuda


@pytest.fixture
def tensor(monkeypatch):
    torch = libraries.install_torch(monkeypatch)

    def make(address, shape=(256,), strides=(1,), **options):
        return torch.Tensor(options.pop("dtype", "float32"), shape, strides, address=address, **options)

    return make


def made():
    """y[-1 - i] = (x[i] + add) * scale; a new function each time."""

    @nv.jit
    def shifted(x, y, add, *, scale=1):
        n = x.shape[0]

        @nv.kernel(grid=1, block=32)
        def kernel():
            y[n - 1 - nv.thread_id.x] = (x[nv.thread_id.x] + add) * scale

        kernel()

    return shifted


def kept(function):
    return len(function._launches)


def last(cuda):
    return {pointer(p) for p in cuda.launches[-1].parameters}


def test_what_a_call_launches_is_kept(cuda, tensor):
    function = made()
    for i in range(5):
        x, y = tensor(0x1000 + 64 * i), tensor(0x9000 + 64 * i)
        function(x, y, 2.0, target="gpu")
        assert {0x1000 + 64 * i, 0x9000 + 64 * i} <= last(cuda)
    assert kept(function) == 1 and len(function._compiled) == 1 and len(cuda.launches) == 5


def test_memory_that_comes_again_as_another_array_is_another_call(cuda, tensor):
    function = made()
    kinds = [{}, {"shape": (128,)}, {"strides": (2,)}, {"dtype": "float16"}]
    kernels = []
    for _ in range(4):
        for kind in kinds:
            function(tensor(0x1000, **kind), tensor(0x9000, **kind), 1.0, target="gpu")
            kernels.append(cuda.loaded)
    assert kept(function) == len(function._compiled) == len(set(kernels)) == 4
    assert kernels == kernels[:4] * 4
    with pytest.raises(nv.errors.NvdslError):  # two axes, one index
        function(*(tensor(at, (16, 16), (16, 1)) for at in (0x1000, 0x9000)), 1.0, target="gpu")


def test_a_misaligned_array_is_refused_each_time(cuda, tensor):
    function = made()
    for _ in range(4):
        function(tensor(0x1000), tensor(0x9000), 1.0, target="gpu")
        with pytest.raises(ArgumentError, match="y starts at address 0x9002") as caught:
            function(tensor(0x1000), tensor(0x9002), 1.0, target="gpu")
        assert caught.value.where is not None and caught.value.where.file == __file__
    assert len(cuda.launches) == 4


def test_another_device_is_another_call(cuda, tensor):
    function = made()
    for _ in range(4):
        for device in range(2):
            cuda.calls.clear()
            function(tensor(0x1000, device=device), tensor(0x9000, device=device), 1.0, target="gpu")
            assert ("push", 0x100 + device) in cuda.calls
            assert cuda.launches[-1].config.stream == (0x51, 0x52)[device]
        with pytest.raises(ArgumentError, match="y is on device 1, an array before it on device 0"):
            function(tensor(0x1000, device=0), tensor(0x9000, device=1), 1.0, target="gpu")
    assert kept(function) == 2


def test_constants_and_types_of_numbers_are_part_of_a_call(cuda, tensor):
    function = made()
    for _ in range(4):
        for options in ({}, {"scale": 1}, {"scale": 1.0}, {"scale": 2}):
            for number in (1.0, 1):
                function(tensor(0x1000), tensor(0x9000), number, target="gpu", **options)
    assert kept(function) == len(function._compiled) == 8
    with pytest.raises(ArgumentError, match="can't be hashed"):
        function(tensor(0x1000), tensor(0x9000), 1.0, scale=[1], target="gpu")


FACTOR = 1.0


class Options:
    def __init__(self, factor):
        self.factor = factor


def test_what_the_trace_read_is_looked_at_each_time(cuda, tensor, monkeypatch):
    @nv.jit
    def scaled(x, y, *, options):
        @nv.kernel(grid=1, block=32)
        def kernel():
            y[nv.thread_id.x] = x[nv.thread_id.x] * (FACTOR * options.factor)

        kernel()

    options, kernels = Options(1.0), []
    cuda.parameters = 2

    def call():
        scaled(tensor(0x1000), tensor(0x9000), options=options, target="gpu")
        kernels.append(cuda.loaded)

    for factor in (1.0, 2.0, 1.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for _ in range(3):
            call()
    options.factor = 3.0
    for _ in range(3):
        call()
    one, two, three = kernels[0], kernels[3], kernels[9]
    assert kernels == [one] * 3 + [two] * 3 + [one] * 3 + [three] * 3 and len({one, two, three}) == 3
    assert len(scaled._compiled) == 3 and kept(scaled) == 1


def test_a_constant_without_a_name_is_no_value(cuda, tensor):
    @nv.jit
    def filled(nothing, y, add):
        @nv.kernel(grid=1, block=32)
        def kernel():
            y[nv.thread_id.x] = add

        assert nothing is None
        kernel()

    cuda.parameters = 2
    for i in range(5):
        filled(None, tensor(0x1000 + 64 * i), 3.0, target="gpu")
        assert 0x1000 + 64 * i in last(cuda)


def test_debug_mode_is_another_call(cuda, tensor):
    function = made()
    for _ in range(4):
        function(tensor(0x1000), tensor(0x9000), 1.0, target="gpu")
        function(tensor(0x1000), tensor(0x9000), 1.0, target="gpu", debug=False)
    assert kept(function) == len(function._compiled) == 2


def test_a_call_that_shall_only_compile_runs_nothing(cuda, tensor):
    function = made()
    for _ in range(3):
        function(tensor(0x1000), tensor(0x9000), 1.0, target="gpu")
    with collect.compiled():
        function(tensor(0x1000), tensor(0x9000), 1.0, target="gpu")
    assert len(cuda.launches) == 3


def test_a_choice_that_was_tuned_is_taken_by_the_next_call(cuda, tensor):
    chosen = [{"scale": 1}]
    function = nv.autotune(nv.Space(scale=[1, 2]), heuristic=lambda: chosen[0])(made())
    for _ in range(3):
        function(tensor(0x1000), tensor(0x9000), 1.0, target="gpu")
    chosen[0] = {"scale": 2}
    function._remember(None)
    function(tensor(0x1000), tensor(0x9000), 1.0, target="gpu")
    assert [key[0][-2].value for key in function._compiled] == [1, 2]


def test_a_launch_that_somebody_else_keeps_says_that_it_no_longer_holds(cuda, tensor, monkeypatch):
    """As `nv.matmul` keeps its kernels' launches."""
    chosen = [{"scale": 1}]
    function = nv.autotune(nv.Space(scale=[1, 2]), heuristic=lambda: chosen[0])(made())
    described = [describe_argument(x) for x in (tensor(0x1000), tensor(0x9000), 1.0)]

    def kept_launch():
        call = function.call(described, ())
        return call, function.repeatable(call, function.run(call, call.values, target="gpu"))

    _, one = kept_launch()
    assert one.holds()
    call, two = kept_launch()
    function._remember(None)
    assert not one.holds() and not two.holds()
    assert function.repeatable(call, function.run(call, call.values, target="gpu")) is None  # chosen before the tuning
    assert kept_launch()[1].holds()


@pytest.mark.parametrize("constants", [{}, {"scale": 2}], ids=["plain", "constants"])
def test_a_repeated_call_passes_two_rooms_and_never_goes_back(cuda, tensor, constants):
    function, arguments = made(), (tensor(0x1000), tensor(0x9000), 1.0)
    for _ in range(3):
        function(*arguments, target="gpu", **constants)
    passed = way(lambda: function(*arguments, target="gpu", **constants))
    own = [one for one in passed if one != "trace/tokens:token"]
    assert rooms(own) == ["call", "driver"]
    assert len(own) == len(set(own)) and len(passed) <= (3 if not constants else 6), passed
    assert len(cuda.launches) == 4
