"""Random correct kernels, and single mutations of them: who reports the mutants, and who does not.

``steps`` are the ways in which warps, blocks and copies hand values over; ``kernels`` draws a kernel as a row of them,
with what NumPy says must come out; the mutations and the judge are those of ``tests.sim.mutants``. ``python -m
tests.hunt`` runs it (`make hunt SEED=1 COUNT=100`).
"""
