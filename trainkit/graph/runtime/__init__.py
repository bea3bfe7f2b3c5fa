"""Graphs as programs: fusion, and which tier runs."""
