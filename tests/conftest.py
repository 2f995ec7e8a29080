"""Common to all tests: an environment without the developer's settings, and reproducible examples."""

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import browser

collect_ignore = ["lit"]  # those are lit's

# The choice of the tools stays, so that `NVDSL_MLIR=mlir make test` tests another MLIR. What changes
# behaviour (dumps, strictness) goes, before anything imports nvdsl.
for _name in [name for name in os.environ if name.startswith(("NVDSL_", "MLIR_NVDSL_"))]:
    if _name not in ("NVDSL_MLIR", "NVDSL_PTXAS"):
        del os.environ[_name]
os.environ["NVDSL_CACHE"] = "off"  # what a test compiles is compiled now; tests of the cache switch it on
# A process for each core: OpenBLAS's second thread would only wait, and that busily.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    import hypothesis
except ImportError:  # a Hopper machine may have pytest only; tests/gpu needs no more
    pass
else:
    # The same examples in every run: a failure in CI is one that everybody sees. Another search:
    # pytest --hypothesis-profile=explore
    hypothesis.settings.register_profile("nvdsl", deadline=None, derandomize=True, database=None)
    hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
    hypothesis.settings.load_profile("nvdsl")


gc.disable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse names with an address: each worker would have others, and pytest-xdist run nothing. Also of tests that are
    left out by default."""
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(f"{item.nodeid} is named by an address: pass ids to its parametrize")


def pytest_collection_finish() -> None:
    """What was imported and collected stays; looking through it again and again took a tenth of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_report_header() -> str:
    from nvdsl.mlir import provider
    from nvdsl.testing import missing_hopper

    return f"nvdsl: MLIR from {provider}; Hopper GPU: {missing_hopper() or 'yes'}"


@pytest.fixture(scope="session")
def tab():
    """A browser's only tab: see tests/browser.py."""
    if why := browser.missing():
        pytest.skip(why)
    with browser.start() as tab:
        yield tab


@pytest.fixture(scope="session")
def _forked_python():
    program, root = Path(__file__).with_name("interpreter.py"), str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:  # not pytest's: a socket's path has at most 107 characters
        server = subprocess.Popen(
            [sys.executable, program, folder, "tests.preloaded"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert server.stdout.readline() == b"ready\n"
        yield os.path.join(folder, "python")
        server.communicate()


@pytest.fixture
def quick_python(_forked_python, monkeypatch):
    """``sys.executable`` of the test starts at once, with nvdsl imported: see tests/interpreter.py."""
    monkeypatch.setattr(sys, "executable", _forked_python)
