"""Bodies that Numba compiles; only `kernels.registry` imports them, when that pays."""
