"""What the lit tests print: a traced kernel with the line of every op, its PTX, or the error that refuses it."""

import re
import sys
import traceback
from pathlib import Path

import nvdsl as nv

_HERE = Path(sys.argv[0]).name
_PATH = re.compile(rf"\S*/{re.escape(_HERE)}")
_LOCATION = re.compile(r' loc\((?:"[^"]*"\()?"(?P<file>[^"]*)":(?P<line>\d+):.*\)$', re.MULTILINE)


def array(dtype, *shape, strides=None):
    """An argument: an array of ``shape`` elements. ``strides``: in elements, C-contiguous by default."""
    return nv.ShapeDtype(shape, dtype, strides)


def show(*arguments, ptx=False, grid=1, block=128, cluster=1, **constants):
    """Decorates a host function, or the body of a kernel: it is traced for ``arguments`` and printed.

    Each op is printed with its line in the test, ``(line 12)``; one without is not the user's. With ``ptx``
    the kernel is compiled, ptxas included, and its PTX is printed behind the module.
    """

    def decorate(function):
        host = _host(function, grid, block, cluster)
        if not ptx:
            print(_lines(host.trace(*arguments, **constants)))
            return host
        compiled = host.compile(*arguments, **constants)
        print(_lines(compiled.module))
        print(compiled.ptx)
        return host

    return decorate


def refused(*arguments, compile=False, grid=1, block=128, cluster=1, **constants):
    """Like `show`, for what must be an error of nvdsl: prints its type and its text, which names the test by its
    file's name alone. Anything else ends the test. ``compile``: the error comes after tracing."""

    def decorate(function):
        host = _host(function, grid, block, cluster)
        try:
            (host.compile if compile else host.trace)(*arguments, **constants)
        except nv.NvdslError as error:
            print(f"{type(error).__name__}: {_PATH.sub(_HERE, str(error))}")
            return host
        except Exception:
            traceback.print_exc()
            sys.exit("an error, but not one of nvdsl's")
        sys.exit(f"line {function.__code__.co_firstlineno}: not refused")

    return decorate


def _host(function, grid, block, cluster):
    if hasattr(function, "trace"):  # @nv.jit, or NVDSL.mlir_func
        return function

    @nv.jit
    def host(*arrays):
        @nv.kernel(grid=grid, block=block, cluster=cluster)
        def kernel():
            function(*arrays)

        kernel()

    return host


def _lines(module):
    text = module.operation.get_asm(enable_debug_info=True, use_local_scope=True)
    text = text.replace(" loc(unknown)", "")
    return _LOCATION.sub(lambda m: f" (line {m['line']})" if Path(m["file"]).name == _HERE else "", text)
