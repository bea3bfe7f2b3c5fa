"""Rows gathered from a table, and added back to it."""
