"""Attention.

    forward     softmax(scale * q k^T) v, and the logarithms of the sums
    tiles       which tile of rows comes when, and which keys it sees
    backward    its gradients: a block goes over the rows that see its 128 keys
    backward_wide   the same for wide heads, 64 keys a block
    gradient_rows   before and after both: the sums of O dO, and dQ in its own type
"""
