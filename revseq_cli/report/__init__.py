"""How results are shown: tables, previews and pictures for people, JSON for programs, progress, and error messages.

It imports ground, operator and texts, opens no file, and gets its data from the commands. Only `words` knows the
options of the command line.
"""
