"""What rows' functions compute, in f64."""

from __future__ import annotations

import numpy as np


def wide(*arrays):
    return [None if x is None else np.asarray(x).astype(np.float64) for x in arrays]


def norm(x, weight=None, bias=None, residual=None, *, centered, eps):
    """Result, x + residual, mean, rstd."""
    x, weight, bias, residual = wide(x, weight, bias, residual)
    h = x if residual is None else x + residual
    mean = h.mean(-1, keepdims=True) if centered else np.zeros((*h.shape[:-1], 1))
    rstd = 1 / np.sqrt(((h - mean) ** 2).mean(-1, keepdims=True) + eps)
    y = (h - mean) * rstd
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, h, mean[..., 0], rstd[..., 0]


def norm_backward(dy, x, weight=None, dresidual=None, *, centered, eps):
    """dx, dweight, dbias."""
    dy, x, weight, dresidual = wide(dy, x, weight, dresidual)
    _, _, mean, rstd = norm(x, centered=centered, eps=eps)
    mean, rstd = mean[..., None], rstd[..., None]
    g, z = dy if weight is None else dy * weight, (x - mean) * rstd
    dx = g - z * (g * z).mean(-1, keepdims=True) - (g.mean(-1, keepdims=True) if centered else 0)
    dx = dx * rstd if dresidual is None else dx * rstd + dresidual
    columns = dy.shape[-1]
    return dx, (dy * z).reshape(-1, columns).sum(0), dy.reshape(-1, columns).sum(0)


def log_sum_exp(x):
    (x,) = wide(x)
    top = x.max(-1)
    return top + np.log(np.exp(x - top[..., None]).sum(-1))


def cross_entropy(x, labels, *, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    """Losses of the rows, the gradient of their sum, lse."""
    (x,) = wide(x)
    lse, classes = log_sum_exp(x), x.shape[-1]
    kept = labels != ignore_index
    at = np.where(kept, labels, 0)[..., None]
    chosen = np.take_along_axis(x, at, -1)[..., 0]
    losses = (1 - label_smoothing) * (lse - chosen) + label_smoothing * (lse - x.mean(-1)) + z_loss * lse**2
    gradient = np.exp(x - lse[..., None]) * (1 + 2 * z_loss * lse[..., None]) - label_smoothing / classes
    np.put_along_axis(gradient, at, np.take_along_axis(gradient, at, -1) - (1 - label_smoothing), -1)
    return np.where(kept, losses, 0.0), np.where(kept[..., None], gradient, 0.0), lse
