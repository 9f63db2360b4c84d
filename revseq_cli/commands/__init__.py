"""The commands: one module for each, the options that they share, and the jobs of a batch.

A command reads its options, calls `passes`, and prints what `report` makes of the result. Only this wing imports Click,
and only this one may import all others.
"""
