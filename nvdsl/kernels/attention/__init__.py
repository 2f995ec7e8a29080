"""Attention and its gradients, by the tensor cores.

    attention, heads, options       `nvdsl.attention`: its arrays and what may be asked of it -> `choose` -> launch
    choose, config, splits, tuned   which configuration runs: tiles, stages, parts of the keys; found by a search
    forward                         the kernel of all of these, and what it is made of:
      tiles, sequences                which tiles of queries and keys there are; how long sequences are, where they lie
      load, turned, query_rows        Q, K and V on their way to the products; V of 8 bits, with its keys contiguous
      scores, online                  from Q K^T to weights: scale, bias, functions; the softmax over tile after tile
      results, parts, combine         O and its logarithms to memory; parts of the keys, added up in a cluster or later
    copies                          of arrays that TMA can't read or write

    gradient                        `nvdsl.attention_backward` -> `gradient_config` -> `gradient_kernels`
    backward, backward_apart, backward_wide     the kernels, for heads of up to 128, 192 and 256
    gradient_frame                  what they share: `gradient_load`, `gradient_scores`, `gradient_sums` and others
"""
