"""The ops of nvdsl.torch on the CPU, in the simulator: what torch asks of an op, results, gradients, torch.compile."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import nvdsl as nv  # noqa: E402
import nvdsl.torch as nt  # noqa: E402
from nvdsl.driver import new_arrays  # noqa: E402
from nvdsl.kernels.arguments import Argument  # noqa: E402
from nvdsl.torch import cross_entropy_ops, norm_ops, product_ops, softmax_ops  # noqa: E402
from tests.exhaustive import sample  # noqa: E402

F = torch.nn.functional
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")
    torch.manual_seed(0)


def some(*shape, dtype=torch.float32, grad=True):
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


def weights(n, dtype=torch.float32):
    return some(n, dtype=dtype), some(n, dtype=dtype)


def wide(*shapes):
    """Of f64: how the operands of a product of f32 lie says whether it takes tf32, and those compared differ."""
    return tuple(some(*shape, dtype=torch.float64) for shape in shapes)


OPS = {
    "layer norm": lambda: (norm_ops.norm_rows, (some(3, 20), *weights(20), None, 1e-5, True)),
    "softmax": lambda: (softmax_ops.softmax_rows, (some(3, 5),)),
    "log softmax": lambda: (softmax_ops.log_softmax_rows, (some(2, 2, 5, dtype=torch.bfloat16),)),
    "layer norm of a sum": lambda: (
        norm_ops.norm_rows, (some(3, 20, dtype=torch.bfloat16), *weights(20), some(3, 20), 1e-5, True)),
    "rms norm": lambda: (norm_ops.norm_rows, (some(3, 20), *weights(20), None, 1e-5, False)),
    "rms norm of a sum": lambda: (norm_ops.norm_rows, (some(3, 20), None, None, some(3, 20), 1e-5, False)),
    "cross entropy": lambda: (
        cross_entropy_ops.cross_entropy_rows, (some(4, 9), torch.tensor([1, 2, -100, 8]), -100, 0.1, 0.0, "mean")),
    "losses": lambda: (
        cross_entropy_ops.cross_entropy_rows, (some(2, 2, 9), torch.tensor([[1, 2], [-1, 8]]), -1, 0.0, 0.1, "none")),
    "product": lambda: (product_ops.matrix_product, wide((2, 3, 8), (8, 4))),
    "product of bytes": lambda: (
        product_ops.matrix_product, (torch.ones(3, 16, dtype=torch.int8), torch.ones(16, 4, dtype=torch.int8))),
    "layer": lambda: (product_ops.linear_product, wide((2, 3, 8), (4, 8), (4,))),
    "layer without bias": lambda: (product_ops.linear_product, (*wide((3, 8), (4, 8)), None)),
}  # fmt: skip


@pytest.mark.parametrize("name", sample(OPS, 2))
def test_torch_s_own_checks_of_an_op(name):
    op, arguments = OPS[name]()
    torch.library.opcheck(op.op, arguments, test_utils=CHECKS)


SHAPES = {"layer": [(2, 3, 4), (5, 4), (5,)], "batches": [(2, 1, 3, 4), (3, 4, 2)], "vector": [(4,), (2, 4, 3)]}


@pytest.mark.parametrize("name", sample(SHAPES, 1))
def test_gradients_of_products_have_gradients(name):
    given = [some(*shape, dtype=torch.float64) for shape in SHAPES[name]]
    call = nt.linear if name == "layer" else nt.matmul
    assert torch.autograd.gradcheck(call, given) and torch.autograd.gradgradcheck(call, given)


def test_a_batch_beside_one_matrix_is_one_product_and_so_is_its_gradient():
    """Products of a batch would be rounded before they are summed: here to f16, which leaves nothing."""
    x = torch.tensor([1 + 2**-10, 1]).half()[:, None, None]
    dy = torch.tensor([1 + 2**-10, -1 - 2**-9]).half()[:, None, None]
    w = some(1, 1, dtype=torch.float16)
    (found,) = torch.autograd.grad(nt.matmul(x, w), w, dy)
    assert found.item() == 2**-20


def test_what_a_layer_gives_can_be_changed_in_place_and_its_slope_lies_as_the_weight_does():
    x, w = some(2, 3, 8), some(5, 8)
    y = nt.linear(x, w)
    y.mul_(2)
    (found,) = torch.autograd.grad(y, w, torch.ones_like(y))
    assert found.is_contiguous()
    torch.testing.assert_close(found, 2 * x.sum((0, 1)).expand(5, 8), rtol=1e-2, atol=1e-2)


def test_a_layer_without_inputs_is_its_bias():
    x, w, b = some(2, 3, 0), some(5, 0), some(5)
    y = nt.linear(x, w, b)
    torch.testing.assert_close(y, b.expand(2, 3, 5))
    found = torch.autograd.grad(y, (x, w, b), torch.ones(()).expand(y.shape))
    assert [g.shape for g in found] == [x.shape, w.shape, b.shape] and found[2].tolist() == [6] * 5


def _columns(x):
    return x.transpose(0, 1)  # rows that don't lie side by side


CALLS = {
    "softmax": (lambda m, x, w, b: m.softmax(x, -1), ()),
    "softmax of columns": (lambda m, x, w, b: m.softmax(x, 1), ()),
    "softmax of a transposed": (lambda m, x, w, b: m.softmax(_columns(x), -1), ()),
    "log softmax": (lambda m, x, w, b: m.log_softmax(x, -1), ()),
    "layer norm": (lambda m, x, w, b: m.layer_norm(x, (12,), w, b), ()),
    "layer norm without weight": (lambda m, x, w, b: m.layer_norm(x, (12,), None, b, 1e-3), ()),
    "layer norm of two axes": (lambda m, x, w, b: m.layer_norm(x, (6, 12)), ()),
    "rms norm": (lambda m, x, w, b: m.rms_norm(x, (12,), w), ()),
    "rms norm with eps": (lambda m, x, w, b: m.rms_norm(x, (12,), None, 0.1), ()),
    "rms norm with bias": (lambda m, x, w, b: m.rms_norm(x, (12,), w, 0.1, *[b] * (m is nt)) + b * (m is not nt), ()),
    "linear": (lambda m, x, w, b: m.linear(x, torch.outer(w, b), b), ()),
    "linear without bias": (lambda m, x, w, b: m.linear(x, torch.outer(w, b)), ()),
    "matmul": (lambda m, x, w, b: (torch if m is F else m).matmul(x, x.mT), ()),
    "matmul of a vector": (lambda m, x, w, b: (torch if m is F else m).matmul(x, w), ()),
    "vector times matrix": (lambda m, x, w, b: (torch if m is F else m).matmul(w, x.mT[0]), ()),
    "cross entropy": (lambda m, x, w, b: m.cross_entropy(x.movedim(-1, 1), LABELS), ()),
    "cross entropy, smoothed": (lambda m, x, w, b: m.cross_entropy(x[0], LABELS[0], label_smoothing=0.2), ()),
    "losses": (lambda m, x, w, b: m.cross_entropy(x[0], LABELS[0], reduction="none", ignore_index=3), ()),
    "cross entropy of one": (lambda m, x, w, b: m.cross_entropy(x[0, 0], LABELS[0, 0], reduction="sum"), ()),
}
LABELS = torch.tensor([[0, 3, 5, 11, 3, 7]] * 4)


def _gradients(call, module):
    torch.manual_seed(1)
    x, w, b = some(4, 6, 12), some(12), some(12)
    y = call(module, x, w, b)
    y.backward(torch.ones_like(y) + torch.arange(y.numel()).reshape(y.shape) / y.numel())
    return [y.detach(), *(p.grad for p in (x, w, b))]


@pytest.mark.parametrize("name", sample(CALLS, 6))
def test_results_and_gradients_are_torch_s(name):
    call, _ = CALLS[name]
    # Products of f32 are tf32's: of 10 bits, of which sums that cancel lose some.
    loose = 2e-2 if "linear" in name or "matmul" in name or "matrix" in name else 1e-5
    for found, expected in zip(_gradients(call, nt), _gradients(call, F), strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            near = loose * max(expected.abs().max().item(), 1)
            torch.testing.assert_close(found, expected, rtol=loose, atol=near)


@pytest.mark.parametrize("centered", [True, False])
def test_a_norm_of_a_sum_gives_both_gradients(centered):
    weight = some(24)
    x, residual = some(5, 24), some(5, 24)
    more = [t.detach().clone().requires_grad_() for t in (x, residual, weight)]
    y, h = nt.add_layer_norm(x, residual, weight) if centered else nt.add_rms_norm(x, residual, weight, 1e-5)
    other = more[0] + more[1]
    expected = F.layer_norm(other, (24,), more[2]) if centered else F.rms_norm(other, (24,), more[2], 1e-5)
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    (y * y + h.sin()).sum().backward()
    (expected * expected + other.sin()).sum().backward()
    for one, two in zip((x, residual, weight), more, strict=True):
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-4)


FUNCTIONS = {
    "layer_norm": lambda x: nt.layer_norm(x, (8,)),
    "rms_norm": lambda x: nt.rms_norm(x, (8,)),
    "cross_entropy": lambda x: nt.cross_entropy(x, torch.tensor([0, 3])),
    "attention": lambda x: nt.attention(*[x.half().reshape(1, 2, 1, 8)] * 3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_gradients_need_is_computed_where_there_are_some(name, monkeypatch):
    asked, function = [], getattr(nv, name)
    monkeypatch.setattr(nv, name, lambda *args, **options: asked.append(options) or function(*args, **options))
    x = some(2, 8)
    kept = FUNCTIONS[name](x)
    with torch.no_grad():
        alone = FUNCTIONS[name](x)
    torch.testing.assert_close(alone, kept.detach(), rtol=0, atol=0)
    found = [[key for key in ("mean", "rstd", "lse", "return_lse") if each.get(key) is True] for each in asked]
    assert found[0] and not found[1]


class Seen(TorchDispatchMode):
    """``names``: of the ops that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.names.append(str(op))
        return op(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_that_nobody_uses_have_no_gradients_of_zeros(name):
    x = some(2, 8)
    y = FUNCTIONS[name](x)
    dy = torch.ones_like(y)
    with Seen() as seen:
        torch.autograd.grad(y, x, dy)
    assert any("backward" in each for each in seen.names) and not any("zeros" in each for each in seen.names)


def test_the_sum_beside_a_norm_may_be_all_that_is_used():
    x, residual, w = some(2, 8), some(2, 8), some(8)
    _, total = nt.add_rms_norm(x, residual, w)
    found = torch.autograd.grad(total, (x, residual, w), torch.full_like(total, 2.0))
    assert [g.unique().tolist() for g in found] == [[2.0], [2.0], [0.0]]


def test_in_torch_compile_nothing_is_left_out():
    def step(x, weight, bias, labels):
        h = nt.layer_norm(x, (16,), weight, bias)
        h = nt.rms_norm(nt.softmax(nt.linear(h.relu(), weight.outer(bias))), (16,), weight)
        return nt.cross_entropy(h, labels, z_loss=0.1)

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (6, 7):
        x, weight, bias = some(rows, 16), some(16), some(16)
        labels = torch.arange(rows) % 16
        found = torch.autograd.grad(compiled(x, weight, bias, labels), (x, weight, bias))
        expected = torch.autograd.grad(step(x, weight, bias, labels), (x, weight, bias))
        for one, two in zip(found, expected, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: nt.layer_norm(some(3, 8), (3,)), "not the end of the input's shape"),
        (lambda: nt.layer_norm(some(3, 8), (8,), some(4)), "for normalized_shape=(8,)"),
        (lambda: nt.cross_entropy(some(3, 8), some(3, 8)), "probabilities are not supported"),
        (lambda: nt.softmax(np.ones((3, 8))), "input is a ndarray: it is a tensor of torch"),
        (lambda: nt.softmax(torch.eye(3).to_sparse()), "input is torch.sparse_coo"),
        (lambda: nt.layer_norm(some(3, 8), 8, [1.0] * 8), "weight is a list"),
        (lambda: nt.mlp(some(3, 64), 7), "weights is a int: it is a list of tensors"),
        (lambda: nt.mlp(some(3, 64), [some(64, 64), 7]), "weights[1] is a int"),
        (lambda: nt.lstm(some(3, 1, 8), [some(32, 8)] * 2, some(1, 1, 8)), "that of an LSTM is (h_0, c_0)"),
        (lambda: nt.gru(some(3, 1, 8), [some(24, 8)] * 2, (some(1, 1, 8),)), "state is a tuple"),
    ],
)
def test_what_is_not_supported_is_said(call, says):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert says in str(caught.value)


