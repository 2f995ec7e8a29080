"""Attention.

    forward     softmax(scale * q k^T) v, and the logarithms of the sums
    tiles       which tile of rows comes when, and which keys it sees
"""
