"""Images changed by chance in NumPy, as `keras.preprocessing.image` has it."""
