"""What every wing stands on: errors, signals, memory, and what a tensor is. It imports no other wing."""
