"""Attention, products of groups, layers in one kernel and recurrent layers as ops of torch, in the simulator."""

import pytest

torch = pytest.importorskip("torch")

import nvdsl.torch as nt  # noqa: E402
from nvdsl.torch import attention_ops, mlp_ops, product_ops, recurrent_ops  # noqa: E402
from tests.exhaustive import sample  # noqa: E402

F = torch.nn.functional
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")
    torch.manual_seed(0)


def some(*shape, scale=1.0, dtype=torch.float16):
    return (scale * torch.randn(*shape)).to(dtype).requires_grad_()


def close(found, expected, loose=2e-2):
    expected = expected.float()
    near = loose * max(expected.abs().max().item(), 1e-3)
    torch.testing.assert_close(found.float(), expected, rtol=loose, atol=near)


def slopes(y, inputs):
    weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
    return torch.autograd.grad((y.float() * weights).sum(), inputs)


OPS = {
    "attention": lambda: (
        attention_ops.attention_heads,
        (some(1, 9, 2, 64), some(1, 13, 1, 64), some(1, 13, 1, 64), None, None, None, True, None, None, None, 0.0)),
    "masked attention": lambda: (
        attention_ops.attention_heads,
        (*(some(1, 9, 1, 64) for _ in range(3)), some(9, 9), None, None, False, None, None, None, 0.0)),
    "groups": lambda: (
        product_ops.grouped_product, (some(24, 64), some(3, 64, 32), torch.tensor([8, 8, 24], dtype=torch.int32))),
    "mlp": lambda: (
        mlp_ops.mlp_layers, (some(5, 64), [some(64, 64, scale=0.1) for _ in range(2)], [some(64)] * 2, "gelu", "")),
    "lstm": lambda: (
        recurrent_ops.lstm_layers,
        (some(3, 2, 16), _weights(16, 16, 4), some(1, 2, 16), some(1, 2, 16), False, False, True)),
    "gru": lambda: (
        recurrent_ops.gru_layers, (some(2, 3, 16), _weights(16, 16, 3), None, None, False, True, True)),
}  # fmt: skip


def _weights(inputs, hidden, gates, bias=True, layers=1):
    found = []
    for i in range(layers):
        found += [some(gates * hidden, n, scale=0.2) for n in (inputs if i == 0 else hidden, hidden)]
        found += [some(gates * hidden, scale=0.2) for _ in range(2 * bias)]
    return found


@pytest.mark.parametrize("name", sample(OPS, 2))
def test_torch_s_own_checks_of_an_op(name):
    op, arguments = OPS[name]()
    torch.library.opcheck(op.op, arguments, test_utils=CHECKS)


@pytest.mark.parametrize(("queries", "keys"), sample([(20, 20), (12, 20), (20, 12)], 1))
@pytest.mark.parametrize("causal", sample([True, False], 1))
def test_scaled_dot_product_attention_is_torch_s(queries, keys, causal):
    q, k, v = some(2, 4, queries, 64), some(2, 2, keys, 64), some(2, 2, keys, 64)
    found = nt.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    expected = F.scaled_dot_product_attention(*wide, is_causal=causal, enable_gqa=True)
    close(found, expected)
    for one, two in zip(slopes(found, (q, k, v)), slopes(expected, wide), strict=True):
        close(one, two)


def test_a_mask_of_attention():
    q, k, v = (some(3, 10, 64) for _ in range(3))
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    mask = torch.rand(10, 10) > 0.3
    for given in (mask, mask.float()):
        found, expected = nt.scaled_dot_product_attention(q, k, v, given), F.scaled_dot_product_attention(*wide, given)
        close(found, expected)
        for one, two in zip(slopes(found, (q, k, v)), slopes(expected, wide), strict=True):
            close(one, two)
    with pytest.raises(ValueError, match="dropout"):
        nt.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
    with pytest.raises(ValueError, match="is_causal beside attn_mask"):
        nt.scaled_dot_product_attention(q, k, v, mask, is_causal=True)
    with pytest.raises(ValueError, match="enable_gqa"):
        nt.scaled_dot_product_attention(q, k[:1], v[:1])
    for other, says in ((mask[:, 1:], "attn_mask has the shape"), (mask.long(), "attn_mask is of torch.int64")):
        with pytest.raises(ValueError, match=says):
            nt.scaled_dot_product_attention(q, k, v, other)
    assert nt.scaled_dot_product_attention(*(x.to("meta") for x in (q, k, v))).shape == q.shape
    with pytest.raises(ValueError, match="window=.5,.: it is .left, right."):
        nt.attention(*(x[None] for x in (q, k, v)), window=(5,))


