"""`keras.dtype_policies`: in which dtypes layers keep weights and compute."""

from typing import Any

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.registry import serialize_object as _serialize_object
from trainkit.layers.base.dtype_policy import POLICIES as _POLICIES
from trainkit.layers.base.dtype_policy import DTypePolicy as DTypePolicy
from trainkit.layers.base.dtype_policy import DTypePolicy as FloatDTypePolicy
from trainkit.layers.base.dtype_policy import DTypePolicyMap as DTypePolicyMap
from trainkit.layers.base.dtype_policy import policy_of as get
from trainkit.layers.quantized.quantized_policies import AWQDTypePolicy as AWQDTypePolicy
from trainkit.layers.quantized.quantized_policies import GPTQDTypePolicy as GPTQDTypePolicy
from trainkit.layers.quantized.quantized_policies import Int4DTypePolicy as Int4DTypePolicy
from trainkit.layers.quantized.quantized_policies import (
    QuantizedDTypePolicy as QuantizedDTypePolicy,
)
from trainkit.layers.quantized.quantized_policies import (
    QuantizedFloat8DTypePolicy as QuantizedFloat8DTypePolicy,
)
from trainkit.layers.quantized.quantized_policies import TernaryDTypePolicy as TernaryDTypePolicy


def serialize(dtype_policy: DTypePolicy) -> dict[str, Any]:
    """A policy as a dict that `deserialize` reads.

    Args:
        dtype_policy: the policy.

    Example:
        >>> tk.dtype_policies.serialize(tk.layers.DTypePolicy("float32"))["class_name"]
        'DTypePolicy'
    """
    described: dict[str, Any] = _serialize_object(dtype_policy)
    return described


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> DTypePolicy:
    """The policy that `serialize` described.

    Args:
        config: what `serialize` gave.
        custom_objects: classes of policies that it may name, by name.

    Raises:
        ValueError: the config names no policy.

    Example:
        >>> config = tk.dtype_policies.serialize(tk.layers.DTypePolicy("float16"))
        >>> tk.dtype_policies.deserialize(config).name
        'float16'
    """
    policy: DTypePolicy = _POLICIES.deserialize(config, custom_objects)
    return policy


_explain_unknown_names(globals())
