"""From a Python function to MLIR: source locations and control flow. Each file uses only files above it.

location   which line of the user's a frame, an op or an error belongs to
liveness   which places a statement must merge or carry
source     a function's syntax tree, from its source
exits, expressions, transform
           AST -> AST: statements stay, with calls of the run-time side around them
carry      what a name holds: taken apart, merged, or undefined
storage    the ways in which Python keeps state
reach      which state a function can reach
watch      state that a traced region changes without carrying it
limits     loops and recursion that Python would trace without end
regions    scf ops while they are being built
range      ``nv.range``
state      what a traced loop carries
logic      run-time side of `and`, `or`, `not`, comparisons, `x if c else y`, `assert`
branches, loops
           run-time side of `if`; of `for` and `while`
handlers   run-time side of `try`
explain    Python's and NumPy's own exceptions, said as ours
printing   run-time side of `print`
control    all of the run-time side that a rewritten function calls
calls      run-time side of a call: builtins on traced values, helpers rewritten on call
rewrite    a function -> the same function with its control flow traced
"""
