"""What the command ``nvdsl`` takes. Each subcommand's ``does`` names the module whose ``run`` is called."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

DELIVERIES, ORDERS, LEVELS = ("late", "eager", "random"), ("forward", "reverse", "random"), ("traced", "nvvm")
VIEWS = ("mlir", "ptx", "sass", "resources", "passes", "steps")
DTYPES = ("f32", "tf32", "f16", "bf16", "e4m3", "e5m2", "i8", "u8", "i32")


class Refused(ValueError):
    """Input of the command that makes no sense. The message is one line for the user."""


SVG, PICTURES = (".svg",), (".svg", ".html")


def check_file(path: str, kinds: Sequence[str] = ()) -> None:
    """Raises Refused where no file can be written at ``path``, or its name says that it is of none of ``kinds``; one
    without an ending says nothing."""
    suffix = Path(path).suffix.lower()
    if kinds and suffix not in ("", *kinds):
        raise Refused(f"{path} can't be written: what is drawn is {' or '.join(_KINDS[kind] for kind in kinds)}")
    if not Path(path).parent.is_dir():
        raise Refused(f"{path} can't be written: there is no folder {Path(path).parent}")


_KINDS = {".svg": "an SVG (.svg)", ".html": "a page (.html)"}


class _Version(argparse.Action):
    """Print the versions that a bug report needs, one a line. They are read from the installed packages' metadata, so
    that this works where MLIR can't be imported."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        for package in ("nvdsl", "numba-cuda-mlir", "nvidia-cuda-nvcc", "cuda-bindings", "cuda-core", "numpy"):
            try:
                version = metadata.version(package)
            except metadata.PackageNotFoundError:
                version = "not installed"
            print(f"{package} {version}")
        print(f"Python {sys.version.split()[0]}, {sys.platform} {os.uname().machine}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nvdsl", description="Look at Hopper kernels, and check them without a GPU.")
    parser.add_argument("--version", action=_Version, help="versions of nvdsl and of what it compiles with")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _run_parser(commands)
    _check_parser(commands)
    _show_parser(commands)
    _draw_parser(commands)
    _cache_parser(commands)
    return parser


def _command(commands, name: str, does: str, summary: str, more: str = "") -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=more or None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(does=does)
    return parser


def _run_parser(commands) -> None:
    parser = _command(
        commands, "run", "run", "run a script, its kernels in the simulator",
        more="What stands behind the script's name is for the script. The exit code is the script's.\n"
        "The same without this command: NVDSL_TARGET=sim NVDSL_SIM_DELIVERY=... python script.py",
    )  # fmt: skip
    parser.add_argument("--delivery", choices=DELIVERIES, default="", help="when copies and wgmmas happen (late)")
    parser.add_argument("--order", choices=ORDERS, default="", help="which warp runs next (forward)")
    parser.add_argument("--seed", type=_seed, help="of what is random (0)")
    parser.add_argument("--level", choices=LEVELS, default="",
                        help="what is executed: the module as traced, or after convert-nvgpu-to-nvvm (traced)")
    parser.add_argument("--trace", metavar="FILE.json", help="write what happened, for ui.perfetto.dev")
    parser.add_argument("--picture", metavar="FILE.svg|FILE.html",
                        help="draw the first block's ring slots over time; as HTML: a page with a slider")
    parser.add_argument("script", metavar="script.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the script's own arguments")


def _check_parser(commands) -> None:
    parser = _command(
        commands, "check", "check", "run a script under several schedules in the simulator",
        more="Each schedule is a process of its own: late delivery, eager delivery, then random ones (seed 0, 1...),\n"
        "each at both levels. A schedule fails when its process does: a report of the simulator, an assert of the\n"
        "script, any exit code but 0. The command fails (1) when one does, and says how to repeat it.\n"
        "The script's own arguments follow `--`: nvdsl check gemm.py --schedules 10 -- --M 256",
    )  # fmt: skip
    parser.add_argument("script", metavar="script.py")
    parser.add_argument("--schedules", type=_count, default=22, metavar="N", help="at each level (%(default)s)")
    parser.add_argument("--level", choices=(*LEVELS, "both"), default="both", help="(%(default)s)")
    parser.add_argument("--jobs", type=_count, metavar="N", help="processes at a time (one a core)")
    parser.add_argument("--timeout", type=_seconds, default=600, metavar="S", help="seconds for each schedule (600)")


def _show_parser(commands) -> None:
    parser = _command(
        commands, "show", "show", "show a script's kernels as MLIR, PTX, SASS, or what they use",
        more="The script runs (as __main__, its output dropped), but its kernels don't: a call of an nv.jit function\n"
        "only compiles, and leaves the results as they are. If that makes the script fail later on, what was compiled\n"
        "until then is shown. No GPU is needed. The script's own arguments follow `--`.\n\n"
        "  mlir       the traced module, or the module after (before) one step of the lowering\n"
        "  ptx        what LLVM made of it\n"
        "  sass       machine code (needs nvdisasm or cuobjdump: pip install nvidia-cuda-nvdisasm)\n"
        "  resources  registers, spills, stack, shared memory, barriers, blocks that fit on an SM (the default)\n"
        "  passes     the steps of the lowering, and which of them this script's kernels need\n"
        "  steps      of an nvdsl.schedule: what each step does, and the module behind it",
    )  # fmt: skip
    parser.add_argument("script", metavar="script.py")
    parser.add_argument("view", nargs="?", choices=VIEWS, default="resources", metavar="|".join(VIEWS))
    parser.add_argument("--kernel", metavar="NAME", help="only this kernel, or the kernels of this nv.jit function")
    parser.add_argument("--after", metavar="STEP", help="mlir: after this step (`passes` lists them); steps: this one")
    parser.add_argument("--before", metavar="STEP", help="mlir: before this step")
    parser.add_argument("--side-by-side", nargs="?", type=_count, const=0, metavar="WIDTH",
                        help="steps: the module before and after each in two columns, where they differ "
                        "(of the terminal's width)")  # fmt: skip


