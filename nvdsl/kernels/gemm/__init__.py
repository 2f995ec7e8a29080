"""Matrix products, by the tensor cores or without.

    matmul              `nvdsl.matmul`: arguments -> `problem` -> `dispatch` -> launch
    choose              which configuration runs: the one place that decides
    config              what can be configured, and which configurations are legal
    launch              `nvdsl.kernels.gemm`: one product by one configuration
    cooperative, pingpong, streamk, splitk      the kernels, one for each schedule
    packing             copies of operands that a kernel can't read as they lie
    gathered, realigned products of such operands without a copy
    blockscaled         8-bit floats with a scale for each 128 elements along K
    grouped_matmul      `nvdsl.grouped_matmul` -> `grouped_dispatch` -> `grouped` (rows), `grouped_k` (along K)
    quantized_matmul    `nvdsl.quantized_matmul`: `quantized_weight` packs 4 and 8 bits, `quantized` multiplies
    simple              a thread, or several, for each element: any type, any strides
"""