def test_forward_mode_is_an_error():
    x = some(2, 8, grad=False)
    with pytest.raises(NotImplementedError, match="forward mode"):
        torch.func.jvp(nt.softmax, (x,), (x,))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward mode"):
        nt.softmax(torch.autograd.forward_ad.make_dual(x, x))


def test_gradients_by_torch_func():
    """Of each sample, as torch's own functions have them."""

    def loss(m):
        def of(weight, x):
            q = m.linear(m.layer_norm(x, (64,), weight), torch.eye(64)).bfloat16()[None]
            out = m.scaled_dot_product_attention(q, q, q, is_causal=True)[0].float()
            return m.cross_entropy(m.softmax(out, -1), LABELS[0]).sin()

        return of

    weight, x = some(64, grad=False), some(2, 6, 64, grad=False)
    found, expected = (
        torch.vmap(torch.func.grad(loss(m), (0, 1)), (None, 0))(weight, x) for m in (nt, F)
    )
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=3e-2, atol=3e-2 * two.abs().max().item())
    with pytest.raises(NotImplementedError, match="gradient of a gradient"):
        torch.func.jacrev(torch.func.grad(lambda x: nt.softmax(x).square().sum()))(x)
    with pytest.raises(RuntimeError):  # and not a gradient of 0
        torch.func.grad(lambda w: nt.mlp(x[0].half(), [w]).sum())(torch.eye(64).half())