SHAPES = [
    ((2, 1, 2, 7, 12), (1, 2, 1, 9, 12), (1, 2, 1, 9, 20), (2, 1, 1, 9), True),
    ((5, 64), (6, 64), (6, 64), (5, 6), False),
    ((2, 4, 7, 64), (2, 2, 9, 64), (2, 2, 9, 64), (4, 1, 9), False),
]
"""Of q, k, v and a mask; whether torch's sums have an order."""


@pytest.mark.parametrize(("q", "k", "v", "mask", "ordered"), sample(SHAPES, 1))
def test_any_leading_axes_any_size_and_the_gradient_of_a_mask(q, k, v, mask, ordered):
    half = [some(*shape) for shape in (q, k, v, mask)]
    wide = [x.detach().float().requires_grad_() for x in half]
    batch = torch.broadcast_shapes(q[:-3], k[:-3])
    torch.use_deterministic_algorithms(ordered)
    try:
        found = nt.scaled_dot_product_attention(*half, enable_gqa=True)
        gradients = slopes(found, half)
    finally:
        torch.use_deterministic_algorithms(False)
    heads, shared = (x.expand(*batch, *x.shape[-3:]) if batch else x for x in wide[:2]), wide[2]
    shared = shared.expand(*batch, *shared.shape[-3:]) if batch else shared
    expected = F.scaled_dot_product_attention(*heads, shared, wide[3], enable_gqa=len(q) > 2)
    close(found, expected)
    for one, two in zip(gradients, slopes(expected, wide), strict=True):
        assert one.shape == two.shape
        close(one, two)


