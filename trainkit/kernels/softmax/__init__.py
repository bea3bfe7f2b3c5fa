"""Softmax, cross-entropy, and their gradients."""
