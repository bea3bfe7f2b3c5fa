"""Keras's names, for unmodified Keras imports: `from trainkit.keras.layers import Dense`.

Each family is the one at the top, under a second name: `trainkit.keras.layers` is
`trainkit.layers`, and importing either gives the same module object. What Keras keeps in `utils`,
`saving`, `config` and so on is listed in files here, which hold names only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit.core.names import unknown_name
from trainkit.core.process import garbage as _garbage
from trainkit.core.second_names import SecondNames

if TYPE_CHECKING:
    from trainkit.autodiff.recompute import recompute_grad as remat
    from trainkit.autodiff.stateless_scope import StatelessScope as StatelessScope
    from trainkit.autodiff.stateless_scope import SymbolicScope as SymbolicScope
    from trainkit.core.devices import device as device
    from trainkit.initializers import Initializer as Initializer
    from trainkit.keras import activations as activations
    from trainkit.keras import applications as applications
    from trainkit.keras import backend as backend
    from trainkit.keras import callbacks as callbacks
    from trainkit.keras import config as config
    from trainkit.keras import constraints as constraints
    from trainkit.keras import datasets as datasets
    from trainkit.keras import distillation as distillation
    from trainkit.keras import distribution as distribution
    from trainkit.keras import dtype_policies as dtype_policies
    from trainkit.keras import export as export
    from trainkit.keras import initializers as initializers
    from trainkit.keras import layers as layers
    from trainkit.keras import legacy as legacy
    from trainkit.keras import losses as losses
    from trainkit.keras import metrics as metrics
    from trainkit.keras import mixed_precision as mixed_precision
    from trainkit.keras import models as models
    from trainkit.keras import ops as ops
    from trainkit.keras import optimizers as optimizers
    from trainkit.keras import preprocessing as preprocessing
    from trainkit.keras import quantizers as quantizers
    from trainkit.keras import random as random
    from trainkit.keras import regularizers as regularizers
    from trainkit.keras import saving as saving
    from trainkit.keras import tree as tree
    from trainkit.keras import utils as utils
    from trainkit.keras import visualization as visualization
    from trainkit.keras import wrappers as wrappers
    from trainkit.keras.dtype_policies import FloatDTypePolicy as FloatDTypePolicy
    from trainkit.layers import DTypePolicy as DTypePolicy
    from trainkit.layers import InputSpec as InputSpec
    from trainkit.layers import KerasTensor as KerasTensor
    from trainkit.layers import Layer as Layer
    from trainkit.layers.base.keras_variable import KerasNameScope as name_scope
    from trainkit.layers.base.keras_variable import KerasVariable as Variable
    from trainkit.layers.base.operation import Operation as Operation
    from trainkit.layers.base.rematerialization import RematScope as RematScope
    from trainkit.losses import Loss as Loss
    from trainkit.metrics import Metric as Metric
    from trainkit.models import Input as Input
    from trainkit.models import Model as Model
    from trainkit.models import Sequential as Sequential
    from trainkit.models.graph_function import Function as Function
    from trainkit.ops.sampling.keras_random import SeedGenerator as SeedGenerator
    from trainkit.optimizers import Optimizer as Optimizer
    from trainkit.quantizers import Quantizer as Quantizer
    from trainkit.regularizers import Regularizer as Regularizer

_HERE = __name__ + "."

# The family as it is called here: the module that is meant.
_FAMILIES = {
    "activations": "trainkit.activations",
    "callbacks": "trainkit.callbacks",
    "constraints": "trainkit.constraints",
    "datasets": "trainkit.datasets",
    "distillation": "trainkit.distillation",
    "distribution": "trainkit.distribution",
    "initializers": "trainkit.initializers",
    "layers": "trainkit.layers",
    "losses": "trainkit.losses",
    "metrics": "trainkit.metrics",
    "models": "trainkit.models",
    "ops": "trainkit.ops",
    "optimizers": "trainkit.optimizers",
    "quantizers": "trainkit.quantizers",
    "random": "trainkit.ops.sampling.keras_random",
    "regularizers": "trainkit.regularizers",
    "visualization": "trainkit.visualization",
    "wrappers": "trainkit.wrappers",
}
_OWN = frozenset(
    "applications backend config dtype_policies export legacy mixed_precision preprocessing saving "
    "tree utils".split()
)
# name: the module that holds it
_MEMBERS = {
    "DTypePolicy": "trainkit.layers",
    "Function": "trainkit.models.graph_function",
    "FloatDTypePolicy": "trainkit.keras.dtype_policies",
    "Initializer": "trainkit.initializers",
    "Input": "trainkit.models",
    "InputSpec": "trainkit.layers",
    "KerasTensor": "trainkit.layers",
    "Layer": "trainkit.layers",
    "Loss": "trainkit.losses",
    "Metric": "trainkit.metrics",
    "Model": "trainkit.models",
    "Operation": "trainkit.layers.base.operation",
    "Optimizer": "trainkit.optimizers",
    "Quantizer": "trainkit.quantizers",
    "Regularizer": "trainkit.regularizers",
    "SeedGenerator": "trainkit.ops.sampling.keras_random",
    "Sequential": "trainkit.models",
    "RematScope": "trainkit.layers.base.rematerialization",
    "StatelessScope": "trainkit.autodiff.stateless_scope",
    "SymbolicScope": "trainkit.autodiff.stateless_scope",
    "Variable": "trainkit.layers.base.keras_variable",
    "device": "trainkit.core.devices",
    "name_scope": "trainkit.layers.base.keras_variable",
    "remat": "trainkit.autodiff.recompute",
}


_CALLED = {"Variable": "KerasVariable", "name_scope": "KerasNameScope", "remat": "recompute_grad"}


SecondNames(__name__, _FAMILIES).install()


def version() -> str:
    """The version of Keras whose names and file layout these are.

    Example:
        >>> tk.keras.version().split(".")[0]
        '3'
    """
    return __version__


__version__ = "3.15.0"


if not TYPE_CHECKING:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        if name == "__all__":  # asked for by `from trainkit.keras import *`
            return [n for n in __dir__() if not n.startswith("_")]
        if name in _FAMILIES or name in _OWN:
            value: Any = _garbage.import_module(_HERE + name)
        elif name in _MEMBERS:
            value = getattr(_garbage.import_module(_MEMBERS[name]), _CALLED.get(name, name))
        else:
            raise unknown_name(__name__, name, __dir__())
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*_FAMILIES, *_OWN, *_MEMBERS, "version", "__version__"})
