"""nv.debug.run: a call in a process of its own, in debug mode."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import ArgumentError, WatchdogError, Where

pytestmark = pytest.mark.usefixtures("quick_python")


def double(x, *, by=2):
    x *= by
    return os.environ["NVDSL_DEBUG"], os.environ.get("MORE"), os.getpid()


def hang(x):
    raise WatchdogError("deadlock: w", kind="hang", where=Where("k.py", 3), details=("warp 0 waits",), running=True)


def die(x):
    os.abort()


def test_arrays_are_filled_and_the_result_comes_back():
    x = np.arange(4.0)
    debug, more, process = nv.debug.run(double, x, by=3, env={"MORE": "1"}, timeout=60)
    np.testing.assert_array_equal(x, [0, 3, 6, 9])
    assert (debug, more) == ("1", "1") and process != os.getpid()


def test_a_report_comes_back_whole():
    with pytest.raises(WatchdogError) as caught:
        nv.debug.run(hang, np.zeros(1), timeout=60)
    error = caught.value
    assert (error.kind, error.where, error.running) == ("hang", Where("k.py", 3), True)
    assert str(error) == "k.py:3: deadlock: w\n  warp 0 waits"


def test_a_process_that_dies_is_an_error():
    with pytest.raises(nv.errors.NvdslError, match="SIGABRT"):
        nv.debug.run(die, np.zeros(1), timeout=60)


def test_a_function_that_the_child_can_not_find():
    with pytest.raises(ArgumentError, match="can't be called in another process"):
        nv.debug.run(lambda: None)


def test_a_jit_function_of_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nimport nvdsl as nv\n"
        "@nv.jit\ndef ones(x):\n    @nv.kernel(grid=1, block=32)\n    def kernel():\n"
        "        x[nv.thread_id.x] = 1.0\n    kernel()\n"
        "if __name__ == '__main__':\n    x = np.zeros(32, np.float32)\n"
        "    nv.debug.run(ones, x, timeout=60)\n    print(x.sum())\n"
    )
    root = str(Path(nv.__file__).parents[1])  # nvdsl may not be installed
    environment = {**os.environ, "NVDSL_TARGET": "sim", "PYTHONPATH": root}
    ran = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "32.0\n", ran.stderr
