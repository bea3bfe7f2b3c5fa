"""`keras.dtype_policies`: in which dtypes layers keep weights and compute."""

from typing import Any

from trainkit.layers.dtype_policy import DTypePolicy as DTypePolicy
from trainkit.layers.dtype_policy import DTypePolicy as FloatDTypePolicy
from trainkit.layers.dtype_policy import policy_of as get


def serialize(dtype_policy: DTypePolicy) -> dict[str, Any]:
    """A policy as a dict that `deserialize` reads."""
    return {"class_name": "DTypePolicy", "config": dtype_policy.get_config()}


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> DTypePolicy:
    """The policy that `serialize` described.

    Args:
        config: what `serialize` gave.
        custom_objects: only `None`; there is one class of policies.

    Raises:
        ValueError: `custom_objects` is given, or the config names no policy.
    """
    if custom_objects:
        raise ValueError("dtype_policies.deserialize: custom_objects must be None")
    return DTypePolicy.from_config(config["config"])
