"""Functions of floats, each as the sm_90 instructions it becomes; nothing calls a library.

A traced f32 goes to the function as it is. f16 and bf16 are computed in f32 and rounded once, vectors element by
element. A Python number stays in Python. f64 is taken only where the table says so. The errors are the largest that
were measured on an H200, against the true value for the f32 argument.

| function | f64 | PTX | error in f32 |
| --- | --- | --- | --- |
| exp2 | no | ex2.approx | 2.4 ulp |
| exp | no | x times log2(e), ex2.approx | relative 2^-22.5 + abs(x) 2^-24 (63 ulp at -87) |
| log2 | no | lg2.approx | absolute 2^-22 in 0.5 .. 2, elsewhere 2.3 ulp |
| log | no | lg2.approx, times ln(2) | absolute 2^-22 in 0.5 .. 2, elsewhere 3.2 ulp |
| sqrt | yes | sqrt.rn | rounded correctly |
| rsqrt | yes | rsqrt.approx; f64: sqrt.rn, div.rn | 1.6 ulp |
| sin, cos | no | 3 fma to -pi .. pi, sin.approx, cos.approx | absolute 2^-20.7 for abs(x) up to 1e5 |
| tanh | no | polynomial below 0.625, else ex2, rcp | 1.7 ulp |
| erf | no | polynomial below 1, else ex2 of one | 2.3 ulp |
| floor, ceil | yes | cvt.rmi, cvt.rpi | exact |
| trunc, round | yes | cvt.rzi, cvt.rni (halves to even) | exact |
| fma | yes | fma.rn | rounded correctly |

The functions named ``_approx`` are the fast ones: one instruction each (two for ``exp_approx``), with subnormal numbers
taken for zero. All take fragments and their vectors, too, element by element.
"""

from __future__ import annotations

import builtins
import math as pymath
from typing import TYPE_CHECKING, Any, overload

from nvdsl.mlir import ir
from nvdsl.values import arith, dtypes, promotion
from nvdsl.values.elementwise import Elementwise, Many, of_each
from nvdsl.values.float_functions import llvm as _llvm
from nvdsl.values.float_functions import nvvm as _nvvm
from nvdsl.values.float_functions import of_floats as _of_floats
from nvdsl.values.float_functions import op as _op
from nvdsl.values.select import N, select
from nvdsl.values.traced import Value, as_value, wrap

if TYPE_CHECKING:
    from nvdsl.values.typing import Number


_LOG2_E = 1.4426950408889634
_LN_2 = 0.6931471805599453
_TWO_PI = (6.2831854820251465, -1.7484555314695172e-07, -5.1984e-15)  # their sum: 2 pi to 72 bits


def _polynomial(x: Value, *coefficients: float) -> Value:
    """``c0 + c1 x + c2 x**2 ...`` by Horner's rule, one fma a step."""
    result = as_value(coefficients[-1], x)
    for c in coefficients[-2::-1]:
        result = fma(result, x, c)
    return result


@_of_floats(lambda x: 2.0**x)
def exp2(x: Value) -> Value:
    """2 to the power of ``x`` (``nvvm.ex2``)."""
    return _op("nvvm.ex2", x)


@_of_floats(pymath.exp)
def exp(x: Value) -> Value:
    """e to the power of ``x``, computed as ``2**(x * log2(e))``. The product's rounding makes the relative error grow
    with the magnitude of ``x``."""
    return exp2(x * _LOG2_E)


@_of_floats(pymath.log2)
def log2(x: Value) -> Value:
    """The logarithm to base 2 (``nvvm.log2``): NaN below 0, -infinity at 0."""
    return _op("nvvm.log2", x)


@_of_floats(pymath.log)
def log(x: Value) -> Value:
    """The natural logarithm: NaN below 0, -infinity at 0."""
    return log2(x) * _LN_2


@_of_floats(pymath.sqrt, double=True)
def sqrt(x: Value) -> Value:
    """The square root, rounded correctly."""
    return _llvm("llvm.sqrt", x)


