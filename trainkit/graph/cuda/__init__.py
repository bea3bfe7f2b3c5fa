"""Chains of element-wise operations as kernels of CUDA C++, one for each run of nodes."""
