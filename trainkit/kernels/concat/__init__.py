"""Arrays put one behind the other."""
