"""Boxes that better ones overlap."""
