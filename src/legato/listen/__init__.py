"""The transferred memory: a question heard by one model, answered by another from what the first remembers."""
