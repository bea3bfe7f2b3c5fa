"""trainkit: a Keras-style training toolkit with eager custom loops.

`import trainkit as tk` gives TensorFlow 2's names for tensors, tapes, functions, data and
checkpoints, and Keras's for layers, models, optimizers, losses, metrics and callbacks. What a
script does not use is not imported: the names of whole families are loaded when they are first
asked for.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from trainkit.core.cpu import blas_config as _blas  # isort: skip - before anything imports NumPy
from trainkit import ops as ops
from trainkit.autodiff.custom_vjp import custom_gradient as custom_gradient
from trainkit.autodiff.tape import GradientTape as GradientTape
from trainkit.autodiff.tape import UnconnectedGradients as UnconnectedGradients
from trainkit.core import errors as errors
from trainkit.core.devices import device as device
from trainkit.core.dispatch.trace_state import executing_eagerly as executing_eagerly
from trainkit.core.dtypes import DType as DType
from trainkit.core.dtypes import as_dtype as as_dtype
from trainkit.core.dtypes import bfloat16 as bfloat16
from trainkit.core.dtypes import bool_ as bool
from trainkit.core.dtypes import complex64 as complex64
from trainkit.core.dtypes import complex128 as complex128
from trainkit.core.dtypes import float16 as float16
from trainkit.core.dtypes import float32 as float32
from trainkit.core.dtypes import float64 as float64
from trainkit.core.dtypes import int8 as int8
from trainkit.core.dtypes import int16 as int16
from trainkit.core.dtypes import int32 as int32
from trainkit.core.dtypes import int64 as int64
from trainkit.core.dtypes import string as string
from trainkit.core.dtypes import uint8 as uint8
from trainkit.core.dtypes import uint16 as uint16
from trainkit.core.dtypes import uint32 as uint32
from trainkit.core.dtypes import uint64 as uint64
from trainkit.core.process import garbage as _garbage
from trainkit.core.second_names import SecondNames as _SecondNames
from trainkit.core.shapes import TensorShape as TensorShape
from trainkit.core.tensor import Tensor as Tensor
from trainkit.core.tensor import convert_to_tensor as convert_to_tensor
from trainkit.core.tensor import is_tensor as is_tensor
from trainkit.core.variable import Variable as Variable
from trainkit.kernels.threads.malloc import keep_freed_memory as _keep_freed_memory
from trainkit.ops.arrays.conversion import stop_gradient as stop_gradient
from trainkit.ops.core import interchange as _interchange

if TYPE_CHECKING:
    from trainkit import activations as activations
    from trainkit import array_api as array_api
    from trainkit import audio as audio
    from trainkit import autodiff as autodiff
    from trainkit import autograph as autograph
    from trainkit import bitwise as bitwise
    from trainkit import callbacks as callbacks
    from trainkit import checkpoints as checkpoints
    from trainkit import compat as compat
    from trainkit import config as config
    from trainkit import constraints as constraints
    from trainkit import data as data
    from trainkit import datasets as datasets
    from trainkit import debugging as debugging
    from trainkit import distillation as distillation
    from trainkit import distribute as distribute
    from trainkit import distribution as distribution
    from trainkit import dtype_policies as dtype_policies
    from trainkit import dtypes as dtypes
    from trainkit import eager as eager
    from trainkit import experimental as experimental
    from trainkit import hub as hub
    from trainkit import image as image
    from trainkit import initializers as initializers
    from trainkit import interop as interop
    from trainkit import io as io
    from trainkit import keras as keras
    from trainkit import layers as layers
    from trainkit import linalg as linalg
    from trainkit import loggers as loggers
    from trainkit import lookup as lookup
    from trainkit import losses as losses
    from trainkit import math as math
    from trainkit import metrics as metrics
    from trainkit import mixed_precision as mixed_precision
    from trainkit import models as models
    from trainkit import nest as nest
    from trainkit import nn as nn
    from trainkit import onnx as onnx
    from trainkit import optimizers as optimizers
    from trainkit import profiler as profiler
    from trainkit import quantizers as quantizers
    from trainkit import random as random
    from trainkit import regularizers as regularizers
    from trainkit import runs as runs
    from trainkit import saved_graph as saved_graph
    from trainkit import saved_model as saved_model
    from trainkit import saving as saving
    from trainkit import signal as signal
    from trainkit import strings as strings
    from trainkit import summary as summary
    from trainkit import test as test
    from trainkit import train as train
    from trainkit import types as types
    from trainkit import utils as utils
    from trainkit import version as version
    from trainkit import visualization as visualization
    from trainkit import weights as weights
    from trainkit import wrappers as wrappers
    from trainkit.aliases import install_as as install_as
    from trainkit.autodiff import recompute_grad as recompute_grad
    from trainkit.core.tensor_spec import TensorSpec as TensorSpec
    from trainkit.initializers import Initializer as Initializer
    from trainkit.layers import DTypePolicy as DTypePolicy
    from trainkit.layers import InputSpec as InputSpec
    from trainkit.layers import KerasTensor as KerasTensor
    from trainkit.layers import Layer as Layer
    from trainkit.losses import Loss as Loss
    from trainkit.metrics import Metric as Metric
    from trainkit.models import Input as Input
    from trainkit.models import Model as Model
    from trainkit.models import Sequential as Sequential
    from trainkit.optimizers import Optimizer as Optimizer
    from trainkit.quantizers import Quantizer as Quantizer
    from trainkit.random import normal as random_normal
    from trainkit.random import uniform as random_uniform
    from trainkit.regularizers import Regularizer as Regularizer
    from trainkit.summary.tensor_protos import make_ndarray as make_ndarray
    from trainkit.summary.tensor_protos import make_tensor_proto as make_tensor_proto
    from trainkit.tf import *

__version__ = "0.2.0"

_keep_freed_memory()

# name: the module that is the value, or that holds it
_FAMILIES = {
    "activations": "trainkit.activations",
    "array_api": "trainkit.array_api",
    "audio": "trainkit.tf.audio",
    "autodiff": "trainkit.autodiff",
    "autograph": "trainkit.tf.autograph",
    "bitwise": "trainkit.tf.bitwise",
    "callbacks": "trainkit.callbacks",
    "checkpoints": "trainkit.checkpoints",
    "compat": "trainkit.compat",
    "config": "trainkit.tf.config",
    "constraints": "trainkit.constraints",
    "data": "trainkit.data",
    "datasets": "trainkit.datasets",
    "debugging": "trainkit.tf.debugging",
    "distillation": "trainkit.distillation",
    "dtype_policies": "trainkit.keras.dtype_policies",
    "distribute": "trainkit.distribution.distribute",
    "distribution": "trainkit.distribution",
    "dtypes": "trainkit.tf.dtypes",
    "eager": "trainkit.eager",
    "experimental": "trainkit.compat.experimental",
    "hub": "trainkit.weights.hub",
    "image": "trainkit.tf.image",
    "initializers": "trainkit.initializers",
    "interop": "trainkit.interop",
    "io": "trainkit.tf.io",
    "errors": "trainkit.core.errors",
    "keras": "trainkit.keras",
    "layers": "trainkit.layers",
    "linalg": "trainkit.tf.linalg",
    "loggers": "trainkit.callbacks.loggers",
    "lookup": "trainkit.data.lookup",
    "losses": "trainkit.losses",
    "math": "trainkit.tf.math",
    "metrics": "trainkit.metrics",
    "mixed_precision": "trainkit.keras.mixed_precision",
    "models": "trainkit.models",
    "nest": "trainkit.tf.nest",
    "nn": "trainkit.tf.nn",
    "onnx": "trainkit.onnx",
    "optimizers": "trainkit.optimizers",
    "profiler": "trainkit.profiler",
    "quantizers": "trainkit.quantizers",
    "random": "trainkit.random",
    "regularizers": "trainkit.regularizers",
    "runs": "trainkit.runs",
    "saved_graph": "trainkit.saved_graph",
    "saved_model": "trainkit.saved_graph.saved_model",
    "saving": "trainkit.keras.saving",
    "signal": "trainkit.tf.signal",
    "strings": "trainkit.tf.strings",
    "summary": "trainkit.summary",
    "test": "trainkit.tf.test",
    "train": "trainkit.tf.train",
    "utils": "trainkit.keras.utils",
    "types": "trainkit.tf.types",
    "version": "trainkit.tf.version",
    "visualization": "trainkit.visualization",
    "weights": "trainkit.weights",
    "wrappers": "trainkit.wrappers",
}
# name: the module that holds it, and its name there
_MEMBERS = {
    "DTypePolicy": ("trainkit.layers", "DTypePolicy"),
    "Initializer": ("trainkit.initializers", "Initializer"),
    "Input": ("trainkit.models", "Input"),
    "InputSpec": ("trainkit.layers", "InputSpec"),
    "KerasTensor": ("trainkit.layers", "KerasTensor"),
    "Layer": ("trainkit.layers", "Layer"),
    "Loss": ("trainkit.losses", "Loss"),
    "Metric": ("trainkit.metrics", "Metric"),
    "Model": ("trainkit.models", "Model"),
    "Optimizer": ("trainkit.optimizers", "Optimizer"),
    "Quantizer": ("trainkit.quantizers", "Quantizer"),
    "Regularizer": ("trainkit.regularizers", "Regularizer"),
    "Sequential": ("trainkit.models", "Sequential"),
    "TensorSpec": ("trainkit.core.tensor_spec", "TensorSpec"),
    "install_as": ("trainkit.aliases", "install_as"),
    "make_ndarray": ("trainkit.summary.tensor_protos", "make_ndarray"),
    "make_tensor_proto": ("trainkit.summary.tensor_protos", "make_tensor_proto"),
    "random_normal": ("trainkit.random", "normal"),
    "random_uniform": ("trainkit.random", "uniform"),
    "recompute_grad": ("trainkit.autodiff", "recompute_grad"),
}

# `from trainkit.train import Example`, as TensorFlow's modules are imported
_SecondNames(__name__, _FAMILIES).install()

# What this file uses itself, and folders whose content has other names here.
_NOT_EXPORTED = {
    "Any",
    "ModuleType",
    "TYPE_CHECKING",
    "aliases",
    "annotations",
    "applications",
    "journal",
    "cli",
    "collectives",
    "compiler",
    "core",
    "graph",
    "image_generators",
    "kernels",
    "tf",
}


if not TYPE_CHECKING:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        if name in _FAMILIES:
            try:
                value: Any = _garbage.import_module(_FAMILIES[name])
            except ModuleNotFoundError as error:
                raise AttributeError(str(error)) from error
        elif name in _MEMBERS:
            module, member = _MEMBERS[name]
            value = getattr(_garbage.import_module(module), member)
        elif name == "__all__":  # asked for by `from trainkit import *`
            return __dir__()
        elif name.startswith("__"):
            raise AttributeError(f"module 'trainkit' has no attribute {name!r}")
        else:
            names = _from_tf()
            if name not in names:
                from trainkit.tf.left_out import not_here

                raise not_here("", name, __dir__())
            value = names[name]
        globals()[name] = value
        return value


def _from_tf() -> dict[str, Any]:
    """TensorFlow's functions and classes, without the files that they stand in."""
    names = vars(_garbage.import_module("trainkit.tf"))
    return {n: x for n, x in names.items() if n[0] != "_" and not isinstance(x, ModuleType)}


def __dir__() -> list[str]:
    own_names = {n for n in globals() if n[0] != "_"} - _NOT_EXPORTED
    return sorted({*own_names, *_from_tf(), *_FAMILIES, *_MEMBERS})
