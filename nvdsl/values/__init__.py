"""Types of elements, traced values, and what Python's operators mean on them."""
