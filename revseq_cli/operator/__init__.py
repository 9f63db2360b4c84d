"""DirectML's rules as data (`spec`), and the reversal of arrays (`kernel`).

The package imports only core, and knows no file, no engine and no option: a hint of `spec` names a setting and its
value. `text` uses the names of its tensors, and `pipeline` runs the kernel on blocks.
"""
