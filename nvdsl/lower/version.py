"""The version of nvdsl: what was compiled or tuned by another one is not used again."""

__version__ = "0.1.0"
