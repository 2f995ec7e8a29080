"""The frame of all ops: a function of nvdsl as one op of torch, which torch.compile keeps whole.

An op has a schema, an implementation for tensors of any device (those of the CPU are computed in the simulator where
there is no GPU), a fake one, which says what results look like, and a formula for its gradient
(torch.library.custom_op).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch.autograd import forward_ad

Tensor: TypeAlias = torch.Tensor


class Operator:
    """An op, to be called. Who looks at ops sees one: torch.compile, traces, modes, subclasses of tensors. Elsewhere a
    call is an `autograd.Function`, since the dispatcher's Python takes longer than nvdsl's. `torch.func.grad` and its
    like refuse ops that have a gradient (torch 2.13), and take a Function of another form, but for lists, in which that
    looks for no tensors."""

    def __init__(self, op: Any, function: Callable[..., Any]) -> None:
        self.op, self._of_all = op, function
        self._set_gradient(_no_gradient, _keep_nothing)

    def __call__(self, *arguments: Any) -> Any:
        if not torch.compiler.is_compiling() and not torch._C._is_tracing():
            if torch._C._are_functorch_transforms_active():
                if not any(isinstance(x, list) for x in arguments):
                    return self._transformed.apply(*arguments)
            elif torch._C._len_torch_dispatch_stack() == 0 and all(map(_is_plain, arguments)):
                kept = torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in arguments)
                return self._eager.apply(*arguments) if kept else self._of_all(*arguments)
        return self.op(*arguments)

    def with_gradient(self, backward: Callable[..., Any], keep: Callable[..., None]) -> None:
        self.op.register_autograd(backward, setup_context=keep)
        self._set_gradient(backward, keep)

    def _set_gradient(self, backward: Callable[..., Any], keep: Callable[..., None]) -> None:
        def forward(ctx: Any, *arguments: Any) -> Any:
            output = self._of_all(*arguments)
            keep(ctx, arguments, output)
            return output

        name = self._of_all.__name__
        self._eager = _function(name, forward=forward, backward=backward)
        self._transformed = _function(
            name, forward=lambda *arguments: self.op(*arguments), setup_context=keep, backward=backward
        )
        self._transformed.generate_vmap_rule = True


def _function(name: str, **methods: Callable[..., Any]) -> Any:
    return type(name, (torch.autograd.Function,), {name: staticmethod(method) for name, method in methods.items()})


def _is_plain(x: Any) -> bool:
    """Whether it hides no tensor that has an opinion of its own about ops."""
    if isinstance(x, torch.Tensor):
        return type(x) in (torch.Tensor, torch.nn.Parameter) and x.device.type in ("cpu", "cuda")
    return not isinstance(x, list)


def _keep_nothing(ctx: Any, inputs: Any, output: Any) -> None:
    pass


def _no_gradient(ctx: Any, *slopes: Any) -> Any:
    raise NotImplementedError("the gradient of a gradient of nvdsl")


def operator(schema: str, fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Operator]:
    """Makes a function the op ``nvdsl::name``. ``schema``: its arguments and results in torch's language. ``fake``:
    what the results look like, for the same arguments. In forward mode it raises NotImplementedError."""

    def decorate(function: Callable[..., Any]) -> Operator:
        @functools.wraps(function)
        def reverse_alone(*arguments: Any) -> Any:
            if forward_ad._current_level >= 0:  # torch would take the derivative of such an op for zero
                raise NotImplementedError(f"{name} in forward mode (torch.func.jvp): it has gradients alone")
            return function(*arguments)

        name = f"nvdsl::{function.__name__}"
        op = torch.library.custom_op(name, reverse_alone, mutates_args=(), schema=schema)
        op.register_fake(fake)
        return Operator(op, reverse_alone)

    return decorate


def gradient(op: Operator, backward: Callable[..., Any], keep: Callable[..., None]) -> None:
    """Give an op its gradient. ``keep(ctx, inputs, output)`` saves what ``backward(ctx, *gradients)`` needs."""
    op.with_gradient(backward, keep)


def rows(x: Tensor) -> Tensor:
    """``x``, or a contiguous copy where its rows don't lie at even distances with their elements side by side."""
    if x.is_contiguous() or x.dim() == 0:
        return x.contiguous()
    inner = [(n, step) for n, step in zip(x.shape[:-1], x.stride()[:-1], strict=True) if n > 1]
    even = all(step == n * near for (_, step), (n, near) in zip(inner, inner[1:], strict=False))
    return x if even and (x.shape[-1] == 1 or x.stride(-1) == 1) else x.contiguous()


def like(x: Tensor, *shape: Any, dtype: torch.dtype | None = None) -> Tensor:
    """A new contiguous tensor beside ``x``: of its shape and type, or of these."""
    return x.new_empty(shape[0] if shape else x.shape, dtype=dtype or x.dtype)


def nothing(x: Tensor) -> Tensor:
    """What an op returns for a gradient that is not asked for."""
    return x.new_empty(0)


_CAST = (torch.float32, torch.float16, torch.bfloat16)


def autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """What a region of `torch.autocast` makes of the operands of products."""
    device = tensors[0].device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):  # it raises for those without autocast
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple([x.to(dtype) if x.dtype in _CAST else x for x in tensors])
