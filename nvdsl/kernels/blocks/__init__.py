"""What kernels are built of.

    tile_scheduler      which tile of the result comes when; `divisor`: how a kernel divides by what the host knows
    group_tiles         the same where only the device knows how many rows each group has
    dequantize          weights of 4 and 8 bits to registers of 16-bit floats
    tma_operand         A and B: from global memory into a ring of tiles in shared memory
    mainloop            the loop over K: what the producer and the consumers do for one tile
    epilogue            from accumulators to global memory by TMA; `turned_epilogue`: transposed;
                        `direct_epilogue`: without TMA
    epilogue_visitor    what is done with each sum on its way; `elementwise`, `linear_combination`: such operations
    contiguous          copies of what TMA can't read
"""
