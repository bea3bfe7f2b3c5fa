"""Batching rules that need more than a line, by family."""
