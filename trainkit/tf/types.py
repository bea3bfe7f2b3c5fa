"""`tk.types`: types for annotations, and how objects say what they are traced as."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from trainkit.core.tensor import Tensor
from trainkit.core.variable import Variable
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.graph.tracing.function import Function
from trainkit.graph.tracing.signature import SupportsTracingProtocol, TraceType
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

TensorLike = (
    Tensor | Variable | bool | int | float | complex | str | bytes | tuple | list | np.ndarray
)

experimental = SimpleNamespace(
    TraceType=TraceType,
    SupportsTracingProtocol=SupportsTracingProtocol,
    TensorLike=TensorLike,
    ConcreteFunction=ConcreteFunction,
    PolymorphicFunction=Function,
    GenericFunction=Function,
)

_explain_unknown_names("types", globals())
