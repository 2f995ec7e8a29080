"""An mbarrier put into a known state, which is then read as a kernel in debug mode reads it."""

import re

import nvdsl as nv
from nvdsl.lower import debug_ptx
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, nvvm
from nvdsl.values.traced import const, wrap

# (what is done to it, in order), (its parity, pending arrivals, pending bytes after that)
STATES = [
    ((("init", 1), ("expect", 4112), ("arrive", 1), ("complete", 4096)), (0, 0, 16)),
    ((("init", 1), ("expect", 1), ("arrive", 1)), (0, 0, 1)),
    ((("init", 1), ("expect", 2048), ("arrive", 1)), (0, 0, 2048)),
    ((("init", 1), ("expect", 2049), ("arrive", 1)), (0, 0, 2049)),
    ((("init", 1), ("expect", 49152), ("arrive", 1)), (0, 0, 49152)),
    ((("init", 1), ("expect", 700000), ("arrive", 1)), (0, 0, 700000)),
    ((("init", 5), ("arrive", 2)), (0, 3, 0)),
    ((("init", 64),), (0, 64, 0)),
    ((("init", (1 << 20) - 1), ("arrive", 2)), (0, (1 << 20) - 3, 0)),
    ((("init", 1000), ("expect", 0x12344), ("arrive", 3)), (0, 997, 0x12344)),
    ((("init", 2), ("complete", 32), ("arrive", 1)), (0, 1, -32)),
    ((("init", 1), ("complete", 4096), ("arrive", 1)), (0, 0, -4096)),
    ((("init", 1), ("arrive", 1)), (1, 1, 0)),
    ((("init", 3), ("arrive", 3), ("arrive", 1), ("expect", 12345)), (1, 2, 12345)),
]


@nv.jit
def read_state(out, *, steps):
    @nv.kernel(grid=1, block=1)
    def kernel():
        barrier = nv.Mbarriers(2)[1]
        i32 = ir.IntegerType.get_signless(32)
        for what, n in steps:
            if what == "init":
                barrier.init(n)
            elif what == "arrive":
                for _ in range(n):
                    barrier.arrive()
            elif what == "expect":
                barrier.expect_tx(n)
            else:
                nvvm.mbarrier_complete_tx(barrier.pointer, const(n, i32))
        out[0] = wrap(_read(llvm.ptrtoint(i32, barrier.pointer)), nv.i64)

    kernel()


def _read(address):
    """The part of debug mode's text behind the claim, by itself."""
    text = debug_ptx.PROBE[debug_ptx.PROBE.index("mbarrier.expect_tx") :].replace("PROBED:", "").replace("$0", "$1")
    registers = ", ".join(sorted(set(re.findall(r"\b(u|parity|upper|before|bit|rest|left|pending|none)\b", text))))
    i64 = ir.IntegerType.get_signless(64)
    return llvm.InlineAsmOp(
        i64,
        [address],
        f"{{ .reg .b32 {registers}; .reg .b64 barrier; .reg .pred ok;\n"
        f"mov.b32 none, 0;\n{text}\nmov.b64 $0, barrier; }}",
        "=&l,r,~{memory}",
        has_side_effects=True,
        asm_dialect=ir.IntegerAttr.get(i64, 0),
    ).results[0]
