"""`tk.interop`: trainkit's functions, layers and models inside programs of PyTorch and JAX."""

from trainkit.interop.jax_functions import jax_function as jax_function
from trainkit.interop.torch_functions import torch_function as torch_function
