"""Runs to look at: their facts, their curves in a terminal, and a page of one file."""
