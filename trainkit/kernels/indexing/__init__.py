"""Picking rows by position on a GPU, and adding rows up by position."""
