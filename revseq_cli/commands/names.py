"""The commands, and what the help says of each in a line."""

# In the order of the help.
COMMANDS = {
    "run": "Reverse the sequences of a tensor.",
    "check": "Check a job against the constraints of DirectML.",
    "diff": "Compare two tensors, or an output with the expected one.",
    "batch": "Run many jobs (--resume skips those already done).",
    "show": "List the tensors in files, with a preview.",
    "convert": "Convert a tensor to another format without changing a bit.",
    "verify": "Check the examples of the operator in documentation.",
    "levels": "Show what each DirectML feature level accepts.",
    "export": "Export a job as a DxDispatch model, to run on DirectML under Windows.",
    "completion": "Print the completion script for a shell.",
    "help": "Show the help of a command, or a page of the manual.",
}
TOPICS = ("formats", "porting", "json")  # pages of the manual that are not about one command
