"""The commands: one module for each, the options that they share, and the jobs of a batch.

The only wing that imports Click, and the only one that may import all others. A command reads options, calls passes,
and hands the result to report.
"""
