"""ptxas: finding it, running it, reading what it says."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nvdsl.errors import LowerError, ToolchainError, Where
from nvdsl.lower import compiler, ptxas, toolchain
from nvdsl.lower.options import Options
from nvdsl.lower.ptx import Ptx
from nvdsl.lower.result import KernelBinary, Resources
from tests.unit.lower.modules import LOADS, launch, parse

STORE = "memref.store %fx, %f[%c0] : memref<64xf32>"
OPTIONS = Options(ptxas=os.environ.get("NVDSL_PTXAS"))

# As ptxas 13.5 and 13.0 print them.
LOG = """\
ptxas info    : 3 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
    512 bytes stack frame, 1024 bytes spill stores, 988 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 8 bytes cumulative stack size, 4096 bytes smem
ptxas info    : Compile time = 208.016 ms
ptxas info    : Compiling entry function 'copy' for 'sm_90a'
ptxas info    : Function properties for copy
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 576 bytes cmem[0]
"""


def test_resources_of_each_kernel():
    assert ptxas.read_resources(LOG) == {
        "gemm": Resources(168, 512, 1024, 988, static_smem=4096, barriers=3),
        "copy": Resources(8, constant=576),
    }


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def bare_machine(monkeypatch, tmp_path):
    """Neither wheels nor a toolkit, nor anything on PATH."""
    monkeypatch.setattr(toolchain, "_wheel_roots", lambda: ())
    monkeypatch.setattr(toolchain, "_system_roots", lambda: ())
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("NVDSL_PTXAS", "NVDSL_NVDISASM"):
        monkeypatch.delenv(name, raising=False)


def test_a_missing_ptxas_says_what_to_install(bare_machine):
    with pytest.raises(ToolchainError, match="ptxas was not found") as caught:
        compiler.lower(parse(launch(LOADS + STORE)), Options())
    assert "pip install nvidia-cuda-nvcc" in caught.value.fix and "NVDSL_PTXAS" in caught.value.fix


def test_a_module_without_kernels_needs_no_ptxas(bare_machine):
    lowered = compiler.lower(parse("module { func.func @nothing() { return } }"), Options())
    assert lowered.kernels == {} and "@nothing" in str(lowered.host)


def test_path_is_searched_last(bare_machine, tmp_path, monkeypatch):
    on_path = program(tmp_path, "ptxas", "exit 0")
    assert toolchain.ptxas() == Path(on_path)
    wheel = tmp_path / "cu13"
    (wheel / "bin").mkdir(parents=True)
    in_wheel = program(wheel / "bin", "ptxas", "exit 0")
    monkeypatch.setattr(toolchain, "_wheel_roots", lambda: (wheel,))
    assert toolchain.ptxas() == Path(in_wheel)
    assert toolchain.ptxas(on_path) == Path(on_path)


def test_a_named_ptxas_that_is_none(tmp_path):
    with pytest.raises(ToolchainError, match="NVDSL_PTXAS names"):
        toolchain.ptxas(str(tmp_path / "nothing"))


def test_a_ptxas_of_another_machine(tmp_path):
    broken = tmp_path / "ptxas"
    broken.write_bytes(b"\x7fELF but not really")
    broken.chmod(0o755)
    with pytest.raises(ToolchainError, match="can't be run"):
        compiler.lower(parse(launch(LOADS + STORE)), Options(ptxas=str(broken)))


def test_a_ptxas_that_is_too_old(tmp_path):
    old = program(tmp_path, "old", "echo \"ptxas x.ptx, line 5; fatal   : Unsupported .version 8.6; current version "
                  "is '8.0'\" >&2; exit 1")  # fmt: skip
    with pytest.raises(ToolchainError, match="too old.*current version is '8.0'"):
        compiler.lower(parse(launch(LOADS + STORE)), Options(ptxas=old))


def test_a_ptxas_that_writes_nothing(tmp_path):
    true = program(tmp_path, "true", "exit 0")
    with pytest.raises(ToolchainError, match="true ended well and wrote no cubin") as caught:
        compiler.lower(parse(launch(LOADS + STORE)), Options(ptxas=true))
    assert "NVDSL_PTXAS" in caught.value.fix


def test_a_ptxas_that_is_killed(tmp_path):
    killed = program(tmp_path, "killed", "kill -KILL $$")
    with pytest.raises(ToolchainError, match="ptxas was ended by SIGKILL while it assembled host_kernel") as caught:
        compiler.lower(parse(launch(LOADS + STORE)), Options(ptxas=killed))
    assert "memory" in caught.value.rule


def test_a_ptxas_that_says_nothing(tmp_path):
    silent = program(tmp_path, "silent", "exit 1")
    with pytest.raises(LowerError, match="ptxas refused the kernel: it says nothing"):
        compiler.lower(parse(launch(LOADS + STORE)), Options(ptxas=silent))


def test_another_ptxas_and_more_flags_are_used(tmp_path):
    real = toolchain.ptxas(OPTIONS.ptxas)
    other = program(tmp_path, "mine", f'echo "$@" > {tmp_path}/arguments; exec {real} "$@"')
    kernels = compiler.lower(
        parse(launch(LOADS + STORE)),
        Options(ptxas=other, ptxas_flags=("-regUsageLevel", "3"), lineinfo=True, opt_level=2),
    ).kernels
    arguments = (tmp_path / "arguments").read_text()
    assert kernels["host_kernel::host_kernel"].cubin
    for part in ("-arch=sm_90a", "-O2", "-regUsageLevel 3", "-lineinfo", "-v"):
        assert part in arguments


BAD = Ptx(
    "broken",
    ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n\tnonsense;\n\tret;\n}\n",
    (None, None, None, None, None, Where("user.py", 42), None, None),
)


def test_what_ptxas_refuses_is_an_error_with_both_lines():
    with pytest.raises(LowerError) as caught:
        ptxas.assemble([BAD], OPTIONS)
    assert caught.value.where == Where("user.py", 42)
    assert ">     6 \tnonsense;" in caught.value.message and "error" in caught.value.message
    assert "/tmp" not in caught.value.message


def test_inline_ptx_that_ptxas_refuses_names_the_users_line():
    from tests.unit.lower.modules import line_of

    text = launch("""%r = llvm.inline_asm has_side_effects asm_dialect = att "mov.u32 $0, 1;\\0A nonsense;", "=r"
                       : () -> i32
                     memref.store %r, %i[%tid] : memref<64xi32>""")
    with pytest.raises(LowerError, match="nonsense") as caught:
        compiler.lower(parse(text))
    assert caught.value.where is not None and caught.value.where.line == line_of(text, "llvm.inline_asm")


KERNEL = KernelBinary("a", "m::a", "", b"", 0, 0, 32, None, (1, 1, 1), Resources(), None)


def test_sass_without_a_disassembler_says_what_to_install(bare_machine):
    with pytest.raises(ToolchainError, match="nvdisasm was not found") as caught:
        KERNEL.sass()
    assert "pip install nvidia-cuda-nvdisasm" in caught.value.fix


def test_sass_is_the_kernels_own(tmp_path, monkeypatch):
    line = "//---------------------"
    text = f"{line} .text.b  ---\nNOP ;\n{line} .text.a  ---\nEXIT ;\n{line} .text.c ---\nBRA ;"
    monkeypatch.setenv("NVDSL_NVDISASM", program(tmp_path, "nvdisasm", f"printf '%s' '{text}'"))
    assert KERNEL.sass() == "// m::a\nEXIT ;\n"


def test_cuobjdump_is_taken_where_there_is_no_nvdisasm(bare_machine, tmp_path):
    program(tmp_path, "cuobjdump", 'echo "$1 $2 $3"')
    assert KERNEL.sass().startswith("// m::a\n-sass -fun a")


def test_a_disassembler_that_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_NVDISASM", program(tmp_path, "nvdisasm", "echo too new >&2; exit 1"))
    with pytest.raises(ToolchainError, match="failed: too new"):
        KERNEL.sass()


def test_version(tmp_path):
    fake = program(tmp_path, "ptxas", "echo 'Cuda compilation tools, release 13.5, V13.5.37'")
    assert ptxas.version(fake) == "13.5.37"
    assert ptxas.version().split(".")[0].isdigit()


def test_libdevice_is_needed_only_where_it_is_called(bare_machine):
    from tests.unit.lower.modules import ptx

    assert "ret;" in ptx(launch(LOADS + STORE))
    with pytest.raises(ToolchainError, match="libdevice.10.bc was not found"):
        ptx(launch(LOADS + "%r = math.exp %fx : f32\n memref.store %r, %f[%tid] : memref<64xf32>"))
