"""Making, shaping, joining and sorting arrays."""
