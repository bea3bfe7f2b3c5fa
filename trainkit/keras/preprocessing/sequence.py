"""`keras.preprocessing.sequence`: sequences of different lengths."""

from trainkit.datasets.sequences import pad_sequences as pad_sequences
