"""`tk.keras.layers.experimental`: TensorFlow's earlier place of layers that have left it since."""

from __future__ import annotations

from trainkit.layers.dense import EinsumDense as EinsumDense
from trainkit.layers.experimental import preprocessing as preprocessing
