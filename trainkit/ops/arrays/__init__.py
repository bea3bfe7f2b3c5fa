"""Making, shaping, joining, indexing and sorting arrays."""
