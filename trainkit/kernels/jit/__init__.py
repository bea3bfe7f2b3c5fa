"""Compiled kernels: when one takes over, how it is compiled, where it is kept."""
