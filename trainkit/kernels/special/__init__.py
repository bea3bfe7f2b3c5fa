"""Special functions of one element."""
