"""The PTX that debug mode adds to a kernel: into the log (`nvdsl.lower.device_log`), bounded waits, stops.

Each text is one block with registers of its own, which live no longer than the block: they cost the code around it
nothing. It finds its warp's slot anew each time, from special registers. One lane, the first of those that run
together, writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.lower import device_log as log
from nvdsl.mlir import ir

LINGER = 0.2
"""Seconds from a thread's report until it stops the kernel: others, about to report, too, get their chance."""

_AGAIN_NS = 200_000  # between two times that a report is written

_EXTRA = 1 << 17  # bytes

_POLL_NS = 1_000_000  # upper bound of one suspension in try_wait

_REGISTERS = """\
.reg .pred ok, other;
.reg .b32 u, v, me, bx, by, bz, number, state, site, index, parity;
.reg .b64 slot, start, now;"""

# slot: this warp's; me: the thread's number in its block; number: the block's; v: the lane's; other: false in the first
# of the active lanes.
_LOCATE = f"""\
mov.u32 u, %tid.z;
mov.u32 v, %ntid.y;
mov.u32 me, %tid.y;
mad.lo.u32 me, u, v, me;
mov.u32 u, %ntid.x;
mov.u32 bx, %tid.x;
mad.lo.u32 me, me, u, bx;
mul.lo.u32 u, u, v;
mov.u32 v, %ntid.z;
mad.lo.u32 u, u, v, 31;
shr.u32 u, u, 5;
mov.u32 bx, %ctaid.x;
mov.u32 by, %ctaid.y;
mov.u32 bz, %ctaid.z;
mov.u32 v, %nctaid.y;
mad.lo.u32 number, bz, v, by;
mov.u32 v, %nctaid.x;
mad.lo.u32 number, number, v, bx;
shr.u32 v, me, 5;
mad.lo.u32 v, number, u, v;
and.b32 v, v, {log.SLOTS - 1};
ld.global.b64 slot, [{log.SYMBOL}];
mad.wide.u32 slot, v, {log.SLOT.itemsize}, slot;
activemask.b32 u;
brev.b32 u, u;
bfind.shiftamt.u32 u, u;
mov.u32 v, %laneid;
setp.ne.u32 other, u, v;"""


def _place(state: int, site: int, index: str, parity: str) -> str:
    return f"""\
mov.b32 state, {state};
mov.b32 site, {site};
mov.b32 index, {index};
mov.b32 parity, {parity};
st.volatile.global.v4.b32 [slot+{log.BLOCK + 8}], {{bz, me, index, parity}};
st.volatile.global.v4.b32 [slot], {{state, site, bx, by}};"""


def _state(state: int) -> str:
    return f"mov.b32 state, {state};\nst.volatile.global.b32 [slot], state;"


def _fault(site: int, index: str, parity: str, parts: Sequence[str], linger: float) -> str:
    """``parts``: what finds and stores the rest of the report. The state comes last: then all else is there. Other
    lanes of the warp may go on, and write over it where they come to a wait: so it is written again, until the end."""
    stores = "\n".join(parts)
    return f"""\
{_LOCATE}
@other bra LINGER;
{_place(log.BEFORE, site, index, parity)}
{stores}
membar.sys;
{_state(log.FAULT)}
membar.sys;
LINGER:
mov.u64 start, %globaltimer;
LINGERING:
nanosleep.u32 {_AGAIN_NS};
@other bra CLOCK;
{_place(log.FAULT, site, index, parity)}
membar.sys;
CLOCK:
mov.u64 now, %globaltimer;
sub.u64 now, now, start;
setp.lt.u64 ok, now, {round(linger * 1e9)};
@ok bra LINGERING;
trap;"""


