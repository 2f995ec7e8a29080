"""The frame of all ops: a function of nvdsl as one op of torch, which torch.compile keeps whole.

An op has a schema, an implementation for tensors of any device (those of the CPU are computed in the simulator where
there is no GPU), a fake one, which says what results look like, and a formula for its gradient
(torch.library.custom_op).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

import torch
from torch.autograd import forward_ad

Tensor: TypeAlias = torch.Tensor

P = ParamSpec("P")
R = TypeVar("R")


_PLAIN = torch.Tensor, torch.nn.Parameter
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_NUMBERS = type(None), bool, int, float, str


class Operator:
    """An op, to be called. Who looks at ops sees one: torch.compile, traces, modes, subclasses of tensors. Elsewhere a
    call is an `autograd.Function`, since the dispatcher's Python takes longer than nvdsl's, and where nothing is kept
    for a gradient the function itself; both give the first ``public`` results alone. `torch.func.grad` and its like
    refuse ops that have a gradient (torch 2.13), and take a Function of another form, but for lists, in which that
    looks for no tensors."""

    def __init__(self, op: Any, function: Callable[..., Any], lists: bool) -> None:
        self.op, self._function, self._alone, self._lists = op, function, function, lists
        self._set_gradient(_no_gradient, _keep_nothing)

    def __call__(self, *arguments: Any) -> Any:
        if not torch.compiler.is_compiling() and not torch._C._is_tracing():
            if torch._C._are_functorch_transforms_active():
                if not self._lists:
                    return self._transformed.apply(*arguments)
            elif torch._C._len_torch_dispatch_stack() == 0:
                wants = _wants_gradient(arguments)
                if wants is not None:
                    if forward_ad._current_level >= 0:
                        raise _forward_mode(self._function)
                    if not wants or not torch.is_grad_enabled():
                        return self._alone(*arguments)
                    return self._apply(*_flat(arguments)) if self._lists else self._apply(*arguments)
        return self.op(*arguments)

    def with_gradient(
        self, backward: Callable[..., Any], keep: Callable[..., None], alone: Any = None, public: int | None = None
    ) -> None:
        self.op.register_autograd(backward, setup_context=keep)
        self._set_gradient(backward, keep, public)
        self._alone = self._function if alone is None else alone

    def _set_gradient(self, backward: Callable[..., Any], keep: Callable[..., None], public: int | None = None) -> None:
        function = self._function

        def forward(ctx: Any, *arguments: Any) -> Any:
            output = function(*arguments)
            keep(ctx, arguments, output)
            return output if public is None else output[:public]

        def forward_flat(ctx: Any, lengths: tuple[int, ...], *flat: Any) -> Any:  # a Function looks into no lists
            ctx.lengths = lengths
            return forward(ctx, *_lists(lengths, flat))

        def backward_flat(ctx: Any, *slopes: Any) -> Any:
            found: list[Any] = [None]
            for slope, length in zip(backward(ctx, *slopes), ctx.lengths, strict=True):
                found += [slope] if length < 0 else slope or [None] * length
            return tuple(found)

        name = function.__name__
        methods = (forward_flat, backward_flat) if self._lists else (forward, backward)
        eager: Any = _function(name, forward=methods[0], backward=methods[1])
        base: Any = super(torch.autograd.Function, eager)
        self._apply = base.apply  # without Function's own look for what `__call__` has looked for
        self._transformed = _function(
            name, forward=lambda *arguments: self.op(*arguments), setup_context=keep, backward=backward
        )
        self._transformed.generate_vmap_rule = True


def _flat(arguments: Sequence[Any]) -> list[Any]:
    """How long each list is, -1 where there is none, and what all of them have, one after the other."""
    flat: list[Any] = [tuple([len(x) if x.__class__ is list else -1 for x in arguments])]
    for x in arguments:
        if x.__class__ is list:
            flat += x
        else:
            flat.append(x)
    return flat


def _lists(lengths: Sequence[int], flat: Sequence[Any]) -> Iterator[Any]:
    """The arguments that `_flat` was given."""
    start = 0
    for length in lengths:
        yield flat[start] if length < 0 else list(flat[start : start + length])
        start += 1 if length < 0 else length


def _wants_gradient(arguments: Sequence[Any]) -> bool | None:
    """Whether one of the tensors does; None where one may have an opinion of its own about ops."""
    wants: bool | None = False
    for x in arguments:
        kind = type(x)
        if kind in _PLAIN:
            if not (x.is_cuda or x.is_cpu) or _is_wrapped(x):  # by torch.func, which may be over
                return None
            wants = wants or x.requires_grad
        elif kind is list:
            inner = _wants_gradient(x)
            if inner is None:
                return None
            wants = wants or inner
        elif kind not in _NUMBERS:
            return None
    return wants


def _function(name: str, **methods: Callable[..., Any]) -> Any:
    return type(name, (torch.autograd.Function,), {name: staticmethod(method) for name, method in methods.items()})


def _keep_nothing(ctx: Any, inputs: Any, output: Any) -> None:
    pass


def _no_gradient(ctx: Any, *slopes: Any) -> Any:
    raise NotImplementedError("the gradient of a gradient of nvdsl")


def operator(schema: str, fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Operator]:
    """Makes a function the op ``nvdsl::name``. ``schema``: its arguments and results in torch's language. ``fake``:
    what the results look like, for the same arguments. The function gives None for a result that is not asked for,
    which the op has as `nothing`. In forward mode it raises NotImplementedError."""

    def decorate(function: Callable[..., Any]) -> Operator:
        @functools.wraps(function)
        def of_tensors(*arguments: Any) -> Any:
            if forward_ad._current_level >= 0:
                raise _forward_mode(function)
            found = function(*arguments)
            if found.__class__ is not tuple:
                return found
            return tuple([arguments[0].new_empty(0) if x is None else x for x in found])

        op = torch.library.custom_op(f"nvdsl::{function.__name__}", of_tensors, mutates_args=(), schema=schema)
        op.register_fake(functools.wraps(fake)(lambda *arguments: fake(*_of_one_kind(function, arguments))))
        return Operator(op, function, "[]" in schema.split("->")[0])

    return decorate


def _of_one_kind(function: Callable[..., Any], arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments. Raises ValueError where some tensors are meta and some are not: results would hold anything."""
    tensors = [x for one in arguments for x in (one if isinstance(one, list | tuple) else [one])]
    kinds = {x.device.type for x in tensors if hasattr(x, "device")}
    if "meta" in kinds and len(kinds) > 1:
        raise ValueError(f"nvdsl::{function.__name__}: tensors of {' and '.join(sorted(kinds))} in one call")
    return arguments


