"""The command: what it takes, what it refuses, how quickly it starts."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

import nvdsl_command
from nvdsl.sim import options
from nvdsl_command import arguments
from tests.unit.command.programs import GOOD

pytestmark = pytest.mark.usefixtures("quick_python")
PYTHON = sys.executable  # a real one

ROOT = Path(__file__).parents[3]


def nvdsl(*arguments, **more):
    command = [sys.executable, "-m", "nvdsl", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, **more)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(GOOD)
    return path


def test_choices_are_the_simulators():
    assert arguments.DELIVERIES == options.DELIVERIES
    assert arguments.ORDERS == options.ORDERS
    assert arguments.LEVELS == options.LEVELS


def test_help_imports_no_package():
    """It is quick because neither nvdsl (MLIR, NumPy) nor rich is imported."""
    code = (
        "import sys, nvdsl_command\n"
        "try: nvdsl_command.main(['--help'])\n"
        "except SystemExit: print(sorted({'nvdsl', 'numpy', 'rich'} & sys.modules.keys()))"
    )
    begun = time.perf_counter()
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert time.perf_counter() - begun < 5  # 0.07 s on an idle machine
    assert done.stdout.endswith("[]\n")
    assert all(name in done.stdout for name in ("run", "check", "show", "draw"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run missing.py", "there is no file missing.py"),
        ("check missing.py", "there is no file missing.py"),
        ("show missing.py", "there is no file missing.py"),
        ("draw swizzle --shape 8", "two numbers with an x between"),
        ("draw swizzle --shape 8x60", "narrower than the 128-byte swizzle"),
        ("draw swizzle --shape 0x64", "a picture holds"),
        ("draw swizzle --shape 1024x64", "a picture holds"),
        ("draw swizzle --swizzle 48", "swizzle is one of"),
        ("draw swizzle --swizzle 0 --shape 8x60 --dtype e4m3", "no multiple of 16"),
        ("draw swizzle --out nowhere/x.svg", "there is no folder nowhere"),
        ("draw swizzle --text --out x.svg", "give one of them"),
        ("draw swizzle --out x.png", "x.png can't be written: what is drawn is an SVG (.svg) or a page (.html)"),
        ("draw fragment --out x.html", "what is drawn is an SVG (.svg)"),
        ("draw phases --out x.html chapters/ch5_warp_specialized_gemm.py", "what is drawn is an SVG (.svg)"),
        ("run --picture x.png chapters/ch0_hello.py", "an SVG (.svg) or a page (.html)"),
        ("draw fragment --n 7", "multiples of 8"),
        ("draw fragment --n 264", "multiples of 8"),
        ("draw fragment --dtype e4m3", "an accumulator is f32, f16 or i32"),
        ("draw fragment --operand a --dtype f32", "A has no f32 elements"),
        ("draw phases missing.py", "there is no file missing.py"),
        ("draw phases chapters/ch0_hello.py", "nothing arrived on an mbarrier"),
        ("draw cluster chapters/ch0_hello.py", "no load went to several blocks"),
        ("run --trace nowhere/x.json chapters/ch0_hello.py", "there is no folder nowhere"),
        ("show chapters/ch0_hello.py mlir --after nothing", "there is no step 'nothing'"),
        ("show chapters/ch0_hello.py ptx --after convert-scf-to-cf", "--after goes with mlir"),
    ],
)
def test_refused(arguments, message, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NVDSL_TARGET", "sim")  # `draw phases` sets it, for good
    assert nvdsl_command.main(arguments.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.startswith("nvdsl: ") and shown.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [
    "", "nothing", "run", "run --seed -1 x.py", "check x.py --schedules 0", "check x.py --jobs two",
    "check x.py --timeout nan", "draw",
])  # fmt: skip
def test_refused_by_the_parser(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        nvdsl_command.main(arguments.split())
    assert end.value.code == 2
    assert "error: " in capsys.readouterr().err


# --- run


def test_run_hands_on_arguments_output_and_code(script):
    done = nvdsl("run", "--delivery", "eager", script, "--trace", "x", "--", "y")
    assert done.returncode == 0
    assert done.stdout == "arguments ['--trace', 'x', '--', 'y']\nsum 64.0\n"
    script.write_text("import sys; sys.exit(7)")
    assert nvdsl("run", script).returncode == 7


def test_run_sets_the_schedule(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("from nvdsl import sim; print(sim.wanted(), sim.Options.from_environment())")
    done = nvdsl("run", "--delivery", "random", "--order", "reverse", "--seed", 5, "--level", "nvvm", path)
    assert done.stdout.startswith("True Options(delivery='random', order='reverse', seed=5, checks=True, level='nvvm'")


def test_run_writes_trace_and_picture(tmp_path):
    trace, picture = tmp_path / "t.json", tmp_path / "p.svg"
    done = nvdsl("run", "--trace", trace, "--picture", picture, ROOT / "chapters/ch2_tma_saxpy.py")
    assert done.returncode == 0, done.stderr
    assert '"traceEvents"' in trace.read_text()
    assert "loaded" in picture.read_text()


# --- draw


def test_draw_writes_to_a_file_or_to_standard_output(tmp_path):
    path = tmp_path / "tile.svg"
    assert nvdsl("draw", "swizzle", "--out", path).stdout == ""
    assert path.read_text() == nvdsl("draw", "swizzle").stdout
    assert path.read_text().startswith("<svg ")


def test_draw_runs_a_script_with_its_arguments(tmp_path):
    path = tmp_path / "phases.svg"
    words = ("--M", 128, "--N", 128, "--K", 128, "--stages", 2)
    done = nvdsl("draw", "phases", "chapters/ch4_multistage_gemm.py", "--out", path, "--", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert ">full[1]<" in path.read_text() and ">full[2]<" not in path.read_text()


def test_draw_as_text_has_no_colours_where_nobody_sees_them():
    done = nvdsl("draw", "fragment", "--n", 8, "--text")
    assert done.returncode == 0
    assert "T31 d3" in done.stdout and "\x1b" not in done.stdout


def test_the_version_names_what_compiles():
    shown = nvdsl("--version")
    assert shown.returncode == 0
    packages = [line.split()[0] for line in shown.stdout.splitlines()]
    assert packages[:3] == ["nvdsl", "numba-cuda-mlir", "nvidia-cuda-nvcc"]
    assert "not installed" not in shown.stdout


def test_the_version_imports_no_package():
    code = (
        "import sys, nvdsl_command\n"
        "try: nvdsl_command.main(['--version'])\n"
        "except SystemExit: print(sorted({'nvdsl', 'numpy', 'rich'} & sys.modules.keys()))"
    )
    shown = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert shown.stdout.splitlines()[-1] == "[]"
