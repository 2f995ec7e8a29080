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