def test_who_looks_at_ops_sees_one():
    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            names.append(str(op))
            return op(*args, **(kwargs or {}))

    names, x = [], some(3, 8)
    with Seen():
        nt.softmax(x).sum().backward()
    assert "nvdsl.softmax_rows.default" in names and "nvdsl.softmax_rows_backward.default" in names
    traced = torch.jit.trace(nt.softmax, x)
    other = some(3, 8)
    torch.testing.assert_close(traced(other), other.softmax(-1))
    assert nt.matmul(x.to("meta"), some(8, 5, grad=False).to("meta")).shape == (3, 5)
    assert type(nt.softmax(torch.nn.Buffer(x.detach()))) is torch.Tensor


def test_what_has_no_second_gradient_says_so():
    x = some(3, 8)
    (slope,) = torch.autograd.grad(nt.softmax(x).square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="gradient of a gradient"):
        slope.sum().backward()


def test_a_type_of_torch_s_is_a_type():
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn):
        found = nv.rms_norm(some(2, 8, grad=False), out_dtype=dtype)
        assert (found[0] if dtype.itemsize == 1 else found).dtype == dtype


def test_a_number_has_a_softmax():
    assert nt.softmax(torch.tensor(3.0), 0).item() == 1.0 and nt.log_softmax(torch.tensor(3.0)).item() == 0.0


