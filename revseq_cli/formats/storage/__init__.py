"""Files as the system has them: positioned reads and writes, new files, elements at an offset."""
