"""Programs in LLVM's style (tests/compat): each is traced, verified and compiled to a cubin here, without a GPU."""

import importlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nvdsl.ir.walk import constant, find
from nvdsl.mlir import ir
from tests.unit.kernels import smem_bytes


def f16(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@dataclass
class Program:
    """``written``: the arguments whose results come back. ``smem``: bytes of data and of mbarriers."""

    file: str
    function: str
    arguments: tuple[Any, ...]
    written: set[int]
    smem: tuple[int, int]
    threads: int
    constants: dict[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> Any:
        return getattr(importlib.import_module(f"tests.compat.{self.file}"), self.function)

    def compile(self) -> Any:
        return self.main.compile(*self.arguments, **self.constants)


GEMM = (f16(256, 512), f16(512, 256), f32(256, 256))
STAGES = {"num_stages": 4}
PROGRAMS = [
    Program("ch0_hello", "main", (100,), set(), (0, 0), 4),
    Program("ch1_saxpy", "saxpy", (f32(64, 32), f32(64, 32), 2.0), {1}, (0, 0), 32),
    Program("ch2_tma_saxpy", "saxpy", (f32(64, 32), f32(64, 32), 2.0), {1}, (256, 8), 32),
    Program("ch3_wgmma_tile", "gemm_tile", (f16(128, 64), f16(64, 128), f32(128, 128)), {2}, (32768, 8), 128),
    Program("ch4_multistage_gemm", "gemm", GEMM, {2}, (4 * 32768, 32), 128, STAGES),
    Program("ch5_warp_specialized_gemm", "gemm", GEMM, {2}, (4 * 32768, 64), 256, STAGES),
]
CHAPTER = {program.file[:3]: program for program in PROGRAMS}
pytestmark = pytest.mark.filterwarnings("ignore::nvdsl.AdvisoryWarning")  # nvgpu's own wait leaves one group in flight


def test_every_program_of_the_folder_is_here():
    folder = Path(__file__).parent.parent / "compat"
    assert sorted(p.stem for p in folder.glob("*.py") if p.stem != "__init__") == sorted(p.file for p in PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.file)
def test_a_program_becomes_a_cubin(program):
    compiled = program.compile()
    (kernel,) = compiled.kernels.values()
    assert kernel.cubin[:4] == b"\x7fELF"
    data, barriers = program.smem
    assert (kernel.user_smem_bytes, kernel.smem_bytes) == (data, data + barriers)
    assert kernel.max_threads == program.threads
    assert kernel.resources.registers * program.threads <= 65_536
    assert kernel.resources.spill_stores == kernel.resources.spill_loads == kernel.resources.static_smem == 0
    assert compiled.written == program.written
    assert program.compile() is compiled, "compiled once"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.file)
def test_a_programs_ops_have_its_lines(program):
    """Every op of the kernel has the program's line, so that any error can name it."""
    module = program.compile().module
    text = module.operation.get_asm(enable_debug_info=True, use_local_scope=True)
    (launch,) = find(module, "gpu.launch")
    ops = text[text.index("gpu.launch") :]
    assert f"{program.file}.py" in ops
    assert smem_bytes(module) == program.smem[0]
    assert len(list(launch.regions[0].blocks[0].operations)) > 1


@pytest.mark.parametrize("chapter", ["ch2", "ch3", "ch4", "ch5"])
def test_mbarriers_are_synchronized_before_their_first_use(chapter):
    (launch,) = find(CHAPTER[chapter].compile().module, "gpu.launch")
    ops = [op.operation for op in launch.regions[0].blocks[0].operations]
    inits = [i for i, op in enumerate(ops) if find(op, "nvgpu.mbarrier.init")]
    uses = [i for i, op in enumerate(ops) if find(op, "nvgpu.tma.async.load", "nvgpu.mbarrier.try_wait.parity")]
    barriers = [i for i, op in enumerate(ops) if op.name == "gpu.barrier"]
    assert ops[inits[-1] + 1].name == "nvvm.fence.mbarrier.init"
    assert inits[-1] < barriers[0] < uses[0]


@pytest.mark.parametrize("chapter", ["ch3", "ch4", "ch5"])
def test_accumulators_are_stored_behind_a_wait_for_all(chapter):
    module = CHAPTER[chapter].compile().module
    (store,) = find(module, "nvgpu.warpgroup.mma.store")
    block = [op.operation.name for op in store.operation.block.operations]
    position = block.index("nvgpu.warpgroup.mma.store")
    assert "nvvm.wgmma.wait.group.sync.aligned" in block[:position]
    waits = find(module, "nvvm.wgmma.wait.group.sync.aligned")
    assert {ir.IntegerAttr(op.attributes["group"]).value for op in waits} == {0}


def test_each_warpgroup_has_its_own_barriers_and_registers():
    module = CHAPTER["ch5"].compile().module
    branches = [op for op in find(module, "scf.if") if find(op, "nvvm.setmaxregister")]
    registers = [find(op, "nvvm.setmaxregister")[0].attributes["regCount"].value for op in branches]
    assert registers == [40, 232]
    for branch in branches:
        assert not find(branch, "gpu.barrier"), "the other warpgroup never reaches it"
    assert {constant(op.operands[0]) for op in find(branches[1], "nvvm.barrier")} == {1}
    assert {constant(op.operands[1]) for op in find(branches[1], "nvvm.barrier")} == {128}


def test_rings_are_what_the_program_says():
    (kernel,) = CHAPTER["ch5"].compile().kernels.values()
    assert len(re.findall(r"mbarrier\.init", kernel.ptx)) >= 2
    (kernel,) = CHAPTER["ch4"].main.compile(*GEMM, num_stages=2).kernels.values()
    assert kernel.smem_bytes == 2 * 32768 + 16, "another keyword is another kernel"


@pytest.mark.parametrize("chapter", CHAPTER)
def test_imports_are_all_that_is_nvdsls(chapter):
    """The programs name nvdsl in their import lines only: so do LLVM's, once these lines are changed."""
    text = (Path(__file__).parent.parent / "compat" / f"{CHAPTER[chapter].file}.py").read_text()
    code = [line for line in text.splitlines() if not line.startswith(("from ", "import ", "#"))]
    assert not [line for line in code if "nvdsl" in line]
