"""Repeated calls with torch tensors: memory that is used again, streams, graphs, threads."""

import threading

import pytest

import nvdsl as nv
from nvdsl.kernels import Config
from nvdsl.testing import in_child

pytest.importorskip("torch")


def made(*shape):
    import torch

    return torch.randn(*shape, device="cuda").half()


def check(got, expected):
    assert ((got.float() - expected).norm() / expected.norm()).item() < 3e-3


@nv.jit
def shift(x, y, add):
    @nv.kernel(grid=nv.cdiv(x.shape[0], 128), block=128)
    def kernel():
        i = nv.block_id.x * 128 + nv.thread_id.x
        if i < x.shape[0]:
            y[i] = x[i] + add

    kernel()


@in_child(timeout=120)
def test_the_same_memory_as_other_matrices():
    pool, far = made(1 << 22), 1 << 20
    for _ in range(4):
        for m, n, k in ((256, 256, 256), (128, 512, 256), (256, 256, 128)):
            a, b = pool[: m * k].view(m, k), pool[far : far + k * n].view(k, n)
            out = pool[2 * far : 2 * far + m * n].view(m, n)
            nv.matmul(a, b, out)
            check(out, a.float() @ b.float())
            turned = pool[: m * k].view(k, m).t()
            nv.matmul(turned, b, out)
            check(out, turned.float() @ b.float())
            misaligned = pool[1 : 1 + m * k].view(m, k)
            nv.matmul(misaligned, b, out)
            check(out, misaligned.float() @ b.float())
            with pytest.raises(nv.ArgumentError, match="out and a overlap"):
                nv.matmul(a, b, pool[8 : 8 + m * n].view(m, n))


@in_child(timeout=120)
def test_batches_of_several_launches_and_numbers_of_each_call():
    """The inner stacks lie apart, so that each is a launch of its own."""
    import torch

    pool, c = made(2, 4, 3, 128, 64), made(128, 128)
    b, out = made(2, 3, 64, 128), torch.empty(2, 3, 128, 128, device="cuda", dtype=torch.half)
    for turn in range(4):
        for part in range(4):
            a = pool[:, part]
            nv.matmul(a, b, out)
            check(out, a.float() @ b.float())
            alpha, beta = (0.5, 2.0) if turn % 2 else (-0.25, 0.5)
            nv.matmul(a, b, out, c=c, alpha=alpha, beta=beta)
            check(out, alpha * (a.float() @ b.float()) + beta * c.float())
            check(nv.matmul(a, b), a.float() @ b.float())


@in_child(timeout=120)
def test_an_activation_whose_variables_change():
    def activation_of(by):
        def activation(x):
            return x * by

        def change(new):
            nonlocal by
            by = new

        return activation, change

    (first, change), (second, _) = activation_of(2.0), activation_of(2.0)
    a, b = made(128, 64), made(64, 128)
    product = a.float() @ b.float()
    for by in (2.0, 3.0, 2.0, 0.5):
        change(by)
        for _ in range(3):
            check(nv.matmul(a, b, activation=first), by * product)
            check(nv.matmul(a, b, activation=second), 2.0 * product)


FACTOR = 1.0


@nv.jit
def scaled(x, y, *, options):
    @nv.kernel(grid=1, block=128)
    def kernel():
        i = nv.thread_id.x
        y[i] = x[i] * (FACTOR * options["by"][0])

    kernel()


class Options(dict):
    __hash__ = object.__hash__


@in_child(timeout=120)
def test_what_a_kernel_is_compiled_from_changes():
    import torch

    global FACTOR
    x, y, options = torch.ones(128, device="cuda"), torch.empty(128, device="cuda"), Options(by=[1.0])
    for factor in (1.0, 2.0, 1.0):
        FACTOR = factor
        for by in (1.0, 3.0):
            options["by"][0] = by
            for _ in range(4):
                scaled(x, y.zero_(), options=options)
                assert (y == factor * by).all()


