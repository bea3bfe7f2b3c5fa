"""Batches made in Python while a model trains: the older tools of Keras."""
