"""Files as the system has them: positioned reads and writes, identities, new files and how they get their names.

It imports ground alone, and knows no format. `positioned` is the only module that knows the operating system.
"""
