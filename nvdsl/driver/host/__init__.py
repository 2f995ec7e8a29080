"""The host part of a program (``func.func``), compiled once into Python closures over a frame of slots.

``builder`` turns the body into steps; ``arith``, ``memref``, ``scf`` and ``gpu`` hold one small function
for each operation. What is known when the executable is built is computed then, by the same functions.
"""
