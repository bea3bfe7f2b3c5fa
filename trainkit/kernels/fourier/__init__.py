"""Fourier transforms of float32."""
