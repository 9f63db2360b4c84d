"""Examples on documentation pages: found, computed again, and put right; and the pages' tables of feature levels.

It imports core, operator, text, formats, pipeline and porting.
"""
