"""Recurrent layers, their cells, and what wraps them."""
