"""Keras's names for work on many devices."""

from trainkit.distribution.data_parallel import DataParallel as DataParallel
from trainkit.distribution.data_parallel import DeviceMesh as DeviceMesh
from trainkit.distribution.data_parallel import distribution as distribution
from trainkit.distribution.data_parallel import get_device_count as get_device_count
from trainkit.distribution.data_parallel import initialize as initialize
from trainkit.distribution.data_parallel import list_devices as list_devices
from trainkit.distribution.data_parallel import set_distribution as set_distribution
from trainkit.distribution.model_parallel import LayoutMap as LayoutMap
from trainkit.distribution.model_parallel import ModelParallel as ModelParallel
from trainkit.distribution.model_parallel import TensorLayout as TensorLayout
from trainkit.distribution.model_parallel import distribute_tensor as distribute_tensor