def test_packed_sequences_and_autocast():
    starts = torch.tensor([0, 5, 5, 14], dtype=torch.int32)
    q, k, v = (torch.randn(14, 2, 64, requires_grad=True) for _ in range(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = nt.attention(q, k, v, causal=True, cu_seqlens_q=starts, cu_seqlens_k=starts)
    assert found.dtype == torch.bfloat16
    gradients = slopes(found, (q, k, v))
    pieces = [
        F.scaled_dot_product_attention(*(x[first:end].transpose(0, 1) for x in (q, k, v)), is_causal=True)
        for first, end in ((0, 5), (5, 14))
    ]
    expected = torch.cat(pieces, 1).transpose(0, 1)
    close(found, expected)
    for one, two in zip(gradients, slopes(expected, (q, k, v)), strict=True):
        assert one.dtype == torch.float32
        close(one, two)
    with pytest.raises(ValueError, match="float16 or bfloat16"):
        nt.attention(q, k, v)
    bias = torch.zeros(14, 14, requires_grad=True)
    with pytest.raises(ValueError, match="beside a softcap"):
        nt.attention(*(x[None].half() for x in (q, k, v)), bias=bias, softcap=2.0)


def test_groups_of_rows():
    x, w, ends = some(40, 64), some(3, 64, 32), torch.tensor([8, 8, 40], dtype=torch.int32)
    found = nt.grouped_matmul(x, w, ends)
    wide = [t.detach().float().requires_grad_() for t in (x, w)]
    expected = torch.cat([wide[0][:8] @ wide[1][0], wide[0][8:] @ wide[1][2]])
    close(found, expected)
    for one, two in zip(slopes(found, (x, w)), slopes(expected, wide), strict=True):
        close(one, two)


def test_gradients_of_groups_have_gradients():
    given, ends = (some(12, 16, scale=0.3), some(2, 16, 8, scale=0.3)), torch.tensor([5, 12], dtype=torch.int32)
    wide = [t.detach().float().requires_grad_() for t in given]
    y, expected = nt.grouped_matmul(*given, ends), torch.cat([wide[0][:5] @ wide[1][0], wide[0][5:] @ wide[1][1]])
    found = []
    for result, of in ((y, given), (expected, wide)):
        first = torch.autograd.grad(result.float().square().sum(), of, create_graph=True)
        found.append(torch.autograd.grad(sum(x.float().square().sum() for x in first) / 100, of))
    for one, two in zip(*found, strict=True):
        close(one, two)


@pytest.mark.parametrize("activation", sample(list(mlp_ops.ACTIVATIONS), 1))
def test_layers_of_one_width(activation):
    x, weights, biases = some(2, 5, 64), [some(64, 64, scale=0.15) for _ in range(3)], [some(64) for _ in range(3)]
    found = nt.mlp(x, weights, biases, activation=activation or None, output_activation="tanh")
    wide = [t.detach().float().requires_grad_() for t in (x, *weights, *biases)]
    h = wide[0]
    for i in range(3):
        h = F.linear(h, wide[1 + i], wide[4 + i])
        h = mlp_ops.ACTIVATIONS["tanh" if i == 2 else activation][0](h)
    close(found, h)
    for one, two in zip(slopes(found, (x, *weights, *biases)), slopes(h, wide), strict=True):
        close(one, two, 4e-2)


def test_layers_of_one_width_take_rows_that_lie_anywhere():
    weights = [some(64, 64, scale=0.15)]
    for x in (some(3, 2, 64).transpose(0, 1), some(3, 4, 64)[:, ::2], some(3, 64, 2).mT):
        assert torch.equal(nt.mlp(x, weights), nt.mlp(x.contiguous(), weights))


@pytest.mark.parametrize("kind", sample(["LSTM", "GRU"], 1))
@pytest.mark.parametrize("two", sample([False, True], 1))
def test_recurrent_layers(kind, two):
    module = getattr(torch.nn, kind)(16, 16, num_layers=2, bidirectional=two)
    x = (0.5 * torch.randn(4, 2, 16)).requires_grad_()
    expected, state = module(x)
    half = [p.detach().half().requires_grad_() for p in module._flat_weights]
    given = x.detach().half().requires_grad_()
    found, ends = getattr(nt, kind.lower())(given, half, bidirectional=two)
    close(found, expected)
    for one, other in zip(ends if kind == "LSTM" else [ends], state if kind == "LSTM" else [state], strict=True):
        close(one, other)
    for one, other in zip(slopes(found, (given, *half)), slopes(expected, (x, *module._flat_weights)), strict=True):
        close(one, other, 4e-2)
    with torch.no_grad():
        close(getattr(nt, kind.lower())(given, half, bidirectional=two)[0], expected)


@pytest.mark.parametrize("kind", sample(["lstm", "gru"], 1))
def test_lists_of_weights_take_no_dispatcher_and_the_state_may_be_all_that_is_used(kind, monkeypatch):
    x, weights = some(3, 2, 16, scale=0.5), _weights(16, 16, 4 if kind == "lstm" else 3)
    y, ends = getattr(nt, kind)(x, weights)
    expected = slopes(y[-1], (x, *weights))
    for op in (f"{kind}_layers", f"{kind}_layers_backward"):
        monkeypatch.setattr(getattr(recurrent_ops, op), "op", None)
    _, ends = getattr(nt, kind)(x, weights)
    found = slopes(ends[0][0] if kind == "lstm" else ends[0], (x, *weights))
    for one, other in zip(found, expected, strict=True):
        close(one, other)


def test_a_part_of_a_state_or_a_bias_may_be_missing():
    x, h, w = some(3, 2, 16, scale=0.5), some(1, 2, 16), _weights(16, 16, 4)
    zeros = torch.zeros_like(h)
    for one, other in (((h, None), (h, zeros)), ((None, h), (zeros, h))):
        found, expected = (nt.lstm(x, w, state)[0] for state in (one, other))
        assert torch.equal(found, expected)
        assert torch.equal(*(slopes(y, (h,))[0] for y in (found, expected)))
    y, weights, bias = some(5, 64), [some(64, 64, scale=0.1) for _ in range(2)], some(64)
    found, expected = (nt.mlp(y, weights, [bias, last]) for last in (None, torch.zeros_like(bias)))
    for one, other in zip(slopes(found, (y, *weights, bias)), slopes(expected, (y, *weights, bias)), strict=True):
        assert torch.equal(one, other)


def test_in_torch_compile_nothing_is_left_out():
    mask = torch.rand(16, 16) > 0.3

    def step(q, k, v, w):
        out = nt.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = nt.scaled_dot_product_attention(out, k, v, mask)
        return nt.mlp(nt.linear(out.transpose(1, 2).flatten(2), w), [w, w]).float().square().mean()

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    arguments = [some(1, 1, 16, 64) for _ in range(3)] + [some(64, 64, scale=0.2)]
    found = torch.autograd.grad(compiled(*arguments), arguments)
    for one, other in zip(found, torch.autograd.grad(step(*arguments), arguments), strict=True):
        close(one, other)


def test_products_take_the_type_of_autocast():
    """Weights are f32, and what comes from an op before may be of the type already."""
    torch.manual_seed(0)
    x, bias = some(5, 64, dtype=torch.bfloat16), some(64, dtype=torch.float32)
    weights = [some(64, 64, scale=0.1, dtype=torch.float32) for _ in range(2)]
    cells = [w.detach().float().requires_grad_() for w in _weights(64, 16, 4)]
    gates = [w.detach().float().requires_grad_() for w in _weights(64, 16, 3)]
    ends = torch.tensor([2, 5], dtype=torch.int32)
    calls = {
        "matmul": (lambda: nt.matmul(x, weights[0]), lambda: x.float() @ weights[0]),
        "linear": (lambda: nt.linear(x, weights[0], bias), lambda: F.linear(x.float(), weights[0], bias)),
        "grouped": (
            lambda: nt.grouped_matmul(x, torch.stack(weights), ends),
            lambda: torch.cat([x[:2].float() @ weights[0], x[2:].float() @ weights[1]])),
        "mlp": (
            lambda: nt.mlp(x, weights, activation="relu"),
            lambda: F.relu(x.float() @ weights[0].mT) @ weights[1].mT),
        "lstm": (
            lambda: nt.lstm(x[:, None], cells, (torch.zeros(1, 1, 16), torch.zeros(1, 1, 16)))[0],
            lambda: torch.lstm(
                x[:, None].float(), (torch.zeros(1, 1, 16), torch.zeros(1, 1, 16)), cells, True, 1, 0.0, False, False,
                False)[0]),
        "gru": (
            lambda: nt.gru(x[:, None], gates, torch.zeros(1, 1, 16))[0],
            lambda: torch.gru(x[:, None].float(), torch.zeros(1, 1, 16), gates, True, 1, 0.0, False, False, False)[0]),
    }  # fmt: skip
    for name, (ours, torchs) in calls.items():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = ours()
        assert found.dtype == torch.bfloat16, name
        expected, wanted = torchs(), cells if name == "lstm" else gates if name == "gru" else weights[:1]
        close(found, expected, 4e-2)
        for one, two in zip(slopes(found, wanted), slopes(expected, wanted), strict=True):
            assert one.dtype == torch.float32, name
            close(one, two, 6e-2)


def test_linear_of_one_unit():
    x, w = some(3, 64), some(64)
    expected = F.linear(x.float(), w.float())
    assert nt.linear(x, w).shape == expected.shape
    close(nt.linear(x, w), expected)
    close(nt.linear(x, w, torch.ones(())), expected + 1)
