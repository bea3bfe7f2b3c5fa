"""Maxima, minima, sums and running sums."""
