"""Layers that change images, and what belongs to them, at random or always."""
