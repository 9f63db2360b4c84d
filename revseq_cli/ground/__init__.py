"""What every wing stands on: errors, signals, memory, processes of our own, and what a tensor is without its values.

It imports no other wing. Above it stand `operator`, which adds DirectML's rules, and all the rest. What is here knows
no file format, no option and no console.
"""
