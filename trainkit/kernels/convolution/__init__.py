"""Convolutions and their gradients, plain and depthwise."""
