"""scf: structured control flow. Lanes that disagree run under masks and meet again behind; branches that may wait run
beside each other (see `parted`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.loops import acting, deciding
from nvdsl.ir.operands import integers, named
from nvdsl.sim.decode import Blocking, Body, Decoder, Frame, op
from nvdsl.sim.graph import Graph
from nvdsl.sim.moved import Moved
from nvdsl.sim.operands import check_step
from nvdsl.sim.parted import together
from nvdsl.sim.polling import STRETCH, endless, polling, repeats, turning, unchanged
from nvdsl.sim.progress import TURNS
from nvdsl.sim.values import LANES, integer_type, select


def make(body: Any, blocking: bool) -> Any:
    """A generator function as a step: itself where it may wait, else a function that runs it to its end."""
    if blocking:
        return Blocking(body)

    def step(v: Frame) -> None:
        for _ in body(v):
            pass

    return step


@op("scf.if")
def _if(d: Decoder, op: Any) -> Any:
    (condition,) = d.operands(op)
    empty: tuple[Body, list[int]] = (Body(()), [])
    branches = [empty, empty]
    for i, region in enumerate(op.regions):
        if len(region.blocks):
            body, terminator = d.block(region.blocks[0])
            branches[i] = (body, d.operands(terminator) if terminator is not None else [])
    results = [d.define(result) for result in op.results]
    kinds = [integer_type(result.type) for result in op.results]
    (then, then_yields), (other, other_yields) = branches
    blocking = then.blocking or other.blocking
    if not blocking:
        return _plain_if(condition, then, then_yields, other, other_yields, results, kinds)

    def run(v: Frame) -> Iterator[Any]:
        c = v[condition]
        w = v[0]
        if c.__class__ is not bool:
            yes, no = w.mask & c, w.mask & ~c
            any_yes, any_no = bool(np.count_nonzero(yes)), bool(np.count_nonzero(no))
        else:
            any_yes, any_no = c, not c
        if any_yes and any_no:
            outer = w.mask
            yield from together(w, ((yes, then.run(v)), (no, other.run(v))))
            w.set_mask(outer)
            for r, x, s, kind in zip(results, then_yields, other_yields, kinds, strict=True):
                v[r] = select(c, v[x], v[s], kind)
            return
        body, yields = (then, then_yields) if any_yes else (other, other_yields)
        yield from body.run(v)
        for r, s in zip(results, yields, strict=True):
            v[r] = v[s]

    return Blocking(run)


def _plain_if(
    condition: int, then: Body, then_yields: list[int], other: Body, other_yields: list[int], results: list[int],
    kinds: list[Any],
) -> Any:  # fmt: skip
    then_pairs = list(zip(results, then_yields, strict=True)) if then_yields else []
    other_pairs = list(zip(results, other_yields, strict=True)) if other_yields else []

    def step(v: Frame) -> None:
        c = v[condition]
        if c.__class__ is bool:
            any_yes, any_no = c, not c
        else:
            w = v[0]
            yes, no = w.mask & c, w.mask & ~c
            any_yes, any_no = bool(np.count_nonzero(yes)), bool(np.count_nonzero(no))
            if any_yes and any_no:
                outer = w.mask
                w.set_mask(yes)
                then(v)
                kept = [v[s] for _, s in then_pairs]
                w.set_mask(no)
                other(v)
                w.set_mask(outer)
                for (r, s), x, kind in zip(other_pairs, kept, kinds, strict=True):
                    v[r] = select(c, x, v[s], kind)
                return
        if any_yes:
            then(v)
            for r, s in then_pairs:
                v[r] = v[s]
        else:
            other(v)
            for r, s in other_pairs:
                v[r] = v[s]

    return step


@op("scf.for")
def _for(d: Decoder, op: Any) -> Any:
    low, high, stride, *starts = d.operands(op)
    block = op.regions[0].blocks[0]
    variable, *carried = [d.define(argument) for argument in block.arguments]
    body, terminator = d.block(block)
    yields = d.operands(terminator) if terminator is not None else []
    results = [d.define(result) for result in op.results]
    kinds = [integer_type(argument.type) for argument in block.arguments]
    count = len(carried)
    at = where(op)
    enter, leave = Moved(d, carried, named(op).initArgs), Moved(d, results, list(block.arguments)[1:])
    onward = Moved(d, carried, list(terminator.operands) if count else [])

    def uniform(v: Frame) -> Iterator[Any]:
        first, last, by = v[low], v[high], v[stride]
        check_step(v[0], by, at)
        if not (first.__class__ is int and last.__class__ is int and by.__class__ is int):
            yield from varying(v)
            return
        if count and v[0].undefined:
            enter(v)
        for c, s in zip(carried, starts, strict=True):
            v[c] = v[s]
        blocking, turns, progress = body.blocking, range(first, last, by), v[0].machine.progress
        is_long = progress is not None and last - first > TURNS * by
        for i in progress.turns(turns, at) if is_long else turns:
            v[variable] = i
            if blocking:
                yield from body.run(v)
            else:
                body(v)
            if count:
                if v[0].undefined:
                    onward(v)
                following = [v[y] for y in yields]
                for c, x in zip(carried, following, strict=True):
                    v[c] = x
        if count and v[0].undefined:
            leave(v)
        for r, c in zip(results, carried, strict=True):
            v[r] = v[c]

    def varying(v: Frame) -> Iterator[Any]:
        w = v[0]
        outer = w.mask
        i = np.broadcast_to(np.asarray(v[low], kinds[0]), (LANES,)).copy()
        last, by = v[high], v[stride]
        if w.undefined:
            enter(v)
        for c, s in zip(carried, starts, strict=True):
            v[c] = v[s]
        while True:
            going = outer & (i < last)
            if not going.any():
                break
            w.set_mask(going)
            v[variable] = i.copy()
            yield from body.run(v)
            if w.undefined:
                onward(v, going)
            following = [v[y] for y in yields]
            for c, x, kind in zip(carried, following, kinds[1:], strict=True):
                v[c] = select(going, x, v[c], kind)
            i = i + by
        w.set_mask(outer)
        if count and v[0].undefined:
            leave(v)
        for r, c in zip(results, carried, strict=True):
            v[r] = v[c]

    return make(uniform, body.blocking)


@op("scf.while")
def _while(d: Decoder, op: Any) -> Any:
    """Each turn is a chance for others to run: a loop may poll memory."""
    starts = d.operands(op)
    before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
    inputs = [d.define(argument) for argument in before.arguments]
    before_body, condition = d.block(before)
    test, *passed = d.operands(condition)
    outputs = [d.define(argument) for argument in after.arguments]
    after_body, terminator = d.block(after)
    yields = d.operands(terminator)
    results = [d.define(result) for result in op.results]
    kinds = [integer_type(result.type) for result in op.results]
    at = where(op)
    decided_by = deciding(op)
    acts_by = acting(op) if decided_by is None else range(len(inputs))
    turn = turning(at, decided_by is None)
    enter, onward = Moved(d, inputs, op.operands), Moved(d, inputs, terminator.operands)
    inside, leave = (Moved(d, to, named(condition).args) for to in (outputs, results))

    def run(v: Frame) -> Iterator[Any]:
        w = v[0]
        machine = w.machine
        outer = w.mask
        if w.undefined:
            enter(v)
        for i, s in zip(inputs, starts, strict=True):
            v[i] = v[s]
        turns, then = 0, 0
        earlier: tuple[int, list[Any]] = (0, [])
        while True:
            seen = machine.changes
            yield from before_body.run(v)
            going = v[test]
            values = [v[p] for p in passed]
            if going.__class__ is not bool:
                going = w.mask & going
            if w.undefined:
                leave(v, None if turns == 0 or w.mask is outer else w.mask)
                inside(v)
            for o, r, x, kind in zip(outputs, results, values, kinds, strict=True):
                v[r] = x if turns == 0 or w.mask is outer else select(w.mask, x, v[r], kind)
                v[o] = x
            if going.__class__ is bool:
                if not going:
                    break
            elif not going.any():
                break
            else:
                w.set_mask(going)
            yield from after_body.run(v)
            if w.undefined:
                onward(v)
            given = [v[y] for y in yields]
            if decided_by is not None:
                now = w.bits, [given[i] for i in decided_by]
                if turns & (turns - 1) == 0:  # Brent's way to find a cycle
                    earlier, then = now, turns
                elif now[0] == earlier[0] and repeats(now[1], earlier[1], w.active):
                    raise endless(w.name, turns - then, at)
            same = seen == machine.changes and all(unchanged(given[i], v[inputs[i]]) for i in acts_by)
            for i, x in zip(inputs, given, strict=True):
                v[i] = x
            turns += 1
            if same:
                yield polling(at, seen)
            elif turns % STRETCH == 0:
                yield turn
        w.set_mask(outer)

    return Blocking(run)


@op("scf.execute_region")
def _execute_region(d: Decoder, op: Any) -> Any:
    if len(op.regions[0].blocks) > 1:
        return Blocking(Graph(d, op.regions[0], [d.define(result) for result in op.results]).run)
    body, terminator = d.block(op.regions[0].blocks[0])
    for result, value in zip(op.results, terminator.operands, strict=True):
        d.alias(result, value)
    return Blocking(body.run) if body.blocking else body


@op("scf.index_switch")
def _index_switch(d: Decoder, op: Any) -> Any:
    (selector,) = d.operands(op)
    cases = integers(op, "cases")
    bodies, ends = [], []
    for region in op.regions:
        body, terminator = d.block(region.blocks[0])
        bodies.append((body, d.operands(terminator) if terminator is not None else []))
        ends.append(list(terminator.operands) if terminator is not None else [])
    results = [d.define(result) for result in op.results]
    leave = [Moved(d, results, end) for end in ends]
    types = [integer_type(result.type) for result in op.results]

    def run(v: Frame) -> Iterator[Any]:
        w = v[0]
        x, outer = v[selector], w.mask
        hits = [(i + 1, outer & np.broadcast_to(np.equal(x, case), (LANES,))) for i, case in enumerate(cases)]
        rest = outer.copy()
        for _, hit in hits:
            rest &= ~hit
        taken = [(i, mask) for i, mask in [*hits, (0, rest)] if mask.any()]
        yield from together(w, [(mask, bodies[i][0].run(v)) for i, mask in taken])
        w.set_mask(outer)
        for i, mask in taken:
            if w.undefined:
                leave[i](v, mask)
            for r, y, kind in zip(results, bodies[i][1], types, strict=True):
                v[r] = v[y] if v[r] is None else select(mask, v[y], v[r], kind)

    return make(run, any(body.blocking for body, _ in bodies))
