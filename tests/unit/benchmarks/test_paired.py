"""What is timed is the GPU, on a slow host, too."""

import sys
import types

from benchmarks import paired


class Gpu:
    """Stands for torch, with a host that takes ``host`` clocks for each call."""

    def __init__(self, host):
        self.host, self.now, self.done, self.waits = host, 0, 0, []
        gpu = self

        class Event:
            def __init__(self, enable_timing):
                self.at = 0

            def record(self):
                self.at = max(gpu.now, gpu.done)

            def query(self):
                return gpu.now >= self.at

            def synchronize(self):
                gpu.now = max(gpu.now, self.at)

            def elapsed_time(self, end):
                return end.at - self.at

        cuda = types.SimpleNamespace(_sleep=self.sleep, Event=Event)
        flush = types.SimpleNamespace(zero_=lambda: None)
        self.torch = types.SimpleNamespace(cuda=cuda, empty=lambda *a, **k: flush, uint8=None)

    def sleep(self, clocks):
        self.waits.append(clocks)
        self.done = max(self.now, self.done) + clocks

    def call(self):
        self.now += self.host
        self.done = max(self.now, self.done) + 1000


def timer(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", gpu.torch)
    paired._flush_memory.cache_clear()
    monkeypatch.setattr(paired, "_flush_memory", lambda: types.SimpleNamespace(zero_=lambda: None))
    return paired.Timer()


def test_a_slow_host_is_not_timed(monkeypatch):
    gpu = Gpu(5 * paired.WAIT_CLOCKS)
    clock = timer(gpu, monkeypatch)
    assert [clock.once(gpu.call) for _ in range(3)] == [1000] * 3
    assert gpu.waits == [paired.WAIT_CLOCKS * n for n in (1, 2, 4, 8, 8, 8)]


def test_the_wait_ends(monkeypatch):
    gpu = Gpu(100 * paired.WAIT_CLOCKS)
    assert timer(gpu, monkeypatch).once(gpu.call) > 1000
    assert max(gpu.waits) == paired.MOST_CLOCKS


def test_calls_in_a_row_wait_equally_long(monkeypatch):
    """In each turn all of them, in another order; behind what the slowest host needs."""
    gpu, order = Gpu(0), []
    timer(gpu, monkeypatch)
    monkeypatch.setattr(paired.time, "perf_counter", lambda: gpu.now / 2e9)

    def call(name, host, work):
        def one():
            order.append(name)
            gpu.now += host
            gpu.done = max(gpu.now, gpu.done) + work

        return one

    calls = {"a": call("a", 10, 500), "b": call("b", 4000, 700), "c": call("c", 100, 600)}
    found = paired.in_turn(calls, dict.fromkeys(calls, 3), True, 6)
    assert found == {"a": [500] * 6, "b": [700] * 6, "c": [600] * 6}
    assert len(set(gpu.waits[-18:])) == 1
    turns = ["".join(order[i : i + 9 : 3]) for i in range(len(order) - 54, len(order), 9)]
    assert sorted(turns) == ["abc", "acb", "bac", "bca", "cab", "cba"]
