"""Dtype policies: in which float type a layer keeps its weights, and in which it computes."""

from __future__ import annotations

from typing import Any

from trainkit.core import dtypes

_MIXED = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


class DTypePolicy:
    """The dtypes of a layer.

    Args:
        name: the name of a dtype, used for both, or `"mixed_float16"`, `"mixed_bfloat16"`: weights
            in float32, arithmetic in the smaller type.

    Raises:
        ValueError: the name is neither.
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = str(name or dtypes.floatx())
        if self.name in _MIXED:
            self.variable_dtype, self.compute_dtype = "float32", _MIXED[self.name]
            return
        try:
            self.variable_dtype = self.compute_dtype = dtypes.as_dtype(self.name).name
        except TypeError:
            raise ValueError(
                f"{name!r} is no dtype policy; use the name of a dtype, or one of {sorted(_MIXED)}"
            ) from None

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {"name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DTypePolicy:
        """The policy that `get_config` described."""
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypePolicy) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f'<DTypePolicy "{self.name}">'


_CHOSEN: list[DTypePolicy] = []


def dtype_policy() -> DTypePolicy:
    """The policy of layers that name none: float32 unless `set_dtype_policy` changed it."""
    return _CHOSEN[0] if _CHOSEN else DTypePolicy(dtypes.floatx())


def set_dtype_policy(policy: Any) -> None:
    """Set the policy of all layers made later that name none.

    Args:
        policy: a `DTypePolicy` or its name; `None` goes back to the default float.
    """
    _CHOSEN[:] = [] if policy is None else [policy_of(policy)]


def described_policy(policy: DTypePolicy) -> Any:
    """A policy as it stands in the config of a layer: its name."""
    return policy.name


def policy_of(dtype: Any) -> DTypePolicy:
    """The policy that the argument `dtype` of a layer means.

    Args:
        dtype: a policy, its name or config, a dtype, or `None` for the default.

    Raises:
        ValueError, TypeError: it names neither a policy nor a dtype.
    """
    if dtype is None:
        return dtype_policy()
    if isinstance(dtype, DTypePolicy):
        return dtype
    if isinstance(dtype, dict):
        return DTypePolicy(**dtype.get("config", dtype))
    if isinstance(dtype, str):
        return DTypePolicy(dtype)
    return DTypePolicy(dtypes.as_dtype(dtype).name)
