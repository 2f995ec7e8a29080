"""All that a rewritten function calls, under the names that ``transform`` uses (for ``call`` see ``rewrite``)."""

from builtins import locals

from nvdsl.trace.branches import if_, leave, plain
from nvdsl.trace.carry import part
from nvdsl.trace.handlers import try_
from nvdsl.trace.logic import both, called, check, choose, compare, either, mistaken, negate
from nvdsl.trace.loops import For, While, for_
from nvdsl.trace.loops import While as while_
from nvdsl.trace.printing import text
from nvdsl.trace.range import Range
from nvdsl.trace.statements import for_effect, unused

__all__: list[str] = [
    "For",
    "Range",
    "While",
    "both",
    "called",
    "check",
    "choose",
    "compare",
    "either",
    "for_",
    "for_effect",
    "if_",
    "leave",
    "locals",
    "mistaken",
    "negate",
    "part",
    "plain",
    "text",
    "try_",
    "unused",
    "while_",
]