# An mbarrier's state can't be loaded (an H200 gives zeros). An arrive of count 0, which changes nothing, returns its
# upper half: the parity of the phase under way (bit 31), minus the pending arrivals (20 bits), minus the pending bytes
# divided by 2048 (10 bits, rounded down). What that hides of the bytes shows where more of them are expected, step by
# step, and the upper half changes. (Seen on an H200, for the states in tests/gpu/test_watchdog.py.) The bytes that are
# expected at first keep the phase from completing. Afterwards the barrier is of no more use: the kernel is about to be
# stopped. One warp does it for each barrier, the first to claim it.
PROBE = f"""\
.reg .b32 upper, before, bit, rest, left, pending, none;
.reg .b64 barrier, claim;
mov.b64 barrier, 0;
mov.b32 none, 0;
shr.u32 u, $0, 3;
mad.lo.u32 u, number, 4099, u;
and.b32 u, u, {log.CLAIMS - 1};
mov.b64 claim, {log.CLAIMED};
mad.wide.u32 claim, u, 4, claim;
atom.global.exch.b32 u, [claim], 1;
setp.ne.u32 ok, u, 0;
@ok bra PROBED;
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], {_EXTRA};
mbarrier.arrive.shared::cta.b64 barrier, [$0], none;
mov.b64 {{u, upper}}, barrier;
shr.u32 parity, upper, 31;
shr.u32 pending, upper, 11;
neg.s32 pending, pending;
and.b32 pending, pending, 0xfffff;
and.b32 before, upper, 0x3ff;
shl.b32 left, before, 11;
mov.b32 bit, 1024;
BIT:
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], bit;
mbarrier.arrive.shared::cta.b64 barrier, [$0], none;
mov.b64 {{u, upper}}, barrier;
and.b32 upper, upper, 0x3ff;
setp.eq.u32 ok, upper, before;
@ok add.u32 left, left, bit;
@ok bra NEXT;
sub.u32 rest, 2048, bit;
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], rest;
sub.u32 before, before, 1;
and.b32 before, before, 0x3ff;
NEXT:
shr.u32 bit, bit, 1;
setp.ne.u32 ok, bit, 0;
@ok bra BIT;
shl.b32 left, left, 11;
shr.s32 left, left, 11;
neg.s32 left, left;
sub.u32 left, left, {_EXTRA};
shl.b32 parity, parity, 20;
or.b32 pending, pending, parity;
or.b32 pending, pending, 0x80000000;
mov.b64 barrier, {{left, pending}};
PROBED:"""


def mark(state: int, site: int, index: str = "0") -> str:
    """"I am at this place" (BEFORE), or "I came past it" (PAST)."""
    what = _place(state, site, index, "0") if state == log.BEFORE else _state(state)
    return _block(f"{_LOCATE}\n@other bra DONE;\n{what}\nDONE:")


def returned() -> str:
    """This lane leaves the kernel. (v is its number.)"""
    return _block(f"""\
{_LOCATE}
cvt.u64.u32 now, v;
add.u64 slot, slot, now;
mov.b32 state, 1;
st.volatile.global.b8 [slot+{log.RETURNED}], state;""")


def wait(site: int, timeout: float, order: str = "") -> str:
    """Wait on the mbarrier at $0 (a shared address) for the phase of parity $1, at most ``timeout`` seconds. $2: its
    number in its group. ``order``: the wait's, ".acquire.cluster" where it is not the default. A wait that ends at once
    writes nothing."""
    store = f"st.volatile.global.b64 [slot+{log.BARRIER}], barrier;"
    return _block(f"""\
mbarrier.try_wait.parity{order}.shared::cta.b64 ok, [$0], $1;
@ok bra DONE;
{_LOCATE}
@other bra WAIT;
{_place(log.BEFORE, site, "$2", "$1")}
WAIT:
mov.u64 start, %globaltimer;
WAITING:
mov.b32 u, {_POLL_NS};
mbarrier.try_wait.parity{order}.shared::cta.b64 ok, [$0], $1, u;
@ok bra PAST;
mov.u64 now, %globaltimer;
sub.u64 now, now, start;
setp.lt.u64 ok, now, {round(timeout * 1e9)};
@ok bra WAITING;
{_fault(site, "$2", "$1", [PROBE, store], LINGER)}
PAST:
@other bra DONE;
{_state(log.PAST)}
DONE:""")


def require(site: int, values: int) -> str:
    """Stop the kernel unless $0 (an i32) is true; $1 and so on are ``values`` 64-bit values for the report."""
    stores = [f"st.volatile.global.b64 [slot+{log.VALUES + 8 * i}], ${i + 1};" for i in range(values)]
    return _block(f"setp.ne.s32 ok, $0, 0;\n@ok bra DONE;\n{_fault(site, '0', '0', stores, LINGER / 10)}\nDONE:")


def _block(text: str) -> str:
    return f"{{\n{_REGISTERS}\n{text}\n}}"


def emit(text: str, *operands: Any) -> None:
    """The text as an op at the insertion point; operands are i32 and i64 values."""
    constraints = ",".join("l" if str(x.type) == "i64" else "r" for x in operands)
    ir.Operation.create(
        "llvm.inline_asm",
        [],
        list(operands),
        {
            "asm_string": ir.StringAttr.get(text),
            "constraints": ir.StringAttr.get(f"{constraints},~{{memory}}" if constraints else "~{memory}"),
            "has_side_effects": ir.UnitAttr.get(),
            "asm_dialect": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
        },
    )
