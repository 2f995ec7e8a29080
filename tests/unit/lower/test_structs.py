"""Wgmmas that go on with one accumulator are one inline PTX: in their order, each with its own operands."""

from __future__ import annotations

import re

import nvdsl as nv
from nvdsl.lower.structs import TOGETHER
from tests.unit.lower.modules import launch, ptx, wgmma

BLOCK = re.compile(r"begin inline asm(.*?)end inline asm", re.DOTALL)
STRUCT = "!llvm.struct<(f32, f32, f32, f32)>"
APART = launch(wgmma(), block=128)
JOINED = APART.replace("\n      %q", " %q")  # a line of the text is a line of the user's


def products(text: str) -> list[list[str]]:
    """Of each inline PTX, what its wgmmas have behind the accumulator."""
    found = [re.findall(r"wgmma\.mma_async\S+\s*\{[^}]*\},\s*([^;]*);", block) for block in BLOCK.findall(text)]
    return [wgmmas for wgmmas in found if wgmmas]


def test_two_in_a_row_become_one_inline_ptx():
    (one,) = products(ptx(JOINED))
    assert len(one) == 2


def test_what_someone_else_reads_is_no_part_of_it():
    """The first sum is stored, too."""
    early = f"%early = llvm.extractvalue %p[0] : {STRUCT}\n      memref.store %early, %f[%c1] : memref<64xf32>"
    text = JOINED.replace("memref.store %sum", f"{early}\n      memref.store %sum")
    assert [len(one) for one in products(ptx(text))] == [1, 1]


def test_a_commit_between_two_ends_it():
    text = JOINED.replace("%q =", "nvvm.wgmma.commit.group.sync.aligned %q =")
    assert [len(one) for one in products(ptx(text))] == [1, 1]


def test_wgmmas_of_two_lines_stay_apart():
    """So that what ptxas says of one has its line."""
    assert [len(one) for one in products(ptx(APART))] == [1, 1]


def test_descriptors_and_fragments_stay_those_of_their_step():
    """A in registers, scale-d known on the device only, and A in shared memory: the steps in their order."""

    @nv.jit
    def host(out: nv.Array, k: int) -> None:
        @nv.kernel(grid=1, block=128)
        def kernel() -> None:
            A, B = nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 16), nv.f16, swizzle=32)
            acc = nv.accumulator(64, 16)
            acc = acc.mma(nv.fragment(A).operand(), B, scale_d=k > 0)
            acc = acc.mma(A, B, scale_d=k > 1)
            nv.wgmma_wait(0)
            acc.store(out, (0, 0))

        kernel()

    found = products(host.compile(nv.ShapeDtype((64, 16), nv.f32), 1).ptx)
    assert [len(one) for one in found] == [TOGETHER] * 4
    registers, shared = found[0] + found[1], found[2] + found[3]
    assert len(registers) == len(shared) == 4
    of_a, of_b = zip(*(one.split("},") for one in registers), strict=True)
    assert len(set(of_a)) == 4
    assert len({one.split(",")[0] for one in of_b}) == 4
    assert len({one.split(",")[0] for one in shared}) == len({one.split(",")[1] for one in shared}) == 4
