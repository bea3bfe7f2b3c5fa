"""`keras.preprocessing.sequence`: sequences of different lengths, windows, and pairs of words."""

from trainkit.datasets.sequences import pad_sequences as pad_sequences
from trainkit.datasets.texts.skipgrams import make_sampling_table as make_sampling_table
from trainkit.datasets.texts.skipgrams import skipgrams as skipgrams
from trainkit.models.generators.series_batches import TimeseriesGenerator as TimeseriesGenerator
