"""What is heard and said: rows, their identity, the hash-dealt splits and the pocket world."""
