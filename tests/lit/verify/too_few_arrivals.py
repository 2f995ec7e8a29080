# RUN: %python %s | FileCheck %s

"""mbarrier.init with more arrivals than come: once, and round by round in a ring."""

from show import array, refused

import nvdsl as nv
from nvdsl.ops import tma


@refused()
def once():
    bar = nv.Mbarriers(1, arrivals=8)[0]
    # CHECK: VerifyError: too_few_arrivals.py:[[# @LINE - 1]]: the mbarrier waits for 8 arrivals, and 4 arrive
    bar.arrive(predicate=nv.lane_id() == 0)
    # CHECK-SAME: (line [[# @LINE - 1]]) at it;
    bar.wait(0)
    # CHECK-SAME: the wait at line [[# @LINE - 1]] hangs
    # CHECK-NEXT: rule: a phase completes when as many arrivals have come as mbarrier.init says
    # CHECK-NEXT: fix: initialize with 4, or let all arrive


@refused(array(nv.f32, 64), block=256)
def ring(x):
    data = nv.smem((2, 8, 64), nv.f32)
    slots = nv.Ring(2, bytes=256, consumers=1)
    if nv.warpgroup_id() == 0:
        if nv.thread_id.x == 0:
            state = slots.producer_state()
            for _ in nv.range(8):
                full = slots.acquire(state)
                tma.bulk_load(data[state.stage].panel(0, (64,)), x, 256, full)
                state = state.next()
    else:
        state = slots.consumer_state()
        for _ in nv.range(8):
            slots.wait(state)
            state = state.next()
    # CHECK: VerifyError: too_few_arrivals.py:[[# @LINE - 13]]: the mbarrier waits for 1 arrival, and nothing arrives at it
    # CHECK-SAME: the wait at line [[# @LINE - 9]] hangs
    # CHECK: fix: arrive(), or arrive_expect_tx(bytes)


@refused(array(nv.f32, 64))
def expect_is_no_arrival(x):
    data = nv.smem((64,), nv.f32)
    full = nv.Mbarriers(1, arrivals=1)[0]
    # CHECK: VerifyError: too_few_arrivals.py:[[# @LINE - 1]]: the mbarrier waits for 1 arrival, and nothing arrives at it
    # CHECK: rule: {{.*}}; expect_tx alone is no arrival
    if nv.thread_id.x == 0:
        full.expect_tx(256)
        tma.bulk_load(data, x, 256, full)
    full.wait(0)
