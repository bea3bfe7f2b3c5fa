"""Processes that train one model together: how many there are, and what they do in common."""
