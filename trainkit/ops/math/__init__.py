"""Arithmetic and functions by element, reductions and statistics."""