@in_child(timeout=120)
def test_host_arrays_that_are_one_memory():
    import numpy as np

    @nv.jit
    def both(x, y):
        @nv.kernel(grid=1, block=1)
        def kernel():
            x[0] = x[0] + 1.0
            y[0] = y[0] + 10.0

        kernel()

    a = np.zeros(4, np.float32)
    both(a, a)
    both(a[1:3], a[2:])
    assert a.tolist() == [11, 1, 10, 0]
    with pytest.raises(nv.ArgumentError, match="share memory"):
        both(np.lib.stride_tricks.as_strided(a, (4,), (0,)), np.zeros(4, np.float32))


@in_child(timeout=120)
def test_the_current_stream_a_given_one_and_a_graph():
    import torch

    e, late, out = made(1024, 1024), torch.zeros(1024, 1024, device="cuda").half(), made(1024, 1024)
    expected, stream = e.float() @ e.float(), torch.cuda.Stream()
    for _ in range(4):
        for given in (False, True):
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)  # so that a launch on another stream would read zeros
                late.copy_(e)
                if not given:
                    nv.matmul(late, e, out)
            if given:
                nv.matmul(late, e, out, stream=stream)
            stream.synchronize()
            check(out, expected)
            late.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        nv.matmul(late, e, out)
    late.copy_(e)
    graph.replay()
    torch.cuda.synchronize()
    check(out, expected)


@in_child(timeout=120)
def test_threads_on_streams_of_their_own():
    import torch

    failed = []

    def work(number):
        try:
            n = 256 + 64 * (number % 3)
            with torch.cuda.stream(torch.cuda.Stream()):
                for i in range(100):
                    a, b, y = made(n, 256), made(256, n), torch.empty(n, device="cuda")
                    out = nv.matmul(a, b)
                    shift(y.zero_(), y, float(i))
                    torch.cuda.current_stream().synchronize()
                    check(out, a.float() @ b.float())
                    assert y[0].item() == y[-1].item() == i
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


CUT = [
    Config(128, 128, stages=4, schedule="streamk"),
    Config(64, 64, stages=8, schedule="splitk", split=8, parts=32, consumers=1, store_buffers=1),
]


@in_child(timeout=120)
def test_products_that_need_memory_of_their_own_on_streams_and_in_graphs():
    """Each stream's calls share memory, and a graph has its own: it runs beside all of them."""
    import torch

    a, b = made(640, 4096), made(4096, 384)
    for config in CUT:
        first = nv.matmul(a, b, config=config)
        check(first, a.float() @ b.float())
        outs = [torch.empty_like(first) for _ in range(4)]
        streams = [torch.cuda.Stream() for _ in range(3)]
        for stream, out in zip(streams, outs, strict=False):
            with torch.cuda.stream(stream):
                for _ in range(2):
                    nv.matmul(a, b, out, config=config)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=streams[0]):
            for _ in range(3):
                nv.matmul(a, b, outs[3], config=config)
        for _ in range(20):
            for out in outs:
                out.zero_()
            torch.cuda.synchronize()
            graph.replay()
            for _ in range(3):
                for stream, out in zip(streams, outs, strict=False):
                    with torch.cuda.stream(stream):
                        nv.matmul(a, b, out, config=config)
            torch.cuda.synchronize()
            assert all(torch.equal(out, first) for out in outs)


@in_child(timeout=120)
def test_each_product_waits_for_the_one_before():
    """Kernels begin beside the end of the one before them in the stream: a chain of products of all schedules, with
    other kernels between, gives the same bits as one that is waited for at each step."""
    import torch

    n = 512
    weights = [made(n, n) / n**0.5 for _ in range(3)]
    configs = [*CUT, Config(128, 64, stages=4), Config(64, 128, stages=4, schedule="pingpong"),
               Config(128, 128, stages=3, cluster_m=2)]  # fmt: skip

    def chain(wait):
        x, y = made(n, n).fill_(0.25), made(n, n)
        x += torch.arange(n, device="cuda").half() / n
        for i in range(60):
            nv.matmul(x, weights[i % 3], y, config=configs[i % 5])
            if i % 7 == 3:
                y.tanh_()
            if wait:
                torch.cuda.synchronize()
            x, y = y, x
        return x.clone()

    expected = chain(True)
    assert expected.isfinite().all() and expected.abs().sum() > 0
    for _ in range(20):
        assert torch.equal(chain(False), expected)
