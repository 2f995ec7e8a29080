"""The program in docs/tuning.md runs as it stands: here without a GPU, so that it falls back on the defaults."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nvdsl as nv

pytestmark = pytest.mark.usefixtures("quick_python")

ROOT = Path(nv.__file__).parents[1]


def test_the_program_runs(tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tuning.md").read_text(), re.DOTALL)
    path = tmp_path / "example.py"
    path.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NVDSL_TARGET": "sim", "NVDSL_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, env=environment)
    assert run.returncode == 0, run.stderr
    assert "stages=3, tile=(128, 128, 64)   [defaults]" in run.stdout
    assert "TuneWarning: gemm can't be tuned here" in run.stderr
    assert "example.py:" in run.stderr


def test_chapter_10_runs_with_its_defaults(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NVDSL_TARGET": "sim", "NVDSL_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "chapters/ch10_autotuned_gemm.py", "--M", "128", "--N", "256", "--K", "128"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert "[defaults]" in run.stdout and run.stdout.endswith("PASS\n")


def test_chapter_10_prunes_what_cannot_run():
    from chapters.ch10_autotuned_gemm import gemm

    square = nv.ShapeDtype((2048, 2048), nv.f16)
    for _, broken in gemm.space.sift(dict.fromkeys("abd", square)):
        assert broken is None
    small = nv.ShapeDtype((128, 128), nv.f16)
    assert {c["tile"][1] for c, broken in gemm.space.sift(dict.fromkeys("abd", small)) if broken} == {192, 256}