@_of_floats(lambda x: 1 / pymath.sqrt(x), double=True)
def rsqrt(x: Value) -> Value:
    """``1 / sqrt(x)``."""
    return 1.0 / sqrt(x) if x.dtype is dtypes.f64 else _nvvm("llvm.nvvm.rsqrt.approx.f", x)


@_of_floats(pymath.sin)
def sin(x: Value) -> Value:
    """The sine of ``x`` in radians (``nvvm.sin``)."""
    return _op("nvvm.sin", _reduced(x))


@_of_floats(pymath.cos)
def cos(x: Value) -> Value:
    """The cosine of ``x`` in radians (``nvvm.cos``)."""
    return _op("nvvm.cos", _reduced(x))


def _reduced(x: Value) -> Value:
    """``x`` less a multiple of 2 pi, in -pi .. pi: the hardware's sine is good only there."""
    turns = round(x * (1 / (2 * pymath.pi)))
    for part in _TWO_PI:
        x = fma(turns, -part, x)
    return x


@_of_floats(pymath.tanh)
def tanh(x: Value) -> Value:
    """The hyperbolic tangent. Near 0, where ``1 - 2 / (e**(2*x) + 1)`` cancels, it is ``x * p(x**2)``."""
    size = builtins.abs(x)
    near = x * _polynomial(x * x, *_TANH)
    far = 1.0 - 2.0 * rcp_approx(exp2(size * (2 * _LOG2_E)) + 1.0)
    return select(size < 0.625, near, select(x < 0.0, -far, far))


@_of_floats(pymath.erf)
def erf(x: Value) -> Value:
    """The error function. Near 0 it is ``x * p(x**2)``, beyond 1 ``1 - 2**q(abs(x))``, which is 1 from 4 on."""
    size = builtins.abs(x)
    near = x * _polynomial(x * x, *_ERF)
    far = 1.0 - exp2(_polynomial(select(size > 4.0, 4.0, size), *_LOG2_ERFC))
    return select(size < 1.0, near, select(x < 0.0, -far, far))


# Fitted for nvdsl by iterated weighted least squares (toward the least largest error): tanh(x) / x in x**2
# for x in 0 .. 0.625, relative error 1e-8; erf(x) / x in x**2 for x in 0 .. 1, relative error 4e-8;
# log2(1 - erf(x)) in x for x in 1 .. 4, absolute error of erf 2e-8.
_TANH = (
    1.0,
    -0.333333283662796,
    0.13332752883434296,
    -0.05384940281510353,
    0.020992103964090347,
    -0.00609099306166172,
)
_ERF = (
    1.1283791065216064,
    -0.37612324953079224,
    0.11280179768800735,
    -0.02671131119132042,
    0.004917551297694445,
    -0.0005631421809084713,
)
_LOG2_ERFC = (
    -0.003854382550343871,
    -1.6121232509613037,
    -0.9442275762557983,
    -0.12787234783172607,
    0.021320410072803497,
    -0.0016597205540165305,
)


@_of_floats(pymath.floor, double=True)
def floor(x: Value) -> Value:
    """The largest whole number that is not above ``x``, as a float."""
    return _llvm("llvm.floor", x)


@_of_floats(pymath.ceil, double=True)
def ceil(x: Value) -> Value:
    """The least whole number that is not below ``x``, as a float."""
    return _llvm("llvm.ceil", x)


@_of_floats(pymath.trunc, double=True)
def trunc(x: Value) -> Value:
    """``x`` without its fraction, as a float."""
    return _llvm("llvm.trunc", x)


@_of_floats(builtins.round, double=True)
def round(x: Value) -> Value:
    """The nearest whole number, halves to the even one, as a float."""
    return _llvm("llvm.roundeven", x)


@_of_floats(pymath.isnan, double=True)
def isnan(x: Value) -> Value:
    """Whether ``x`` is NaN; a bool."""
    return wrap(arith.compare("unordered", x.dtype, x, x), dtypes.bool_)


@_of_floats(pymath.isinf, double=True)
def isinf(x: Value) -> Value:
    """Whether ``x`` is an infinity; a bool."""
    return builtins.abs(x) == pymath.inf


