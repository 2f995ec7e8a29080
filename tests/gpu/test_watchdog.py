"""Debug mode on the device: kernels that hang or break a rule are reported, and the process that called goes on."""

import re
import time
from pathlib import Path

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver.mbarrier_word import State, decode
from nvdsl.testing import in_child, run_in_child
from tests.gpu.watchdog_kernels import STATES, read_state
from tests.hanging import MISTAKES

pytestmark = pytest.mark.alone  # kernels that hang take the GPU from others

ROOT = Path(__file__).resolve().parents[2]
MUST = {m.name: m for m in MISTAKES}


@pytest.mark.parametrize("name", MUST)
@in_child(timeout=60)
def test_a_mistake_is_reported_and_the_caller_goes_on(name):
    mistake = MUST[name]
    start = time.monotonic()
    with pytest.raises(nv.errors.WatchdogError) as caught:
        nv.debug.run(mistake.function, *mistake.arguments(), env={"NVDSL_VERIFY": "off"}, timeout=30)
    error, text = caught.value, str(caught.value)
    assert error.kind == mistake.device, text
    assert time.monotonic() - start < 20, text  # alone 2 to 7 s; more with other processes' hanging kernels on the GPU
    assert error.running == (mistake.device == "hang")
    assert f"hanging.py:{mistake.line}" in text
    for pattern in mistake.says:
        assert re.search(pattern, text, re.MULTILINE), pattern
    arguments = mistake.arguments()  # this process can still launch: here without the mistake
    mistake.function(*arguments, right=True, debug=True)
    mistake.function(*arguments, right=True)
    assert not np.isnan(arguments[-1]).any()


def test_a_process_with_a_hung_kernel_can_end():
    """Without nv.debug.run: the first call reports, the next one refuses, and the process ends as any other."""
    run_in_child("tests.gpu.test_watchdog:hang_twice", timeout=40, env={"NVDSL_VERIFY": "off"})


def hang_twice():
    hang = MUST["part_of_the_block"]
    with pytest.raises(nv.errors.WatchdogError, match="hang: kernel kernel has not ended"):
        hang.function(*hang.arguments(), debug=True)
    with pytest.raises(nv.errors.WatchdogError, match="still hangs"):
        hang.function(*hang.arguments(), debug=True)


@in_child(timeout=120)
def test_an_mbarriers_state_is_read_exactly():
    for steps, state in STATES:
        out = np.zeros(1, np.int64)
        read_state(out, steps=steps)
        assert decode(int(out[0]) & (1 << 64) - 1) == State(*state), steps


FOLDERS = ("chapters", "tests/compat")
PROGRAMS = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).glob("ch*.py")]


@pytest.mark.parametrize("path", sorted(PROGRAMS))
def test_chapters_run_right_in_debug_mode(path):
    others = {"chapters/ch0_hello.py": "Hello from", "tests/compat/ch0_hello.py": "GPU thread 3 has 103"}
    assert others.get(path, "PASS") in run_in_child(str(ROOT / path), timeout=90, env={"NVDSL_DEBUG": "1"}).stdout
