# RUN: %python %s | FileCheck %s

"""A whole block that arrives where one thread should."""

from show import refused

import nvdsl as nv


@refused()
def kernel():
    bar = nv.Mbarriers(1, arrivals=1)[0]
    bar.arrive()
    # CHECK: VerifyError: too_many_arrivals.py:[[# @LINE - 1]]: 128 threads arrive at an mbarrier of 1 arrival
    # CHECK-SAME: (init at line [[# @LINE - 3]])
    # CHECK-NEXT: rule: a phase completes when as many arrivals have come as mbarrier.init says {{.*}}; the others count
    # CHECK-NEXT: fix: initialize with 128, or let one thread arrive
    bar.wait(0)
