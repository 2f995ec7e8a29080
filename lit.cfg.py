"""lit's configuration: `lit -v tests/lit tests/compat chapters`, or `make lit`. tests/README.md has the conventions."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lit.formats

# lit executes this file with `config` and `lit_config` defined.
config = globals()["config"]
lit_config = globals()["lit_config"]

root = Path(__file__).resolve().parent

config.name = "nvdsl"
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = str(root)
config.test_exec_root = str(root / "build" / "lit")  # so that no test writes into the tree
config.suffixes = {".py"}
config.excludes = {"__init__.py", "conftest.py", "command_line.py", "heads.py"}

# Settings of the developer's shell must not change what a test sees; the choice of the tools may.
TOOLCHAIN = {"NVDSL_MLIR", "NVDSL_PTXAS"}
for name, value in os.environ.items():
    if name.startswith(("CUDA", "NVIDIA_", "XDG_")) or name in TOOLCHAIN:
        config.environment[name] = value
config.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
config.environment["NVDSL_CACHE"] = "off"  # what a test compiles is compiled now
config.environment["PYTHONUNBUFFERED"] = "1"  # so that `2>&1` keeps the order of the lines


def _interpreter() -> str:
    """A `python` that has imported what the tests need, for `%python` and `FileCheck`: see tests/interpreter.py. It
    ends with this process, which holds the other end of its standard input."""
    folder = tempfile.mkdtemp()
    command = [sys.executable, str(root / "tests/interpreter.py"), folder, "tests.preloaded", "filecheck.main"]
    pipe = subprocess.PIPE
    server = subprocess.Popen(command, env=config.environment, stdin=pipe, stdout=pipe)
    assert server.stdin and server.stdout
    if not server.stdout.readline():
        lit_config.fatal("nvdsl can't be imported")

    def stop() -> None:
        server.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return os.path.join(folder, "python")


def _python_with_deadline(seconds: int) -> str:
    """lit's own time limit needs a package that is not otherwise used; coreutils has one."""
    timeout = shutil.which("timeout")
    return (f"{timeout} -k 10 {seconds} " if timeout else "") + python


python = _interpreter()
config.substitutions.append(("%python", _python_with_deadline(300)))
config.substitutions.append((r"\bFileCheck\b", f"{python} -m filecheck"))


def _why_no_gpu() -> str:
    """The reason why the feature `gpu` is off; empty where it is on. In a child process, because a
    broken driver can end the process that asks."""
    ask = "from nvdsl.testing import missing_hopper; print(missing_hopper() or '')"
    try:
        child = subprocess.run(
            [sys.executable, "-c", ask], env=config.environment, capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired:
        return "the driver did not answer within 120 s"
    if child.returncode > 0:
        lit_config.fatal(f"nvdsl can't be imported:\n{child.stderr}")
    return child.stdout.strip() if child.returncode == 0 else f"asking ended by signal {-child.returncode}"


if "all" in lit_config.params:  # lit -Dall, which `make test-all` says
    config.available_features.add("all")
reason = _why_no_gpu()
if reason:
    lit_config.note(f"no GPU: {reason}")
else:
    config.available_features.add("gpu")
