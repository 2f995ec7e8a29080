"""The command line of a chapter: an option for each parameter of its ``main``, with the value that it has there.

    python chapters/ch4_multistage_gemm.py --help
    python chapters/ch4_multistage_gemm.py --K 2048 --stages 4 --tile 128x64x64
"""

import argparse
import inspect
import os
import sys

import nvdsl as nv

MEANING = {
    "M": "rows of the result", "N": "columns of the result", "K": "products in each sum", "n": "elements",
    "tile": "sizes of a block's tile", "stages": "slots of the ring", "threads": "threads of a block",
    "blocks": "blocks of the grid", "consumers": "warpgroups that multiply", "group": "rows of tiles in a group",
    "cluster": "blocks of a cluster", "lanes": "threads of a row", "budget": "seconds for the tuning",
    "warp": "sizes of a warp's tile", "bins": "values that are counted, at most 256",
    "swizzle": "bytes of the tile's swizzle", "rows": "rows of a block's tile", "layers": "layers in a row",
    "width": "inputs and outputs of a layer", "steps": "of the sequence", "units": "hidden units of a block",
    "heads": "heads of Q, K and V",
}  # fmt: skip


def run(main):
    """Call ``main`` with what the command line says. An error of nvdsl ends the program with its report alone."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.splitlines()[0])
    for name, parameter in inspect.signature(main).parameters.items():
        value = parameter.default
        shown = "x".join(map(str, value)) if isinstance(value, tuple) else value
        parser.add_argument(f"--{name}", type=_reader(value), default=value, metavar=str(shown),
                            help=f"{MEANING[name]} (default: {shown})")  # fmt: skip
    chosen = vars(parser.parse_args())
    try:
        main(**chosen)
    except nv.NvdslError as error:
        if os.environ.get("NVDSL_TRACEBACK") == "full":
            raise
        sys.exit(f"{type(error).__name__}: {error}")


def _reader(default):
    """Text to a value like ``default``: a number, or some with an x between."""

    def positive(text):
        value = type(default)(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not positive")
        return value

    def sizes(text):
        parts = text.split("x")
        if len(parts) != len(default) or not all(part.isdecimal() and int(part) for part in parts):
            raise argparse.ArgumentTypeError(f"{text}: {len(default)} positive numbers with an x between")
        return tuple(map(int, parts))

    return sizes if isinstance(default, tuple) else positive
