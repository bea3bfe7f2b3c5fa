"""Normalization and its gradients."""
