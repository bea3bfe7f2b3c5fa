"""`tk.types`: types for annotations, and how objects say what they are traced as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import ActivationLike as ActivationLike
from trainkit.core.values.type_aliases import Axis as Axis
from trainkit.core.values.type_aliases import ConstraintLike as ConstraintLike
from trainkit.core.values.type_aliases import DataFormat as DataFormat
from trainkit.core.values.type_aliases import DTypeLike as DTypeLike
from trainkit.core.values.type_aliases import InitializerLike as InitializerLike
from trainkit.core.values.type_aliases import Padding as Padding
from trainkit.core.values.type_aliases import RegularizerLike as RegularizerLike
from trainkit.core.values.type_aliases import Seed as Seed
from trainkit.core.values.type_aliases import Shape as Shape
from trainkit.core.variable import Variable
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.graph.tracing.function import Function
from trainkit.graph.tracing.signature import SupportsTracingProtocol, TraceType
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names
from trainkit.tf.left_out import namespace as _namespace

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import TensorLike as TensorLike
else:  # `isinstance(x, tk.types.TensorLike)` asks for classes
    TensorLike = (
        Tensor | Variable | bool | int | float | complex | str | bytes | tuple | list | np.ndarray
    )

experimental = _namespace(
    "types.experimental",
    TraceType=TraceType,
    SupportsTracingProtocol=SupportsTracingProtocol,
    TensorLike=TensorLike,
    ConcreteFunction=ConcreteFunction,
    PolymorphicFunction=Function,
    GenericFunction=Function,
)

_explain_unknown_names("types", globals())
