"""nvdsl's functions for torch programs: each is an op of its own, with a gradient, for eager mode and torch.compile.

    import nvdsl.torch as nt
    y = nt.layer_norm(x, x.shape[-1:], weight, bias)      # as torch.nn.functional.layer_norm

Tensors of a GPU are computed on torch's current stream. Those of the CPU are computed in the simulator where there is
no GPU, which is slow and is meant for tests. Needs torch, which nvdsl itself does not.
"""

from nvdsl.torch.attention_ops import attention, scaled_dot_product_attention
from nvdsl.torch.cross_entropy_ops import cross_entropy
from nvdsl.torch.mlp_ops import mlp
from nvdsl.torch.norm_ops import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from nvdsl.torch.product_ops import grouped_matmul, linear, matmul
from nvdsl.torch.recurrent_ops import gru, lstm
from nvdsl.torch.softmax_ops import log_softmax, softmax

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "attention",
    "cross_entropy",
    "grouped_matmul",
    "gru",
    "layer_norm",
    "linear",
    "log_softmax",
    "lstm",
    "matmul",
    "mlp",
    "rms_norm",
    "scaled_dot_product_attention",
    "softmax",
]
