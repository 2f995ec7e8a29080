"""Mutation tests: every synchronization of every correct kernel, deleted or made wrong, must be reported.

``operators`` and ``values`` say what is changed, ``edges`` which lines a report may name, ``judge`` who finds it,
``subjects`` in which kernels, ``survivors`` why the rest is right, ``table`` writes docs/mutations.md:

    python -m tests.sim.mutants           print the table's totals and what went wrong
    python -m tests.sim.mutants --write   write docs/mutations.md
"""
