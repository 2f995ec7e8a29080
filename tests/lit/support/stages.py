"""What one step of a schedule changes: `change` prints the module before and after the last of some steps."""

from nvdsl import schedule as sc
from nvdsl.call import module as modules
from nvdsl.errors import ScheduleError
from nvdsl.mlir import ir, threads
from nvdsl.schedule.work import Work


def change(payload, steps):
    """Print the module before and after the last of ``steps``, or the error of one."""
    with threads.mlir, modules.context(), ir.Location.unknown():
        work = Work(ir.Module.parse(payload.text))
        try:
            for step in steps:
                if step is steps[-1]:
                    print(f"BEFORE {step}\n{work.module}")
                step(work)
        except ScheduleError as error:
            print(error)
            return
        print(f"AFTER {steps[-1]}\n{work.module}")


def until(name, **other):
    """The steps of a small schedule with WMMA, up to the one called ``name``."""
    steps = sc.wmma_steps((32, 64, 32), (32, 32), **other)
    names = [one.name for one in steps]
    return steps[: names.index(name) + 1]
