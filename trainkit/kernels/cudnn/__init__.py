"""Kernels of cuDNN, for arrays of a GPU."""
