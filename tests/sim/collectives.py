"""Kernels in which a part of a warp executes what the whole of it should, or what is legal though lanes parted."""

import nvdsl as nv


@nv.jit
def aligned(n, out, *, op, lanes):
    """``op`` executed by the ``lanes`` whose number is below n[0] ("some"), or by all."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        t = nv.thread_id.x
        s = nv.smem((512,), nv.f32)
        ops = {
            "fence": nv.wgmma_fence,
            "commit": nv.wgmma_commit,
            "wait": lambda: nv.wgmma_wait(0),
            "registers": lambda: nv.setmaxnreg_dec(40),
            "barrier": nv.sync_threads,
            "cluster": nv.cluster_sync,
        }
        s[t] = 0.0
        if lanes == "all":
            ops[op]()
        elif nv.lane_id() < n[0]:
            ops[op]()
        out[t] = 1

    kernel()


@nv.jit
def masked(n, out, *, op, mask):
    """``op`` with a mask, executed by the lanes below n[0]."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        ops = {
            "shuffle": lambda: nv.shuffle_xor(t, 1, mask=mask),
            "down": lambda: nv.shuffle_down(t, 8, mask=mask),
            "vote": lambda: nv.i32(nv.vote_any(t > 3, mask=mask)),
            "ballot": lambda: nv.ballot(t > 3, mask=mask),
            "meet": lambda: nv.sync_warp(mask),
            "elect": lambda: nv.i32(nv.elect()),
        }
        if t < n[0]:
            result = ops[op]()
            out[t] = t if op == "meet" else result

    kernel()


@nv.jit
def reduced(n, x, out):
    """The usual sum of the lower lanes: upper lanes read what is undefined, and nobody uses it."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        if t < n[0]:
            total = x[t]
            for step in (8, 4, 2, 1):
                total += nv.shuffle_down(total, step, mask=0xFFFF)
            if t == 0:
                out[0] = total

    kernel()


@nv.jit
def handed_on(x, out, *, first):
    """One lane stores and arrives, another waits and reads, in the branches of one `if`."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((4,), nv.f32)
        ready, taken = nv.Mbarriers(1, arrivals=1), nv.Mbarriers(1, arrivals=1)
        t = nv.thread_id.x
        if t == first:
            for k in nv.range(3):
                ready[0].wait(k & 1)
                out[k] = s[0]
                taken[0].arrive()
        elif t == 9:
            for k in nv.range(3):
                s[0] = x[k]
                ready[0].arrive()
                taken[0].wait(k & 1)

    kernel()


@nv.jit
def met_in_branches(x, out, *, shuffle):
    """Lanes in the branches of an `if` exchange, in each turn of a loop."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((32,), nv.f32)
        t = nv.thread_id.x
        value = x[t]
        for _ in nv.range(3):
            if t < 12:
                if shuffle:
                    value = value + nv.shuffle_xor(value, 16)
                else:
                    s[t] = value
                    nv.sync_warp()
                    value = value + s[(t + 16) % 32]
            else:
                if shuffle:
                    value = nv.shuffle_xor(value, 16) * 2.0
                else:
                    s[t] = value
                    nv.sync_warp()
                    value = s[(t + 16) % 32] * 2.0
            nv.sync_warp()
        out[t] = value

    kernel()


@nv.jit
def ids(out):
    """The ids of warp and warpgroup, asked for by a part of the lanes alone."""

    @nv.kernel(grid=1, block=256)
    def kernel():
        t = nv.thread_id.x
        out[t] = -1
        if nv.lane_id() == 5:
            out[t] = nv.warp_id() * 10 + nv.warpgroup_id()

    kernel()


@nv.jit
def product(a, b, d, *, differs):
    """A product whose operand ``differs`` between the warps of the warpgroup: "A", "B", None."""
    a_tma, b_tma = nv.TMA(a, (128, 64), swizzle=128), nv.TMA(b, (128, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A, B = nv.smem((128, 64), a.dtype, swizzle=128), nv.smem((128, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        acc = nv.accumulator(64, 64, nv.f32)
        which = nv.warp_id() % 2 * 64
        acc += A.rows(which if differs == "A" else 0, 64) @ B.rows(which if differs == "B" else 64, 64)
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    kernel()


@nv.jit
def register_counts(out, *, meet, same=True, everyone=True):
    """A warpgroup changes its registers twice."""

    @nv.kernel(grid=1, block=256)
    def kernel():
        t = nv.thread_id.x
        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(64)
            if meet:
                nv.named_barrier_sync(1, 128)
            if nv.warp_id() == 3 and not same:
                nv.setmaxnreg_dec(32)
            elif everyone or nv.warp_id() > 0:
                nv.setmaxnreg_dec(24)
        out[t] = t

    kernel()


@nv.jit
def released_by_a_warpgroup(a, b, d, *, reads):
    """One thread of a warpgroup frees a slot after its wait for wgmma, which speaks for the four warps' wgmmas; not for
    ordinary loads (``reads``)."""
    a_tma, b_tma = nv.TMA(a, (64, 64), swizzle=128), nv.TMA(b, (64, 64), swizzle=128)

    @nv.kernel(grid=1, block=256)
    def kernel():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        ring = nv.Ring(1, bytes=A.bytes + B.bytes, consumers=1)
        t = nv.thread_id.x
        if t >= 128:
            if t == 128:
                state = ring.producer_state()
                for k in nv.range(3):
                    full = ring.acquire(state)
                    a_tma.load(A, full, (0, k * 64))
                    b_tma.load(B, full, (k * 64, 0))
                    state = state.next()
        else:
            acc = nv.accumulator(64, 64, nv.f32)
            state = ring.consumer_state()
            other = nv.f32(0.0)
            for _ in nv.range(3):
                ring.wait(state)
                acc += A @ B
                if reads:
                    other += nv.f32(A[t % 64, 0])
                nv.wgmma_wait(0)
                ring.release(state, t == 0)
                state = state.next()
            acc.store(d, (0, 0))
            if reads:
                d[0, 0] = other

    kernel()


@nv.jit
def folded(x, out, *, mask, by, add):
    @nv.kernel(grid=1, block=32)
    def body():
        lane = nv.lane_id()
        if lane < 16:
            value = x[lane]
            for d in by:
                value = value + nv.shuffle_xor(value, d, mask=mask)  # SHUFFLE
            if lane == 0:
                if add:
                    out.atomic_add(0, value)
                else:
                    out[0] = value

    body()
