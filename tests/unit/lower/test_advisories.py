"""What ptxas advises against: known by its words, at the user's line, an error in strict mode."""

from __future__ import annotations

import warnings

import pytest

from nvdsl.errors import AdvisoryWarning, LowerError, Where
from nvdsl.lower import advisories, compiler
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.options import Options
from nvdsl.lower.ptx import Ptx
from tests.unit.lower.modules import LOADS, launch, line_of, parse, wgmma

KERNEL = Kernel(
    "m",
    "gemm",
    where=Where("user.py", 10),
    block=(384, 1, 1),
    cluster=(1, 1, 1),
    user_smem_bytes=0,
    mbarriers=0,
    tensor_maps=(),
    op_names=frozenset(),
    wgmma=Where("user.py", 20),
    setmaxnreg=Where("user.py", 30),
)
PTX = Ptx("m", "one\ntwo\nthree\n", (None, Where("user.py", 2), None))

_LOSS = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to"
_STAGE = "between start and end of the pipeline stage"
_DIVERGENT = "in divergent path"
_GEMM = "in the function 'gemm'"

# (line of ptxas 13.0 or 13.5 or of its messages, words of its meaning, line of the user's source)
MESSAGES = [
    (f"info    : (C7509) {_LOSS} the presence of Extern calls {_GEMM}", "function that ptxas can't see", 20),
    (f"info    : (C7510) {_LOSS} wgmma pipeline crossing function boundary at a function call {_GEMM} in line 2",
     "a function (printf", 2),
    (f"info    : (C7511) {_LOSS} insufficient register resources for the wgmma pipeline {_GEMM} in line 2",
     "registers don't suffice", 2),
    (f"info    : (C7512) {_LOSS} insufficient register resources for the function 'gemm'",
     "registers don't suffice", 20),
    (f"info    : (C7513) {_LOSS} non wgmma instructions defining input registers of a wgmma {_STAGE} {_GEMM} in line 2",
     "reads as A", 2),
    (f"info    : (C7514) {_LOSS} non wgmma instructions reading accumulator registers of  a wgmma {_STAGE} {_GEMM} in "
     "line 2", "is read while", 2),
    (f"info    : (C7515) {_LOSS} non wgmma instructions defining accumulator registers of a wgmma {_STAGE} {_GEMM} in "
     "line 2", "is written while", 2),
    (f"info    : (C7516) {_LOSS} ill formed pipeline stage {_GEMM}", "don't pair up", 20),
    (f"info    : (C7518) {_LOSS} program dependence on compiler-inserted WG.DP {_DIVERGENT} {_GEMM} in line 2",
     "may not be uniform", 2),
    (f"info    : (C7520) {_LOSS} program dependence on compiler-inserted WG.AR {_DIVERGENT} {_GEMM}",
     "may not be uniform", 20),
    (f"info    : (C7519) {_LOSS} program dependence on compiler-inserted WG.AR {_DIVERGENT} {_GEMM} in line 2",
     "may not be uniform", 2),
    ("info    : (C7517) wgmma.wait_group is injected in around line 2 by compiler to allow use of registers defined by "
     "GMMA in function 'gemm'", "ptxas added a wait", 2),
    ("info    : (C7517) warpgroup.wait is injected in around line 2 by compiler to allow use of registers defined by "
     "GMMA in function 'gemm'", "ptxas added a wait", 2),
    ("info    : (C7519) warpgroup.arrive is injected in around line 2 by compiler to allow use of registers in GMMA in "
     "function 'gemm'", "ptxas added a fence", 2),
    ("info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility across compilation "
     "units.", "calls functions", 30),
    ("info    : (C7505) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging.", "opt_level=0", 30),
    ("info    : (C7506) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility into 'extern' call.",
     "calls functions", 30),
    ("info    : (C7507) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements.",
     "needs more registers than it leaves", 30),
    ("info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at "
     "entry.", "does not know the block's size", 30),
    ("warning : Registers are spilled to local memory in function 'gemm', 1024 bytes spill stores, 988 bytes spill "
     "loads", "more registers than a thread has", 10),
    ("warning : Local memory used for function 'gemm', size of stack frame: 512 bytes", "array in local memory", 10),
]  # fmt: skip


@pytest.mark.parametrize(("line", "meaning", "where"), MESSAGES)
def test_each_message_is_explained_at_its_line(line, meaning, where):
    (found,) = advisories.read(f"ptxas info    : 0 bytes gmem\nptxas {line}\n", PTX, [KERNEL])
    assert found.meaning is not None and meaning in found.meaning.text and found.meaning.fix
    assert found.where == Where("user.py", where)
    assert found.kernel == "gemm"
    text = str(found)
    assert line.partition(": ")[2] in text and found.meaning.fix in text