def _forward_mode(function: Callable[..., Any]) -> NotImplementedError:
    """torch would take the derivative of such an op for zero."""
    name = f"nvdsl::{function.__name__}"
    return NotImplementedError(f"{name} in forward mode (torch.func.jvp): it has gradients alone")


def gradient(
    op: Operator, backward: Callable[..., Any], keep: Callable[..., None], alone: Any = None, public: int | None = None
) -> None:
    """Give an op its gradient. ``keep(ctx, inputs, output)`` saves what ``backward(ctx, *gradients)`` needs. ``alone``:
    the op's function where nothing is saved; it gives None for what only the gradient needs. ``public``: of the op's
    results so many are for its callers, who look at no others; None: all. ``backward`` may get the gradients of these
    alone, and with lists among the arguments there is no ``ctx.needs_input_grad``."""
    op.with_gradient(backward, keep, alone, public)


def of_tensors(function: Callable[P, R]) -> Callable[P, R]:
    """A public function. Where it fails and an argument that its annotation calls a tensor is none, TypeError says so;
    looked at before, arguments would cost each call."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception:
            given = inspect.signature(function)
            for name, value in given.bind(*args, **kwargs).arguments.items():
                annotation = given.parameters[name].annotation
                for what, each in _tensors(name, value, annotation):
                    if not isinstance(each, torch.Tensor):
                        wanted = "a list of tensors" if what == name and "[Tensor" in annotation else "a tensor"
                        raise TypeError(f"{what} is a {type(each).__name__}: it is {wanted} of torch") from None
                    if each.layout != torch.strided or each.is_nested:
                        kind = "nested" if each.is_nested else each.layout
                        raise TypeError(f"{what} is {kind}: it is a dense tensor, x.to_dense() say") from None
            raise

    return checked


def _tensors(name: str, value: Any, annotation: str) -> Iterator[tuple[str, Any]]:
    """What an argument should have of tensors."""
    several = "[Tensor" in annotation
    if "Tensor" in annotation and (value is not None or "None" not in annotation):
        if several and isinstance(value, Sequence | torch.Tensor | torch.nn.ParameterList):
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(value) if each is not None)
        else:
            yield name, value


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
    """What an op returns for a result that is not asked for."""
    return x.new_empty(0)


_CAST = (torch.float32, torch.float16, torch.bfloat16)


def autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """What a region of `torch.autocast` makes of the operands of products."""
    device = "cuda" if tensors[0].is_cuda else tensors[0].device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):  # it raises for those without autocast
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple([x.to(dtype) if x.dtype in _CAST else x for x in tensors])
