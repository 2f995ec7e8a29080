"""nvdsl show: the kernels that a script compiles."""

from pathlib import Path

import pytest

import nvdsl_command
from nvdsl.errors import ToolchainError
from nvdsl.lower import passes, toolchain
from tests.unit.command.programs import GOOD

TWO = (
    GOOD.partition("print(")[0]
    + """
@nv.jit
def clear(x):
    @nv.kernel(grid=1, block=64)
    def kernel():
        if nv.thread_id.x < 32:
            x[nv.thread_id.x] = 0.0
    kernel()

x = np.ones(32, np.float32)
double(x)
clear(x)
"""
)


@pytest.fixture
def shown(tmp_path, capsys, monkeypatch):
    """Exit code, output and messages of a show of a script."""

    def run(text, *arguments):
        monkeypatch.chdir(tmp_path)
        Path("program.py").write_text(text)
        code = nvdsl_command.main(["show", "program.py", *arguments])
        return code, *capsys.readouterr()

    return run


def test_resources_of_each_kernel(shown):
    code, out, err = shown(TWO)
    assert (code, err) == (0, "")
    head, double, clear = out.splitlines()
    assert head.split()[:3] == ["kernel", "threads", "registers"]
    assert double.split()[:2] == ["double", "32"] and clear.split()[:2] == ["clear", "64"]
    assert double.split()[-2:] == ["32", "blocks"]  # that fit on an SM, and what limits them


def test_the_scripts_output_and_its_failed_assert_are_no_obstacle(shown):
    code, out, err = shown(GOOD, "resources", "--", "a", "b")
    assert code == 0
    assert "arguments" not in out and "double" in out
    assert "kernels are only compiled here" in err and "assert x.sum() == 64" in err


def test_mlir_ptx_and_one_kernel_of_two(shown):
    _, mlir, _ = shown(TWO, "mlir", "--kernel", "clear")
    assert "func.func @clear" in mlir and "gpu.launch" in mlir and "@double" not in mlir
    _, ptx, _ = shown(TWO, "ptx")
    assert ptx.count(".visible .entry kernel(") == 2 and "sm_90a" in ptx


def test_mlir_around_a_step(shown):
    _, before, _ = shown(TWO, "mlir", "--before", "convert-scf-to-cf", "--kernel", "clear")
    _, after, _ = shown(TWO, "mlir", "--after", "convert-scf-to-cf", "--kernel", "clear")
    assert "scf.if" in before and "cf.cond_br" not in before
    assert "scf.if" not in after and "cf.cond_br" in after
    assert before.startswith("// ----- clear -----") and "double" not in before


def test_passes_say_which_ones_run(shown):
    _, out, _ = shown(TWO, "passes")
    lines = {line.split()[1]: line.split()[0] for line in out.splitlines()}
    assert lines["gpu-kernel-outlining"] == "runs"
    assert lines["place-mbarriers"] == "-"
    assert list(lines) == list(passes.NAMES)


def test_sass_needs_a_disassembler(shown, monkeypatch):
    def missing():
        raise ToolchainError("nvdisasm was not found", fix="pip install nvidia-cuda-nvdisasm")

    monkeypatch.setattr(toolchain, "disassembler", missing)
    code, out, err = shown(TWO, "sass")
    assert (code, out) == (2, "")
    assert err == "nvdsl: nvdisasm was not found: pip install nvidia-cuda-nvdisasm\n"


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("print('hello')", [], "compiled no kernel: it ended without calling an nv.jit function"),
        ("raise KeyError('k')", [], "it ended with program.py:1: KeyError: 'k'"),
        (TWO, ["--kernel", "triple"], "there is no kernel 'triple'; the script has double (kernel), clear (kernel)"),
    ],
)
def test_refused(shown, text, arguments, message):
    code, out, err = shown(text, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("nvdsl: ") and err.count("\n") == 1 and message in err


SCHEDULED = """
import numpy as np
from nvdsl import schedule as sc

gemm = sc.compile(sc.matmul(32, 32, 64), sc.wmma_steps((32, 32, 32), (32, 32)))
gemm(np.ones((32, 64), np.float16), np.ones((64, 32), np.float16), np.zeros((32, 32), np.float32))
"""


def test_steps_of_a_schedule(shown):
    code, text, _ = shown(SCHEDULED, "steps")
    assert code == 0
    titles = [line for line in text.splitlines() if line.startswith("// -----")]
    assert titles[0] == "// ----- matmul: payload -----" and titles[-1] == "// ----- matmul: finish() -----"
    assert len(titles) == 17 and "// Makes a gpu.launch of the loops over blocks" in text
    code, text, _ = shown(SCHEDULED, "steps", "--after", "launch", "--side-by-side", "100")
    assert code == 0 and "scf.forall" in text and "gpu.launch" in text
    (gone,) = [line for line in text.splitlines() if "scf.forall" in line and "block" in line]
    assert gone.index("scf.forall") < 50 and all(len(line) <= 100 for line in text.splitlines()[2:])
    code, text, _ = shown(SCHEDULED, "steps", "--after", "pad")
    assert code == 0 and text.count("-----") == 2
    assert text.startswith("// ----- matmul: pad(8) -----\n// Makes the rows")
    code, _, why = shown(SCHEDULED, "steps", "--after", "nothing")
    assert code != 0 and "no step 'nothing'" in why and "tile_blocks(32, 32, 32)" in why
    code, _, why = shown(TWO, "steps")
    assert code != 0 and "no schedule made these kernels" in why