def test_meanings_are_told_apart_by_their_words():
    """The first meaning whose words a message has is taken: no message of another may have them, too."""
    taken = {advisories.read(f"ptxas {m[0]}", PTX, [KERNEL])[0].meaning.words for m in MESSAGES}  # type: ignore[union-attr]
    never_printed = {"Stack size", "multicast::cluster"}
    assert taken | never_printed == {m.words for m in advisories.MEANINGS}


def test_an_unknown_warning_is_passed_on_verbatim():
    (found,) = advisories.read("ptxas warning : something new in function 'gemm'", PTX, [KERNEL])
    assert found.meaning is None and str(found) == "kernel gemm: something new in function 'gemm'"


def test_plain_information_is_no_advisory():
    log = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Overriding global maxrregcount 64 with entry-specific value 168 computed using thread count\n"
        "ptxas info    : Compiling entry function 'gemm' for 'sm_90a'\n"
        "    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 1 barriers\n"
    )
    assert advisories.read(log, PTX, [KERNEL]) == []


def test_repetitions_are_one_advisory():
    line = MESSAGES[11][0]
    other = line.replace("line 2", "line 3")
    assert len(advisories.read(f"ptxas {line}\nptxas {line}\nptxas {other}", PTX, [KERNEL])) == 2


def test_spills_explain_local_memory():
    log = "".join(f"ptxas {line}\n" for line, *_ in MESSAGES[-2:])
    (found,) = advisories.read(log, PTX, [KERNEL])
    assert found.meaning is not None and found.meaning.words == "Registers are spilled"


def lowered(text: str, **options: object) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiler.lower(parse(text), Options(**options))  # type: ignore[arg-type]
    return [w for w in caught if issubclass(w.category, AdvisoryWarning)]


def test_a_correct_wgmma_has_no_advisory():
    assert lowered(launch(wgmma(), block=128)) == []


def test_printf_between_wgmmas_is_found_at_the_printf():
    text = launch(wgmma(after='gpu.printf "here\\0A"\n nvvm.wgmma.wait.group.sync.aligned 0'), block=128)
    (found,) = lowered(text)
    assert "C7510" in str(found.message) and "call it after the wgmma_wait" in str(found.message)
    assert (found.filename, found.lineno) == ("-", line_of(text, "gpu.printf"))


def test_a_missing_wait_is_found():
    text = launch(wgmma(after=""), block=128)
    (found,) = lowered(text)
    assert "ptxas added a wait" in str(found.message)
    lines = range(line_of(text, "nvvm.wgmma.fence"), line_of(text, "memref.store %sum") + 1)
    assert found.lineno in lines


SPILL = {"ptxas_flags": ("-maxrregcount=24", "--override-directive-values")}
SPILLING = launch(
    "\n".join(
        [f"%k{i} = arith.constant {i} : index\n%v{i} = memref.load %f[%k{i}] : memref<64xf32>" for i in range(2, 48)]
        + ["gpu.barrier"]
        + [f"memref.store %v{i}, %f[%k{49 - i}] : memref<64xf32>" for i in range(2, 48)]
    )
)


def test_spills_are_found_at_the_kernel():
    (found,) = lowered(SPILLING, **SPILL)
    assert "more registers than a thread has" in str(found.message) and "bytes spill stores" in str(found.message)
    assert found.lineno == line_of(SPILLING, "gpu.launch")


def test_setmaxnreg_without_a_block_size_is_found_at_its_line():
    text = launch(LOADS + "nvvm.setmaxregister decrease 40\nmemref.store %fx, %f[%c0] : memref<64xf32>", block="%n")
    (found,) = lowered(text)
    assert "setmaxnreg has no effect" in str(found.message)
    assert found.lineno == line_of(text, "nvvm.setmaxregister")


def test_local_memory_is_found_but_not_printfs():
    body = """%s = memref.alloca() : memref<64xf32>
              memref.store %fx, %s[%tid] : memref<64xf32>
              memref.store %fy, %s[%c1] : memref<64xf32>
              %j = arith.index_cast %ix : i32 to index
              %r = memref.load %s[%j] : memref<64xf32>
              memref.store %r, %f[%tid] : memref<64xf32>"""
    (found,) = lowered(launch(LOADS + body))
    assert "local memory" in str(found.message)
    assert lowered(launch(LOADS + 'gpu.printf "%d\\0A", %ix : i32')) == []


def test_strict_mode_is_an_error():
    text = launch(LOADS + "nvvm.setmaxregister decrease 40\nmemref.store %fx, %f[%c0] : memref<64xf32>", block="%n")
    with pytest.raises(LowerError, match="setmaxnreg has no effect") as caught:
        compiler.lower(parse(text), Options(strict=True))
    assert caught.value.where is not None and caught.value.where.line == line_of(text, "nvvm.setmaxregister")
    assert "NVDSL_STRICT" in caught.value.rule
    compiler.lower(parse(launch(wgmma(), block=128)), Options(strict=True))
