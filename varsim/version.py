"""The versions of the package, of the scenario schema, and of the engine's semantics."""

__version__ = "0.1.0"

SCHEMA_VERSION = 1

# Raised whenever the same scenario may give other numbers than before.
ENGINE_VERSION = 6
