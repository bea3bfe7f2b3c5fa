"""What users give, as arrays of NumPy."""