@_of_floats(pymath.isfinite, double=True)
def isfinite(x: Value) -> Value:
    """Whether ``x`` is neither NaN nor an infinity; a bool."""
    return builtins.abs(x) < pymath.inf


@overload
def fma(a: Value, b: Number, c: Number) -> Value: ...
@overload
def fma(a: Number, b: Value, c: Number) -> Value: ...
@overload
def fma(a: Number, b: Number, c: Value) -> Value: ...
@overload
def fma(a: N, b: N, c: N) -> N: ...
@overload
def fma(a: Many, b: Number | Elementwise, c: Number | Elementwise) -> Many: ...


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``; floats are rounded once. Operands meet as in operators; numbers alone stay in Python."""
    if (many := of_each(fma, a, b, c)) is not NotImplemented:
        return many
    like = next((x for x in (a, b, c) if isinstance(x, ir.Value)), None)
    if like is None:
        return a * b + c
    a, b, c = (as_value(x, like) for x in (a, b, c))
    for _ in range(2):  # once brings a to what all three meet in, twice the others
        a, b = _meet(a, b)
        b, c = _meet(b, c)
    return wrap(arith.fma(a, b, c), a.dtype) if a.dtype.is_float else a * b + c


def _meet(a: Value, b: Value) -> tuple[Value, Value]:
    t, x, y = promotion.meet("fma", a, b)
    return wrap(x, t), wrap(y, t)


@_of_floats(lambda x: 2.0**x)
def exp2_approx(x: Value) -> Value:
    """2 to the power of ``x`` by ``ex2.approx.ftz.f32``: results below ``2**-126`` are 0."""
    return _op("nvvm.ex2", x, ftz=True)


@_of_floats(pymath.exp)
def exp_approx(x: Value) -> Value:
    """e to the power of ``x``, as ``ex2.approx.ftz.f32`` of ``x * log2(e)``."""
    return exp2_approx(x * _LOG2_E)


@_of_floats(pymath.log2)
def log2_approx(x: Value) -> Value:
    """The logarithm to base 2 by ``lg2.approx.ftz.f32``. A subnormal ``x`` counts as 0."""
    return _op("nvvm.log2", x, ftz=True)


@_of_floats(lambda x: 1 / x)
def rcp_approx(x: Value) -> Value:
    """``1 / x`` by ``rcp.approx.ftz.f32`` (``nvvm.rcp.approx.ftz.f``), to 1 ulp. The operator is rounded correctly."""
    return _op("nvvm.rcp.approx.ftz.f", x)


@_of_floats(pymath.sqrt)
def sqrt_approx(x: Value) -> Value:
    """The square root by ``sqrt.approx.ftz.f32``."""
    return _nvvm("llvm.nvvm.sqrt.approx.ftz.f", x)


@_of_floats(lambda x: 1 / pymath.sqrt(x))
def rsqrt_approx(x: Value) -> Value:
    """``1 / sqrt(x)`` by ``rsqrt.approx.ftz.f32``."""
    return _nvvm("llvm.nvvm.rsqrt.approx.ftz.f", x)


@_of_floats(pymath.sin)
def sin_approx(x: Value) -> Value:
    """The sine by ``sin.approx.ftz.f32``: absolute error ``2**-21`` in -pi .. pi, ``1e-7 * abs(x)`` beyond."""
    return _op("nvvm.sin", x, ftz=True)


@_of_floats(pymath.cos)
def cos_approx(x: Value) -> Value:
    """The cosine by ``cos.approx.ftz.f32``: absolute error ``2**-21`` in -pi .. pi, ``1e-7 * abs(x)`` beyond."""
    return _op("nvvm.cos", x, ftz=True)


@_of_floats(pymath.tanh)
def tanh_approx(x: Value) -> Value:
    """The hyperbolic tangent by ``tanh.approx.f32``: relative error ``2**-11`` (PTX ISA; measured: ``2**-16``)."""
    return _llvm("llvm.tanh", x, approximate=True)
