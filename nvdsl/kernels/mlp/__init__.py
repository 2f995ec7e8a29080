"""Fully connected layers of one width: all of them in one kernel.

    calls       `nvdsl.mlp`: checks the arrays of a call, and launches
    forward     the kernel
    config      consumers, clusters and slots of shared memory, by the width
"""
