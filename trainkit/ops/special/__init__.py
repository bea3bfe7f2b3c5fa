"""Functions that are integrals or solutions of equations, by Chebyshev series."""
