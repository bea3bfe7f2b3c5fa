"""Graphs on a GPU: placement, fused kernels, CUDA graphs."""
