"""Lowering: a traced module becomes a host body and a cubin for each kernel.

    traced module -> passes.HOST -> host body
                                 -> passes.DEVICE -> LLVM's NVPTX backend -> ptxas -> cubin

`compiler.lower` does it. `passes` lists the passes, in order, as data; `options.Options` says what can be asked for,
dumps included.
"""
