"""The bytes that an mbarrier expects, against the bytes of the copies that complete on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from typing import Any

import numpy as np

from nvdsl.errors import VerifyError
from nvdsl.ir.location import where
from nvdsl.verify.context import Context, beside, contexts
from nvdsl.verify.mbarriers import Group, Part
from nvdsl.verify.program import Node, Program

_RULE = (
    "a phase completes when exactly the expected bytes have arrived, a box counting whole even where it leaves the "
    "array (PTX ISA, Tracking asynchronous operations by the mbarrier object); with another count the wait hangs"
)


def check(program: Program) -> None:
    for context in contexts(program):
        for group in context.groups:
            _check_group(context, group)


def _check_group(context: Context, group: Group) -> None:
    """Buckets hold what happens equally often at one barrier. Where some expect more than they get and others less,
    they may make up for each other; where all that differ do so in one direction, nothing can."""
    expected, copied = context.parts(group, "expect"), context.parts(group, "bytes")
    if not expected or copied is None or any(p.each is None for p in (*expected, *copied)):
        return
    if not any(g.of("bytes") for g in context.groups):
        return  # a part of a kernel
    buckets: dict[Hashable, tuple[list[Part], list[Part]]] = defaultdict(lambda: ([], []))
    for side, found in enumerate((expected, copied)):
        for part in found:
            if part.each.any():
                buckets[(part.reach.context, part.slot)][side].append(part)
    wrong = []
    for expects, copies in buckets.values():
        none = np.zeros(context.threads.blocks, np.int64)
        difference = sum((p.each for p in expects), none) - sum((p.each for p in copies), none)
        if difference.any():
            wrong.append((expects, copies, difference))
    signs = {s for *_, difference in wrong for s in np.sign(difference).tolist() if s}
    if len(signs) == 1:
        with_both = [w for w in wrong if w[0] and w[1]]
        expects, copies, difference = (with_both or wrong)[0]
        block = int(abs(difference).argmax())
        if expects:
            raise _error(expects, copies, block, context.threads.blocks)
        raise _unexpected(expected, copies, block)


def _error(expects: list[Part], copies: list[Part], block: int, blocks: int) -> VerifyError:
    node = expects[0].event.node
    want, get = (int(sum(p.each[block] for p in side)) for side in (expects, copies))
    arrive = f"{_sum(copies, block, node)} = {get:,}" if len(copies) > 1 else _sum(copies, block, node)
    others = [beside(p.event.node, node) for p in expects[1:]]
    more = f" (with {', '.join(others)})" if others else ""
    place = f" in block {block} of the cluster" if blocks > 1 else ""
    fix = f"expect {get:,} bytes: the sum of the tiles' .bytes" if copies else "load onto this mbarrier, or arrive()"
    if copies and not get:
        fix = "name that block in the copy's multicast_mask, or expect no bytes there"
    return VerifyError(
        f"the mbarrier expects {want:,} bytes{more}, and "
        + (f"the copies that complete on it{place} bring {arrive}" if copies else "no copy completes on it"),
        where=where(node.op),
        rule=_RULE,
        fix=fix,
    )


def _unexpected(expected: list[Part], copies: list[Part], block: int) -> VerifyError:
    node = copies[0].event.node
    get, elsewhere = int(sum(p.each[block] for p in copies)), beside(expected[0].event.node, node)
    return VerifyError(
        f"copies bring {_sum(copies, block, node)} to the mbarrier, {get:,} bytes that nothing expects here, as "
        f"{elsewhere} does for others",
        where=where(node.op),
        rule=_RULE,
        fix=f"arrive_expect_tx({get:,}) before the copies",
    )


def _sum(parts: list[Part], block: int, node: Node) -> str:
    """``16,384 (line 3) + 2*8,192 (line 4)``"""
    counts: Counter[Any] = Counter()
    for part in parts:
        counts[(int(part.each[block]), beside(part.event.node, node))] += 1
    shown = [f"{f'{n}*' if n > 1 else ''}{size:,} ({place})" for (size, place), n in counts.items() if size]
    return " + ".join(shown) or "0"
