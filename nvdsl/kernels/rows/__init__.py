"""Kernels over the rows of an array, that is, over its last axis: softmax, LayerNorm, RMSNorm."""
