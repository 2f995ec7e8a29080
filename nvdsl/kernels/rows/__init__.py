"""Kernels over the rows of an array, that is, over its last axis: softmax, norms, cross entropy, their gradients."""