def _draw_parser(commands) -> None:
    parser = _command(commands, "draw", "draw", "draw a layout, or what a simulated script did")
    kinds = parser.add_subparsers(required=True, metavar="WHAT", dest="kind")
    swizzle = _command(kinds, "swizzle", "draw", "draw where each 16-byte unit of a tile lies in shared memory")
    swizzle.add_argument("--swizzle", type=int, default=128, metavar="BYTES", help="0, 16, 32, 64 or 128 (%(default)s)")
    swizzle.add_argument("--dtype", choices=DTYPES, default="f16", help="(%(default)s)")
    swizzle.add_argument("--shape", default="8x64", metavar="RxC", help="rows x columns, in elements (%(default)s)")
    fragment = _command(kinds, "fragment", "draw", "draw which lane and register hold each element of a wgmma operand")
    fragment.add_argument("--operand", choices=("d", "a"), default="d",
                          help="d: the accumulator; a: A in registers (%(default)s)")
    fragment.add_argument("--n", type=int, default=64, help="columns of the accumulator, 8 to 256 (%(default)s)")
    fragment.add_argument("--dtype", choices=DTYPES, help="the operand's element type (f32 for d, f16 for a)")
    layout = _command(
        kinds, "layout", "draw", "draw any layout: addresses, or which thread holds what",
        more="LAYOUT is CuTe's notation, or one of Hopper's layouts by its name:\n"
        "  '(8,8):(8,1)'   '((8,8),64):((X(0x90),1024),X(2))'   '((4,8),(2,2)):((2@1,1@0),(1@1,8@0))'\n"
        "  'wgmma_accumulator(64)'  'wgmma_a(2)'  'mma_a(2)'  'mma_b(2)'  MMA_C  'matrix_values()'  FRAGMENT_ROWS",
    )  # fmt: skip
    layout.add_argument("layout", metavar="LAYOUT")
    layout.add_argument("--tile", metavar="RxC", help="a thread-value layout that counts through a tile of this size")
    layout.add_argument("--colour", choices=("thread", "value"), default="thread",
                        help="what has a colour where threads hold values (%(default)s)")
    layout.add_argument("--banks", type=int, choices=(1, 2, 4, 8, 16), metavar="BYTES",
                        help="addresses are bytes of shared memory, accessed so many at a time: colour the banks")
    for one in (swizzle, fragment, layout):
        one.add_argument("--text", action="store_true", help="print it in the terminal, in colours, instead of SVG")
    phases = _command(
        kinds, "phases", "draw", "draw the phases of a script's mbarriers over time: what each still needs, who waits",
        more=_SIMULATED,
    )  # fmt: skip
    cluster = _command(
        kinds, "cluster", "draw", "draw which block of a cluster loads what, and into whose shared memory",
        more=_SIMULATED,
    )  # fmt: skip
    for one in (phases, cluster):
        one.add_argument("script", metavar="script.py")
    for one in (swizzle, fragment, layout, phases, cluster):
        as_page = "; FILE.html: a page in which any tile can be chosen" if one is swizzle else ""
        one.add_argument("--out", metavar="FILE.svg", help=f"where the SVG goes (standard output){as_page}")


_SIMULATED = (
    "The script runs in the simulator (NVDSL_SIM_DELIVERY and the like choose the schedule), its output dropped. The\n"
    "picture is of the first launch that has one. The script's own arguments follow `--`."
)


def _cache_parser(commands) -> None:
    parser = _command(
        commands, "cache", "cache", "show, clear or limit what is kept on disk",
        more="Compiled kernels and tuned configurations are kept in NVDSL_CACHE_DIR, or else in\n"
        "$XDG_CACHE_HOME/nvdsl, or else in ~/.cache/nvdsl. NVDSL_CACHE=off keeps no kernels.\n"
        "All of it can be removed at any time: kernels are compiled again, but what was tuned has to be tuned again.",
    )  # fmt: skip
    parser.add_argument("--clear", choices=("kernels", "tuned", "all"), help="remove them")
    parser.add_argument("--limit", metavar="SIZE",
                        help="keep at most so much of compiled kernels, from now on: 500MB, 2GB (NVDSL_CACHE_LIMIT "
                        "goes before it; 512 MiB without either). What was used longest ago goes first")


def _count(text: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, at least {least}")
    return int(text)


def _seed(text: str) -> int:
    return _count(text, 0)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < _LONGEST:
        raise argparse.ArgumentTypeError(f"{text}: must be a number of seconds, above 0 and below {_LONGEST}")
    return number


_LONGEST = 10**6
