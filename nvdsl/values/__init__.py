"""Types of elements, traced values, and what Python's operators mean on them."""

from nvdsl.values.traced import Unsigned, Value, as_value, bitcast, cast, const, stored, wrap

__all__ = ["Unsigned", "Value", "as_value", "bitcast", "cast", "const", "stored", "wrap"]
