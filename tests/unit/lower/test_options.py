"""Options from the environment, and dumps."""

from __future__ import annotations

import pytest

from nvdsl.errors import LowerError, ToolchainError
from nvdsl.lower import compiler, toolchain
from nvdsl.lower.options import Options
from tests.unit.lower.modules import LOADS, launch, parse

MODULE = launch(LOADS + "memref.store %fx, %f[%c0] : memref<64xf32>")


def test_defaults():
    assert Options.from_environment() == Options(ptxas=Options.from_environment().ptxas)


def test_everything_comes_from_the_environment(monkeypatch):
    for name, value in {
        "NVDSL_STRICT": "1",
        "NVDSL_LINEINFO": "true",
        "NVDSL_DUMP": "ptx, after:convert-nvgpu-to-nvvm,convert-scf-to-cf",
        "NVDSL_DUMP_DIR": "/somewhere",
        "NVDSL_PTXAS": "/opt/ptxas",
        "NVDSL_PTXAS_FLAGS": "-a  -b=1",
    }.items():
        monkeypatch.setenv(name, value)
    found = Options.from_environment(strict=False)
    assert found == Options(
        strict=False,  # what is passed wins
        lineinfo=True,
        dump=frozenset({"ptx", "after:convert-nvgpu-to-nvvm", "after:convert-scf-to-cf"}),
        dump_dir="/somewhere",
        ptxas="/opt/ptxas",
        ptxas_flags=("-a", "-b=1"),
    )
    assert hash(found)


@pytest.mark.parametrize("value", ["", "0", "off", "False"])
def test_a_flag_that_is_off(monkeypatch, value):
    monkeypatch.setenv("NVDSL_STRICT", value)
    assert not Options.from_environment().strict


@pytest.mark.parametrize("name", ["ptxx", "after:nothing", "before:ptx", "during:convert-scf-to-cf"])
def test_an_unknown_dump_lists_what_there_is(name):
    with pytest.raises(LowerError) as caught:
        Options(dump=frozenset({name}))
    assert repr(name) in caught.value.message
    assert "trace, host, ptx, sass, resources" in caught.value.rule
    assert "convert-nvgpu-to-nvvm" in caught.value.fix


def test_an_optimization_level_that_does_not_exist():
    with pytest.raises(LowerError, match="opt_level=4"):
        Options(opt_level=4)


def dump(capsys, *names: str, **options: object) -> str:
    compiler.lower(parse(MODULE), Options(dump=frozenset(names), **options))  # type: ignore[arg-type]
    return capsys.readouterr().err


def test_before_and_after_a_pass(capsys):
    text = dump(capsys, "before:convert-gpu-to-nvvm", "after:convert-gpu-to-nvvm")
    before, after = text.split("// ----- nvdsl: after:convert-gpu-to-nvvm -----")
    assert "gpu.func" in before and "memref.load" in before and "llvm.func" not in before
    assert "llvm.func" in after and "memref.load" not in after


def test_stages(capsys):
    text = dump(capsys, "trace", "host", "ptx", "resources")
    trace, host, ptx, resources = text.split("// ----- nvdsl: ")[1:]
    assert trace.startswith("trace") and "gpu.launch " in trace
    assert host.startswith("host") and "gpu.launch_func" in host
    assert ptx.startswith("ptx host_kernel") and ".entry host_kernel(" in ptx
    assert "host_kernel::host_kernel: " in resources and "registers" in resources


def test_a_step_that_is_left_out_says_so(capsys):
    assert "left out: no memref.atomic_rmw" in dump(capsys, "after:relax-atomics")


def test_nothing_is_printed_unasked(capsys):
    assert dump(capsys) == ""


def test_files_are_numbered_one_a_stage_and_kernel(capsys, tmp_path):
    assert dump(capsys, "all", dump_dir=str(tmp_path)) == ""
    (folder,) = tmp_path.iterdir()
    assert folder.name.endswith("-host")
    files = sorted(path.name for path in folder.iterdir())
    assert files[0] == "00-trace.mlir"
    assert [int(name[:2]) for name in files] == list(range(len(files)))
    assert any(name.endswith("after-convert-nvgpu-to-nvvm.mlir") for name in files)
    assert any(name.endswith("ptx-host_kernel.ptx") for name in files)
    assert any(name.endswith("resources-host_kernel-host_kernel.txt") for name in files)
    dump(capsys, "ptx", dump_dir=str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2  # another call, another folder


def test_sass_is_an_error_without_a_disassembler_unless_it_is_one_of_all(capsys, monkeypatch):
    def missing():
        raise ToolchainError("nvdisasm was not found")

    monkeypatch.setattr(toolchain, "disassembler", missing)
    with pytest.raises(ToolchainError):
        dump(capsys, "sass")
    assert "nvdsl: resources" in dump(capsys, "all")
