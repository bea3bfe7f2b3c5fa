"""Tensors, variables and primitives: what everything else stands on."""
