"""PTX: the directives that Hopper's features need, and the user's lines in it."""

from __future__ import annotations

import re

from nvdsl.errors import Where
from nvdsl.lower import ptx as ptx_text
from tests.unit.lower.modules import LOADS, MAKE_TENSOR_MAP, TMA, launch, line_of, ptx, ptx_modules

STORE = "memref.store %fx, %f[%c0] : memref<64xf32>"


def test_target_and_version():
    text = ptx(launch(LOADS + STORE))
    assert ".target sm_90a" in text and ".version 8.6" in text


def test_dynamic_shared_memory_is_external_and_aligned_for_every_swizzle():
    text = ptx(launch(TMA, smem=8192, host=MAKE_TENSOR_MAP))
    assert ".extern .shared .align 1024 .b8 __dynamic_shmem__0[];" in text
    assert len(re.findall(r"^\s*(?:\.extern )?\.shared", text, re.MULTILINE)) == 1


def test_a_tensor_map_is_passed_by_value():
    text = ptx(launch(TMA, smem=8192, host=MAKE_TENSOR_MAP))
    assert re.search(r"\.param \.align 64 \.b8 host_kernel_param_\d\[128\]", text)
    assert "cp.async.bulk.tensor.2d.shared::cluster.global" in text
    assert "local" not in text  # not copied to the stack


def test_the_block_is_exact():
    text = ptx(launch(LOADS + STORE, block=96))
    assert ".reqntid 96, 1, 1" in text and ".minnctapersm 1" in text and ".maxntid" not in text


def test_a_cluster_is_part_of_the_kernel():
    assert ".reqnctapercluster 4, 1, 1" in ptx(launch(LOADS + STORE, cluster=4))
    assert "cluster" not in ptx(launch(LOADS + STORE))


def test_unused_ids_are_not_read():
    text = ptx(launch(LOADS + STORE), opt_level=0)
    assert "%tid.x" in text
    assert not any(register in text for register in ("%tid.y", "%ctaid", "%nctaid", "%ntid"))


def test_comments_name_the_users_lines():
    source = launch("""
      %x = memref.load %f[%tid] : memref<64xf32>
      %y = arith.mulf %x, %x : f32 loc("dir/user.py":7:3)
      memref.store %y, %f[%c1] : memref<64xf32> loc(callsite("help.py":3:1 at "user.py":9:1))""")
    (code,) = ptx_modules(source)
    lines = code.text.splitlines()
    multiply = next(i for i, line in enumerate(lines, 1) if "mul.rn.f32" in line)
    assert lines[multiply - 2] == "\t// user.py:7"
    assert code.where(multiply) == Where("dir/user.py", 7)
    store = next(i for i, line in enumerate(lines, 1) if "st.global" in line)
    assert code.where(store) == Where("help.py", 3)
    load = next(i for i, line in enumerate(lines, 1) if "ld.global" in line)
    assert code.where(load) == Where("-", line_of(source, "memref.load %f[%tid]"))
    assert ".loc" not in code.text and ".file" not in code.text and "$L__tmp" not in code.text
    assert code.where(0) is None and code.where(10**6) is None


def test_lineinfo_keeps_the_directives():
    text = ptx(launch(LOADS + STORE), lineinfo=True)
    assert re.search(r"^\t\.loc\t\d+ \d+ \d+", text, re.MULTILINE) and '.file\t1 "-"' in text


BACKEND = """\
.visible .entry k()
{
\t.loc\t1 10 1
$L__tmp0:
\tadd.s32 \t%r1, %r1, 1;
\t.loc\t1 12 1
\t// begin inline asm
\t{
\t.loc\t1 13 1
\tmbarrier.try_wait;
\t.loc\t1 14 1
\t}
\t// end inline asm
\tsub.s32 \t%r1, %r1, 1;
\t.loc\t2 5 1
\tret;
}
\t.file\t1 "a.py"
\t.file\t2 "/x/b.py"
\t.section\t.debug_str
\t{
.b8 1
\t}
"""


def test_lines_of_inline_ptx_are_the_ops_own():
    """The backend counts on within the text of an inline asm: its second line would be the user's next line."""
    code = ptx_text.annotate("m", BACKEND, lineinfo=False)
    lines = code.text.splitlines()
    assert lines == [
        ".visible .entry k()",
        "{",
        "\t// a.py:10",
        "\tadd.s32 \t%r1, %r1, 1;",
        "\t// a.py:12",
        "\t// begin inline asm",
        "\t{",
        "\tmbarrier.try_wait;",
        "\t}",
        "\t// end inline asm",
        "\tsub.s32 \t%r1, %r1, 1;",
        "\t// b.py:5",
        "\tret;",
        "}",
    ]
    assert code.where(8) == Where("a.py", 12) and code.where(13) == Where("/x/b.py", 5)


def test_around_shows_the_line():
    code = ptx_text.annotate("m", BACKEND, lineinfo=False)
    assert code.around(4).splitlines()[2] == ">     4 \tadd.s32 \t%r1, %r1, 1;"
    assert len(code.around(1).splitlines()) == 3
