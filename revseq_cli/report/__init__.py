"""Everything that a person or a program reads of the result. It imports ground, operator and texts."""
