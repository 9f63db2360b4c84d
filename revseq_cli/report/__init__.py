"""How results are shown: tables, previews and pictures for people, JSON for programs, progress, and error messages.

It imports core, operator and text, and gets the results as values; a preview reads what it shows through a source.
Only `words` knows the options of the command line.
"""
