"""Graphs: functions traced once per signature, optimised, and replayed without Python's cost."""
