"""Alignments of label sequences with time steps."""
