"""`tk.weights`: weights of PyTorch, Hugging Face and Keras as arrays, and into models."""

from trainkit.weights.sources import load as load
from trainkit.weights.sources import open as open
from trainkit.weights.weight_tables import NoSuchWeightError as NoSuchWeightError
from trainkit.weights.weight_tables import WeightTable as WeightTable
