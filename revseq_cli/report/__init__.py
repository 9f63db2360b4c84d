"""How results are shown: tables, previews and pictures for people, JSON for programs, progress, and error messages.

It imports ground, operator and texts, and gets what the passes found; a preview reads what it shows
through a source. Only `words` knows the
options of the command line.
"""
