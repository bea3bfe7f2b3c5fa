"""Calls of kernels whose sizes and weights stay, with what these decide gathered once."""
