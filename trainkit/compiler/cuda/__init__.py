"""Steps as CUDA text."""
