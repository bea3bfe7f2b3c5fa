"""The processor: how many cores may be used, and OpenBLAS, before NumPy loads it."""
