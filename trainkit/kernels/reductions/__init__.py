"""Extremes, sums and running sums."""
