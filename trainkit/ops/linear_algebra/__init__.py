"""Products of matrices, linear systems and factorizations."""
