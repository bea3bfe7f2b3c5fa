"""`tk.weights`: weights of PyTorch, Hugging Face and Keras as arrays, and into models."""

from trainkit.weights.load_report import LoadReport as LoadReport
from trainkit.weights.load_report import Transfer as Transfer
from trainkit.weights.weight_files import load as load
from trainkit.weights.weight_files import open as open
from trainkit.weights.weight_loading import load_into as load_into
from trainkit.weights.weight_saving import save as save
from trainkit.weights.weight_tables import NoSuchWeightError as NoSuchWeightError
from trainkit.weights.weight_tables import WeightTable as WeightTable
