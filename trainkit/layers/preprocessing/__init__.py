"""Layers that prepare data: texts, categories, features, images."""
