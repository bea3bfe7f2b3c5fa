"""Rows of PNG files, and the beam search over label sequences."""