def test_importing_nvdsl_does_not_import_torch():
    program = "import sys, nvdsl; nvdsl.layer_norm; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)


@pytest.mark.parametrize(("shape", "dim"), [((0, 4), 0), ((4, 0), -1), ((0, 4), 1)])
def test_softmax_of_nothing_is_nothing(shape, dim):
    x = torch.zeros(shape, requires_grad=True)
    for made in (nt.softmax(x, dim), nt.log_softmax(x, dim)):
        made.sum().backward()
        assert made.shape == shape and x.grad.shape == shape


def test_softmax_of_nothing_has_the_axes_of_its_input_alone():
    with pytest.raises(IndexError):
        nt.softmax(torch.zeros(0, 4), 2)


def test_an_axis_is_an_integer():
    with pytest.raises(TypeError, match="float"):
        nt.softmax(torch.zeros(3, 4), 1.0)


def test_a_meta_tensor_beside_another_is_an_error():
    """Its fake implementation would give a result of the other's device that nobody has written."""
    with pytest.raises(ValueError, match="cross_entropy_rows: tensors of cpu and meta"):
        nt.cross_entropy(torch.zeros(3, 8), torch.zeros(3, dtype=torch.long, device="meta"))
    with pytest.raises(ValueError, match="tensors of cpu and meta"):
        nt.lstm(some(3, 1, 8).half(), [some(32, 8).half().to("meta")] * 2)


def test_what_makes_results_of_repeated_calls_keeps_no_memory():
    """It may come from the pool of a CUDA graph, in which torch.compile refuses what stays."""
    x = torch.zeros(2)
    make = new_arrays.maker(Argument.of("x", x).memory, (3, 4), nv.bf16)
    kept = [y for y in gc.get_objects() if type(y) is torch.Tensor and y.dtype is torch.bfloat16]
    assert kept and not any(y.untyped_storage().nbytes() for y in kept)
    made, address = make()
    assert made.dtype is torch.bfloat16 and made.shape == (3, 4) and made.is_contiguous()
    assert made.data_ptr() == address and made.fill_(1).sum() == 12
    for shape in ((0, 8), (2, 0, 3), (0,)):
        made, _ = new_arrays.maker(Argument.of("x", x).memory, shape, nv.bf16)()
        assert made.shape == shape and made.stride() == torch.empty(shape).stride()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_least_that_rms_norm_divides_by_is_torch_s(dtype):
    x = torch.full((2, 64), 1e-3, dtype=dtype)
    torch.testing.assert_close(nt.rms_norm(x, 64), F.rms_norm(x, (64,)))
