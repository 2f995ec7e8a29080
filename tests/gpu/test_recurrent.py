"""nv.lstm, nv.gru, nv.rnn, their gradients and cells on the device, against f64 and beside torch."""

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.testing import in_child
from tests.sim.recurrent import Problem, check


def _of_each(give):
    """The same of each array of lists and tuples, and None of None."""

    def all_given(x):
        if isinstance(x, list | tuple):
            return type(x)(all_given(each) for each in x)
        return None if x is None else give(x)

    return all_given


def _torch():
    torch = pytest.importorskip("torch")

    def give(x):
        """A NumPy array as a torch tensor on the device."""
        if x.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(x.astype(np.float32)).cuda().to(torch.bfloat16)
        return torch.from_numpy(np.ascontiguousarray(x)).cuda()

    return _of_each(give), lambda x: x.float().cpu().numpy()


@in_child(timeout=100)
def test_lstm_of_some_sizes():
    for sizes in ((2, 3, 16, 24), (5, 70, 48, 96), (3, 300, 64, 520), (4, 130, 100, 301), (1, 1, 3, 5)):
        check(Problem("lstm", *sizes), *_torch())


@in_child(timeout=100)
def test_gru_and_simple_cells():
    check(Problem("gru", 5, 70, 48, 136), *_torch())
    check(Problem("gru", 3, 5, 33, 77, dtype=ml_dtypes.bfloat16), *_torch())
    check(Problem("rnn", 6, 40, 16, 264, biased=False), *_torch())
    check(Problem("relu", 3, 2, 8, 33, stated=False), *_torch())


@in_child(timeout=100)
def test_layers_and_directions():
    check(Problem("lstm", 4, 9, 20, 72, layers=3, bidirectional=True), *_torch())
    check(Problem("gru", 5, 3, 7, 40, layers=2, bidirectional=True, batch_first=True, stated=False), *_torch())
    check(Problem("lstm", 7, 1, 16, 64, layers=2, batch_first=True), *_torch())
    check(Problem("rnn", 7, 1, 16, 64, alone=True), *_torch())


@in_child(timeout=100)
def test_many_rows_and_large_weights():
    check(Problem("lstm", 3, 700, 64, 1024, dtype=ml_dtypes.bfloat16), *_torch())
    check(Problem("lstm", 2, 20, 64, 2064), *_torch())
    check(Problem("gru", 2, 65, 64, 1400), *_torch())


@in_child(timeout=100)
def test_arrays_of_any_strides():
    give, take = _torch()

    def turned(x):
        """Matrices by columns, other elements two apart."""
        x = give(x)
        return x.mT.contiguous().mT if x.ndim == 2 else x.repeat_interleave(2, -1)[..., ::2]

    for sizes in ((2, 3, 16, 24), (3, 5, 9, 21), (2, 70, 40, 264)):
        check(Problem("lstm", *sizes), _of_each(turned), take)
        check(Problem("gru", *sizes, layers=2, bidirectional=True), _of_each(turned), take)


@in_child(timeout=100)
def test_arrays_that_begin_between_two_elements():
    give, take = _torch()

    def shifted(x):
        """An element behind where it would lie, rows two further apart."""
        x = give(x)
        memory = x.new_empty((*x.shape[:-1], x.shape[-1] + 2))
        return memory[..., 1:-1].copy_(x)

    for sizes in ((2, 3, 7, 8), (3, 5, 16, 64), (2, 70, 40, 264)):
        check(Problem("lstm", *sizes), _of_each(shifted), take)
        check(Problem("gru", *sizes, layers=2, bidirectional=True), _of_each(shifted), take)
    check(Problem("rnn", 7, 1, 16, 64, alone=True), _of_each(shifted), take)


@in_child(timeout=100)
def test_the_simulators_numpy_arrays():
    check(Problem("lstm", 3, 70, 16, 72))
    check(Problem("gru", 2, 5, 9, 21, batch_first=True))


@in_child(timeout=100)
def test_a_long_sequence_repeated():
    """All calls give the same: nothing depends on who comes first."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.LSTM(256, 1024).cuda().half()
    x = torch.randn(200, 256, 256, device="cuda", dtype=torch.float16)
    weights = [w.detach() for w in model._flat_weights]
    with torch.no_grad():
        expected, _ = model(x)
    first = nv.lstm(x, weights)[0]
    torch.testing.assert_close(first, expected, rtol=0, atol=8e-3)
    for _ in range(20):
        assert torch.equal(nv.lstm(x, weights)[0], first)


@in_child(timeout=100)
def test_cells_beside_torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    makers = {"lstm": torch.nn.LSTMCell, "gru": torch.nn.GRUCell, "rnn": torch.nn.RNNCell}
    for kind, maker in makers.items():
        for batch, inputs, hidden in ((1000, 512, 768), (33, 72, 48), (5, 7, 13), (1, 64, 64)):
            cell = maker(inputs, hidden).cuda().half()
            x, *state = (torch.randn(batch, n, device="cuda", dtype=torch.half) for n in (inputs, hidden, hidden))
            given = tuple(state) if kind == "lstm" else state[0]
            found = getattr(nv, f"{kind}_cell")(x, given, *[w.detach() for w in cell.parameters()])
            with torch.no_grad():
                wide = tuple(s.double() for s in state) if kind == "lstm" else given.double()
                expected = cell.double()(x.double(), wide)
            for a, b in zip(*((r if kind == "lstm" else (r,)) for r in (found, expected)), strict=True):
                torch.testing.assert_close(a.double(), b, rtol=2e-3, atol=2e-3)
