"""The commands: one module for each, the options that they share, and the jobs of a batch.

A command reads its options, calls `pipeline`, `porting` or `pages`, and prints what `report` makes of the result. Only
this package imports Click.
"""
