"""Layers of Keras that wrap a function or module of another library."""

from trainkit.layers.foreign.flax_layer import FlaxLayer as FlaxLayer
from trainkit.layers.foreign.jax_layer import JaxLayer as JaxLayer
from trainkit.layers.foreign.torch_module_wrapper import TorchModuleWrapper as TorchModuleWrapper
