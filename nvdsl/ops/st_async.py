"""st.async: a store to the shared memory of another block of the cluster, of which an mbarrier there is told.

PTX ISA, ``st.async``. The dialects have no op for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.pointer import SHARED_CLUSTER, pointer_type
from nvdsl.values.traced import Value
from nvdsl.values.typing import Pointer

BYTES = "nvdsl.bytes"
"""The attribute that says how many bytes one thread stores."""


def st_async(pointer: Pointer, words: Sequence[Value], barrier: Pointer) -> None:
    """Store 1, 2 or 4 words of 32 bits, or 1 or 2 of 64 bits, at ``pointer`` and complete their bytes on ``barrier``
    (``st.async.weak.shared::cluster.mbarrier::complete_tx::bytes``).

    Both are addresses in the shared memory of one block of the cluster (`mapa`), the first aligned to the store's
    bytes. The thread goes on at once. Who waits for the barrier's phase in that block sees the words; ``expect_tx``
    there has announced their bytes. Raises TraceError for other sizes.
    """
    types = {str(word.type) for word in words}
    bits = {"i32": 32, "i64": 64}.get(next(iter(types)) if len(types) == 1 else "", 0)
    size = bits // 8 * len(words)
    if pointer.type != pointer_type(SHARED_CLUSTER) or barrier.type != pointer_type(SHARED_CLUSTER):
        raise trace_error(
            f"st_async to {pointer.type}, with an mbarrier at {barrier.type}",
            rule="both lie in the shared memory of a block of the cluster (PTX ISA, st.async)",
            fix="nv.mapa(tile.pointer(byte), rank), nv.mapa(barrier.pointer, rank); or tile.at(rank).store_async(...)",
        )
    if size not in (4, 8, 16) or len(words) not in (1, 2, 4):
        raise trace_error(
            f"st_async of {len(words)} words of {'/'.join(sorted(types)) or 'nothing'}",
            rule="it stores 1, 2 or 4 words of 32 bits, or 1 or 2 of 64 bits (PTX ISA, st.async)",
            fix="bitcast the elements to i32, or store fewer at a time",
        )
    form = f".v{len(words)}.b{bits}" if len(words) > 1 else f".b{bits}"
    places = ", ".join(f"${i + 1}" for i in range(len(words)))
    given = f"{{{places}}}" if len(words) > 1 else places
    text = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{form} [$0], {given}, [${len(words) + 1}];"
    op = llvm.InlineAsmOp(
        None,
        [pointer, *words, barrier],
        text,
        ",".join(["l", *(["r" if bits == 32 else "l"] * len(words)), "l", "~{memory}"]),
        has_side_effects=True,
        asm_dialect=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
    )
    op.operation.attributes["nvdsl.ptx"] = ir.StringAttr.get("st_async")
    op.operation.attributes[BYTES] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), size)
