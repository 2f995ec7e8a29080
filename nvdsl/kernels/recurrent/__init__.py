"""Recurrent layers: LSTM, GRU, and the simple cell of tanh or relu.

    calls, gradients    the public functions of sequences, forward and backward
    cell_calls          those of one step
    arguments, part     what they are given, and parts of it
    sequence            one layer in one direction
    forward, backward   a whole sequence in one kernel, the recurrent weights in shared memory
    exchange, config    rows that its blocks tell each other step by step; how it is spread over blocks
    steps, pointwise    a sequence step by step, where the weights don't fit
    fused               one step in one kernel
    cells               what a step does with its gates, element by element
"""
