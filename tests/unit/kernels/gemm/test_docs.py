"""The programs of docs/matmul.md run as they stand, one after the other, in the simulator."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nvdsl as nv

ROOT = Path(nv.__file__).parents[1]


@pytest.mark.usefixtures("quick_python")
def test_the_programs_run(tmp_path):
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "matmul.md").read_text(), re.DOTALL)
    path = tmp_path / "example.py"
    path.write_text("\n".join(programs))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NVDSL_TARGET": "sim", "NVDSL_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, env=environment)
    assert run.returncode == 0, run.stderr
    printed = run.stdout.splitlines()
    assert printed[0] == "True (96, 320) float16" and printed[-1] == "True"


def test_importing_nvdsl_imports_no_kernel():
    check = "import sys, nvdsl; assert not any(m.startswith('nvdsl.kernels') for m in sys.modules); nvdsl.matmul"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert run.returncode == 0, run.stderr
