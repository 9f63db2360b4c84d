"""The commands: one module for each, and the only importers of Click."""
