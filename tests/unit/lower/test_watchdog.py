"""Debug mode in the lowering: bounded waits, announced stops, asserts, indices checked; without it, none of these."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.lower import compiler, debug_ptx, device_log, passes
from nvdsl.lower.options import Options
from tests import hanging
from tests.hanging import MISTAKES
from tests.sim import kernels


def compiled(function, *arguments, debug=True, **constants):
    (kernel,) = function.compile(*arguments, debug=debug, **constants).kernels.values()
    return kernel


def sites(kernel, *kinds):
    return [(s.kind, s.where.line, s.what, s.of, s.extents) for s in kernel.watch.sites if s.kind in kinds]


def line(function, text):
    return hanging.Mistake(function, "", "", ())._line_of(text)


F32, F16 = nv.ShapeDtype((16, 64), nv.f32), nv.ShapeDtype((64, 64), nv.f16)
PLAIN = [
    (kernels.tma_load, (F32, F32)),
    (kernels.mma, (F16, F16, nv.ShapeDtype((64, 64), nv.f32))),
    (kernels.registers, (nv.ShapeDtype((384,), nv.i32),)),
]


@pytest.mark.parametrize(("function", "arguments"), PLAIN, ids=lambda x: getattr(x, "__name__", ""))
def test_without_debug_mode_the_ptx_is_as_if_there_were_none(function, arguments, monkeypatch):
    module = function.trace(*arguments)

    def ptx():
        (kernel,) = compiler.lower(module, Options(debug=False)).kernels.values()
        return kernel.ptx

    with_it = ptx()
    monkeypatch.setattr(passes, "DEVICE", tuple(step for step in passes.DEVICE if not step.debug))
    assert with_it == ptx()
    assert "nvdsl_" not in with_it and "globaltimer" not in with_it


def test_every_wait_has_a_deadline():
    module = kernels.tma_load.trace(F32, F32)
    for seconds, ticks in ((2.0, "2000000000"), (0.25, "250000000")):
        (kernel,) = compiler.lower(module, Options(debug=True, debug_timeout=seconds)).kernels.values()
        waits = re.findall(r"mbarrier\.try_wait.*", kernel.ptx)
        assert len(waits) == 2 and "LAB_WAIT" not in kernel.ptx  # the first try, and the one in the loop
        loop = kernel.ptx[kernel.ptx.index("\nWAITING:") :]
        assert f"setp.lt.u64 ok, now, {ticks};" in loop and "trap;" in loop
        assert kernel.watch.timeout == seconds


def test_waits_are_named_as_in_the_simulator():
    kernel = compiled(hanging.wrong_parity, *MISTAKES[1].arguments())
    found = [(s.what, s.count, s.where.line) for s in kernel.watch.sites if s.kind == "mbarrier"]
    function = hanging.wrong_parity
    assert found == [("empty", 2, line(function, "# here")), ("full", 1, line(function, "full.wait"))]


def test_what_may_stop_for_ever_is_announced(monkeypatch):
    @nv.jit
    def stops(out):
        @nv.kernel(grid=2, block=384, cluster=2)
        def kernel():
            nv.cluster_sync()
            if nv.warpgroup_id() == 0:
                nv.setmaxnreg_dec(24)
            else:
                nv.setmaxnreg_inc(240)
            nv.sync_threads()
            nv.named_barrier_sync(3, 384)
            nv.sync_warp()
            nv.griddep_wait()
            out[nv.thread_id.x] = 1

        kernel()

    kernel = compiled(stops, nv.ShapeDtype((384,), nv.i32))
    wanted = ("entry", "cluster", "setmaxnreg", "barrier", "named-barrier", "warp", "grid")
    assert {kind for kind, *_ in sites(kernel, *wanted)} == set(wanted)
    assert [s.count for s in kernel.watch.sites if s.kind == "setmaxnreg"] == [240]
    numbers = {i for i, s in enumerate(kernel.watch.sites) if s.kind in wanted}
    before = {int(n) for n in re.findall(r"mov\.b32 state, 1;\nmov\.b32 site, (\d+);", kernel.ptx)}
    assert numbers <= before
    past = kernel.ptx.count(f"mov.b32 state, {device_log.PAST};\n")
    assert past == len(numbers) - 1  # all but the entry


def test_indices_are_checked_where_they_are_not_known():
    @nv.jit
    def accesses(x, out):
        @nv.kernel(grid=1, block=32)
        def kernel():
            t = nv.thread_id.x
            out[0] = x[3, 63]  # both known
            part = x.view((t, 8), (4, 8))
            out[t] = part[1, t]
            out.store_vector(x.load_vector((t, 4 * t), 4), (4 * t,))

        kernel()

    kernel = compiled(accesses, F32, nv.ShapeDtype((128,), nv.f32))
    found = [site[2:] for site in sites(kernel, "out-of-bounds")]
    assert found == [
        ("load", "an array of 4x8 f32", (4, 8)),
        ("load", "an array (through a view) of 16x64 f32", (16, 64)),
        ("store", "an array of 128 f32", (128,)),
        ("load of 4 elements", "an array of 16x64 f32", (16, 61)),
        ("store of 4 elements", "an array of 128 f32", (125,)),
    ]


def test_addresses_of_vectors_are_checked():
    @nv.jit
    def accesses(x, out):
        @nv.kernel(grid=1, block=32)
        def kernel():
            t = nv.thread_id.x
            tile = nv.smem((16, 64), nv.f32, swizzle=128)
            tile.store_vector(x.view((0, t), (4, 16)).vector((0, t), 4), (t % 16, 4))
            nv.cp_async(tile.elements((t % 16, 8), 4), 0, x, (0, t), 4)
            nv.cp_async_commit()
            nv.cp_async_wait(0)
            out[t] = tile[t % 16, t]

        kernel()

    kernel = compiled(accesses, F32, nv.ShapeDtype((128,), nv.f32))
    assert [site[2] for site in sites(kernel, "misaligned")] == ["load", "store", "cp.async", "cp.async"]
    assert kernel.ptx.count("misaligned") == 0 and kernel.resources.spill_stores == 0


@pytest.mark.parametrize(
    ("name", "what", "of"),
    [
        ("column_beyond", "access", "a tile of 2x64 f32"),
        ("stage_beyond", "access", "a stack of 2 tiles"),
        ("barrier_beyond", "mbarrier", "the 2 mbarriers of full"),
    ],
)
def test_indices_of_tiles_and_groups_are_checked(name, what, of):
    (mistake,) = (one for one in MISTAKES if one.name == name)
    found = sites(compiled(mistake.function, *mistake.arguments()), "out-of-bounds")
    assert (what, of) in [site[2:4] for site in found if site[1] == mistake.line], found


def test_coordinates_of_tma_copies_are_checked():
    @nv.jit
    def copies(x, row: nv.i32):
        x_tma = nv.TMA(x, tile=(8, 32))

        @nv.kernel(grid=1, block=32)
        def kernel():
            tile = nv.smem((8, 32), x.dtype)
            full = nv.Mbarriers(1, arrivals=1)[0]
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(tile.bytes)
                x_tma.load(tile, full, (row, 0), predicate=row > 0)
            full.wait(0)
            if nv.thread_id.x == 0:
                x_tma.prefetch_tile((row, row))
                x_tma.store(tile, (row, row), l2_hint=nv.ops.tma.L2_EVICT_LAST)
                x_tma.reduce_add(tile, (0, row))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0)

        kernel()

    kernel = compiled(copies, F32, 0)
    found = [(s.what, s.of, s.count, len(s.types)) for s in kernel.watch.sites if s.kind == "illegal-copy"]
    assert sorted(found) == sorted(
        (what, "f32", 4, 2) for what in ("TMA load", "TMA prefetch", "TMA store", "TMA reduction")
    )


def test_divisors_and_steps_are_checked_where_they_are_not_known():
    @nv.jit
    def divides(out, n: nv.i32, m: nv.u32):
        @nv.kernel(grid=1, block=32)
        def kernel():
            t = nv.thread_id.x
            total = t // 4 + t % 7
            for _ in nv.range(0, 8, 2):
                total += 1
            total += t // n  # signed
            total += nv.i32(m % nv.u32(3)) + nv.i32(m // (m + nv.u32(1)))  # unsigned
            for _ in nv.range(0, 8, n):  # loop
                total += 1
            out[t] = total

        kernel()

    kernel = compiled(divides, nv.ShapeDtype((32,), nv.i32), 1, np.uint32(1))
    found = {(s.kind, s.where.line, s.of) for s in kernel.watch.sites if s.kind in ("division", "loop-step")}
    assert {kind for kind, *_ in found} == {"division", "loop-step"}
    lines = {line(divides, f"# {mark}") for mark in ("signed", "unsigned", "loop")}
    assert {at for _, at, _ in found} == lines
    assert {of for kind, at, of in found if at == line(divides, "# unsigned")} == {"i32"}
    off = compiled(divides, nv.ShapeDtype((32,), nv.i32), 1, np.uint32(1), debug=False)
    assert off.watch is None and "trap" not in off.ptx


@pytest.mark.parametrize("text", [debug_ptx.require(5, 2), debug_ptx.wait(5, 2.0)], ids=["require", "wait"])
def test_a_report_stays_where_other_lanes_of_the_warp_go_on(text):
    """They say where they wait in the same slot: the report is written again and again, until the kernel is stopped."""
    loop = text[text.index("LINGERING:") : text.index("trap;")]
    assert loop.index("nanosleep") < loop.index(f"mov.b32 state, {device_log.FAULT};\nmov.b32 site, 5;")
    assert loop.index("st.volatile.global.v4.b32 [slot], {state, site, bx, by};") < loop.index("@ok bra LINGERING;")


def test_shared_memory_ends_before_the_mbarriers():
    kernel = compiled(kernels.tma_load, F32, F32)
    (site,) = [s for s in kernel.watch.sites if "shared" in s.of]
    assert site.extents == (16 * 64 * 4 - 3,)


def test_an_assert_is_there_in_debug_mode_alone():
    arguments = MISTAKES[4].arguments()
    kernel = compiled(hanging.failing_assert, *arguments)
    (site,) = [s for s in kernel.watch.sites if s.kind == "assert"]
    assert site.what.endswith(": x[%d] is %.1f") and site.types == ("i32", "f32")
    assert site.where.line == MISTAKES[4].line
    plain = compiled(hanging.failing_assert, *arguments, debug=False)
    assert plain.watch is None and "setp" not in plain.ptx and "printf" not in plain.ptx


def test_debug_mode_is_asked_for_by_call_by_jit_or_by_environment(monkeypatch):
    def body(out):
        @nv.kernel(grid=1, block=32)
        def kernel():
            out[nv.thread_id.x] = 1

        kernel()

    out = nv.ShapeDtype((32,), nv.i32)

    def debug(function, **options):
        return compiled(function, out, **options).watch is not None

    assert not debug(nv.jit(body), debug=None) and debug(nv.jit(body), debug=True)
    both = nv.jit(body)
    assert not debug(both, debug=False) and debug(both, debug=True) and not debug(both, debug=None)
    assert debug(nv.jit(body, debug=True), debug=None) and not debug(nv.jit(body, debug=True), debug=False)
    monkeypatch.setenv("NVDSL_DEBUG", "1")
    monkeypatch.setenv("NVDSL_DEBUG_TIMEOUT", "0.5")
    kernel = compiled(nv.jit(body), out, debug=None)
    assert kernel.watch is not None and kernel.watch.timeout == 0.5
    monkeypatch.setenv("NVDSL_DEBUG_TIMEOUT", "soon")
    with pytest.raises(nv.errors.LowerError, match="NVDSL_DEBUG_TIMEOUT=soon"):
        Options.from_environment()
    with pytest.raises(nv.errors.LowerError, match="debug_timeout"):
        Options(debug_timeout=0)


def test_debug_mode_costs_a_gemm_no_registers_and_no_spills():
    """Its texts have registers of their own, which live no longer than they do."""
    halves = nv.ShapeDtype((256, 256), nv.f16)
    arguments = (halves, halves, nv.ShapeDtype((256, 256), nv.f32))
    from chapters.ch5_warp_specialized_gemm import gemm

    plain, debug = (compiled(gemm, *arguments, debug=d).resources for d in (False, True))
    assert debug.spill_stores == debug.spill_loads == 0
    assert debug.registers == plain.registers
