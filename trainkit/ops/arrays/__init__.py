"""Arrays: making, shaping, concatenating, sorting."""
