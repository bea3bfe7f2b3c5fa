"""Fourier transforms, windows and spectrograms."""
