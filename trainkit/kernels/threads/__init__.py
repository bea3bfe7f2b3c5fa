"""Threads: the pool for machine code, the sizes of all pools, memory that is kept."""
