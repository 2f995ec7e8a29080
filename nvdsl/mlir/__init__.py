"""The one place that knows which Python package provides MLIR.

``from nvdsl.mlir import ir`` and ``from nvdsl.mlir.dialects import gpu, nvgpu`` give the
provider's own modules under a name that does not change when the provider does.

Provider, by the environment variable ``NVDSL_MLIR``:

* unset: the pinned wheel ``numba-cuda-mlir`` (a complete upstream MLIR with the NVPTX backend);
* ``mlir``: upstream's own bindings, whichever package installs them (``pip install 'nvdsl[upstream]'``);
* any other dotted name: that package, which must hold ``ir``, ``passmanager`` and ``dialects``.

What the modules of another provider lack of the pinned one's interface, ``nvdsl.mlir.adapter`` adds to them.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from pathlib import Path

from nvdsl.errors import ToolchainError, frames

DEFAULT_PROVIDER = "numba_cuda_mlir._mlir"


class _LazyParent(types.ModuleType):
    """Stands for the package ``numba_cuda_mlir``, whose ``__init__`` imports a whole Numba compiler
    (about 0.5 s) of which nvdsl uses nothing. It runs when somebody asks the package for a name."""

    def __getattr__(self, name: str) -> object:
        private = name.startswith("__") and name not in ("__version__", "__all__")
        if private or "_initialized" in self.__dict__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.initialize()
        return getattr(self, name)

    def initialize(self) -> None:
        """Run the package's own ``__init__``, once."""
        if "_initialized" not in self.__dict__:
            self._initialized = True
            self.__dict__["__spec__"].loader.exec_module(self)


def _stand_in_for_parent(parent: str) -> None:
    if parent in sys.modules:  # the user imported it already: nothing to save
        return
    spec = importlib.util.find_spec(parent)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {parent!r}")
    module = _LazyParent(parent)
    module.__spec__ = spec
    module.__file__ = spec.origin
    module.__path__ = list(spec.submodule_search_locations)
    _preload(Path(module.__path__[0]) / "_mlir" / "_mlir_libs")
    sys.modules[parent] = module


def _preload(libraries: Path) -> None:
    """Load MLIR's libraries with RTLD_DEEPBIND, so that another LLVM in the process (torch, triton,
    jax) can't replace their symbols. The provider's own ``__init__`` does the same."""
    deepbind = getattr(os, "RTLD_DEEPBIND", 0)  # missing with musl
    for name in ("libMLIRPythonCAPI.so", "libMLIRPythonSupport-numba_cuda_mlir.so"):
        if (libraries / name).exists():
            ctypes.CDLL(str(libraries / name), mode=os.RTLD_NOW | os.RTLD_LOCAL | deepbind)


def _load_provider() -> str:
    name = os.environ.get("NVDSL_MLIR") or DEFAULT_PROVIDER
    try:
        if name == DEFAULT_PROVIDER:
            _stand_in_for_parent(name.partition(".")[0])
        importlib.import_module(f"{name}.ir")
        importlib.import_module(f"{name}.passmanager")
    except ImportError as error:
        raise ToolchainError(
            f"no MLIR Python bindings: `import {name}.ir` failed ({error})",
            rule="nvdsl builds its kernels with MLIR's Python bindings",
            fix="pip install numba-cuda-mlir==0.6.0 and leave NVDSL_MLIR unset; or pip install 'nvdsl[upstream]' and "
            "set NVDSL_MLIR=mlir (xtc-mlir-python-bindings has that package; mlir-python-bindings on PyPI is empty)",
        ) from error
    return name


_OWN = {f"{__name__}.adapter", f"{__name__}.threads"}
"""Modules that lie here, and are nvdsl's."""


class _Alias:
    """Finds ``nvdsl.mlir.X`` as the provider's ``X``: the same module object, under both names.

    A finder and a loader by its methods; the base classes in importlib.abc would take 10 ms to import."""

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        parent = sys.modules.get(fullname.partition(".")[0])
        if isinstance(parent, _LazyParent) and not f"{fullname}.".startswith(f"{DEFAULT_PROVIDER}."):
            parent.initialize()  # `import numba_cuda_mlir.cuda`: its modules expect a complete package
        if not fullname.startswith(f"{__name__}.") or fullname in _OWN:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        real = importlib.import_module(provider + spec.name.removeprefix(__name__))
        spec.loader_state = real.__spec__
        return real

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        # The import system has just replaced the module's __spec__ by the alias's: put its own back.
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


provider = _load_provider()
sys.meta_path.insert(0, _Alias())  # before the path finder, which would load a second copy

ir = importlib.import_module(f"{provider}.ir")
passmanager = importlib.import_module(f"{provider}.passmanager")
frames.add_internal(provider.partition(".")[0], os.path.dirname(ir.__file__ or ""))
if provider != DEFAULT_PROVIDER:
    importlib.import_module(f"{__name__}.adapter").adapt(provider, ir)
