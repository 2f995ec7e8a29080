"""Which package provides MLIR, and that its modules are the same objects under both names.

Each case needs an interpreter that has not imported MLIR yet, so each runs in a child process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nvdsl import mlir

ROOT = Path(__file__).resolve().parents[3]

by_default = pytest.mark.skipif(
    mlir.provider != mlir.DEFAULT_PROVIDER, reason=f"about the default provider; this is {mlir.provider}"
)


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("NVDSL_")}
    plain["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", code], env={**plain, **env}, capture_output=True, text=True, timeout=120
    )


def passes(code: str, **env: str) -> None:
    child = python(code, **env)
    assert child.returncode == 0, child.stderr


@by_default
def test_the_default_provider():
    passes("import nvdsl.mlir as m; assert m.provider == m.DEFAULT_PROVIDER == 'numba_cuda_mlir._mlir'")


def test_an_empty_choice_is_no_choice():
    passes("import nvdsl.mlir as m; assert m.provider == m.DEFAULT_PROVIDER", NVDSL_MLIR="")


def test_a_named_provider_is_the_one_that_is_used(tmp_path):
    package = tmp_path / "other_mlir"
    (package / "dialects").mkdir(parents=True)
    for module in ("__init__", "ir", "passmanager", "dialects/__init__", "dialects/gpu"):
        (package / f"{module}.py").write_text("class Location: ...\nclass OpView: ...\n" if module == "ir" else "")
    passes(
        f"import sys, types; sys.path.insert(0, {str(tmp_path)!r})\n"
        "sys.modules['nvdsl'] = bare = types.ModuleType('nvdsl')\n"  # the rest of nvdsl needs a real MLIR
        f"bare.__path__ = [{str(ROOT / 'nvdsl')!r}]\n"
        "import nvdsl.mlir as m, other_mlir.ir, other_mlir.dialects.gpu\n"
        "from nvdsl.mlir.dialects import gpu\n"
        "assert m.provider == 'other_mlir' and m.ir is other_mlir.ir\n"
        "assert gpu is other_mlir.dialects.gpu and 'numba_cuda_mlir' not in sys.modules",
        NVDSL_MLIR="other_mlir",
    )


def test_a_missing_provider_is_an_error_that_says_what_to_install():
    child = python("import nvdsl.mlir", NVDSL_MLIR="no_such_mlir")
    assert child.returncode != 0
    assert "nvdsl.errors.ToolchainError: no MLIR" in child.stderr and "no_such_mlir.ir" in child.stderr
    assert "pip install numba-cuda-mlir" in child.stderr and "pip install 'nvdsl[upstream]'" in child.stderr
    assert "install mlir-python-bindings" not in child.stderr, "PyPI's is an empty placeholder"


@by_default
def test_modules_are_the_providers_own():
    passes(
        "from nvdsl.mlir import ir, passmanager\n"
        "from nvdsl.mlir.dialects import gpu, nvgpu\n"
        "import nvdsl.mlir.extras.types as T\n"
        "from numba_cuda_mlir import _mlir\n"
        "import numba_cuda_mlir._mlir.dialects.nvgpu, numba_cuda_mlir._mlir.extras.types\n"
        "assert ir is _mlir.ir and passmanager is _mlir.passmanager\n"
        "assert nvgpu is _mlir.dialects.nvgpu and T is _mlir.extras.types\n"
        "assert nvgpu.__spec__.name == nvgpu.__name__ == 'numba_cuda_mlir._mlir.dialects.nvgpu'\n"
    )


def test_a_module_that_the_provider_lacks_is_an_import_error():
    child = python("import nvdsl.mlir.dialects.no_such_dialect")
    assert "ModuleNotFoundError" in child.stderr and "no_such_dialect" in child.stderr


def test_no_context_is_entered_by_importing():
    passes(
        "from nvdsl.mlir import ir\n"
        "try:\n"
        "    current = ir.Context.current\n"
        "except ValueError:\n"  # older bindings raise where newer ones return None
        "    current = None\n"
        "assert current is None, 'a context is current'\n"
    )


@by_default
def test_the_providers_own_compiler_is_not_imported():
    passes(
        "import sys, nvdsl.mlir\n"
        "loaded = {name for name in sys.modules if name.startswith('numba_cuda_mlir.')}\n"
        "assert all(name.startswith('numba_cuda_mlir._mlir') for name in loaded), loaded\n"
    )


@by_default
@pytest.mark.parametrize("use", ["n.carray", "n.__version__"])
def test_the_provider_can_be_used_afterwards(use):
    passes(f"from nvdsl.mlir import ir\nimport numba_cuda_mlir as n\nassert {use}\n")


@by_default
def test_the_provider_can_have_been_imported_before():
    passes("import numba_cuda_mlir\nfrom nvdsl.mlir import ir\nassert numba_cuda_mlir._mlir.ir is ir\n")
