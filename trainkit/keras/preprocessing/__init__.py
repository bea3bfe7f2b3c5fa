"""`keras.preprocessing`: sequences of different lengths."""

from trainkit.keras.preprocessing import sequence as sequence
