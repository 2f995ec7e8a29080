"""Reading a module: its operations, their operands and attributes, what arithmetic means."""
