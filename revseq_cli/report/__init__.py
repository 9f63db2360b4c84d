"""What a person or a program reads of a result: tables, previews, pictures, JSON, progress, and the words of errors.

It imports ground, operator and texts, and opens no file: it gets what the passes found. `words` alone knows what
settings are called on the command line.
"""
