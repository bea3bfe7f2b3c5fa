"""Layers whose weights are kept in few bits; loaded when one is asked for."""
