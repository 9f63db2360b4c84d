"""Files as the system has them: positioned reads and writes, identities, new files and how they get their names.

It imports ground alone, and knows no format. `positioned` alone calls the system's
positioned reads and writes.
"""
