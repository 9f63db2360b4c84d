"""What DirectML says, as data (`spec`), and the reversal of arrays (`kernel`).

It imports ground alone, and knows no file, no engine and no option: a hint of `spec` names a setting and its value.
`texts` uses the names of its tensors, and `passes` runs the kernel on blocks.
"""
