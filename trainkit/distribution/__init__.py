"""Keras's names for work on many devices."""

from trainkit.distribution.model_parallel import LayoutMap as LayoutMap
from trainkit.distribution.model_parallel import ModelParallel as ModelParallel
from trainkit.distribution.model_parallel import TensorLayout as TensorLayout
from trainkit.distribution.model_parallel import distribute_tensor as distribute_tensor
