"""Dtype policies: in which float type a layer keeps its weights, and in which it computes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.registry import Registry, deserialize_object, serialize_object
from trainkit.layers.base.autocast import to_input

POLICIES = Registry("dtype_policies", "dtype policy")
# A hook: the policies of quantized layers are above this file, and enter themselves.
BY_NAME: list[Callable[[str], Any]] = []
"""What knows policies of other kinds by their names; each gives one or `None`."""

_NAMED_BY_DEFAULT = ("name", "source_name")
_MIXED = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


class DTypePolicy:
    """The dtypes of a layer.

    Args:
        name: the name of a dtype, used for both, or `"mixed_float16"`, `"mixed_bfloat16"`: weights
            in float32, arithmetic in the smaller type. By default the policy that
            `set_dtype_policy` chose.

    Attributes:
        variable_dtype: name of the dtype of weights.
        compute_dtype: name of the dtype of the arithmetic.
        quantization_mode: how weights are kept in few bits; `None` for floats.

    Raises:
        TypeError: the name is no text.
        ValueError: the name is neither.

    Example:
        >>> policy = tk.layers.DTypePolicy("mixed_float16")
        >>> policy.compute_dtype, policy.variable_dtype
        ('float16', 'float32')
    """

    quantization_mode: str | None = None
    name: str
    variable_dtype: str
    compute_dtype: str

    def __init__(self, name: str | None = None) -> None:
        if name is None:
            name = dtype_policy().name
        if not isinstance(name, str):
            raise TypeError(f"the name of a dtype policy must be a text, got {name!r}")
        self.name = name
        if self.name in _MIXED:
            self.variable_dtype, self.compute_dtype = "float32", _MIXED[self.name]
            return
        try:
            self.variable_dtype = self.compute_dtype = dtypes.as_dtype(self.name).name
        except TypeError:
            raise ValueError(
                f"{name!r} is no dtype policy; use the name of a dtype, or one of {sorted(_MIXED)}"
            ) from None

    @property
    def _config_identity(self) -> tuple[str, str, str | None] | None:
        return ("keras", "DTypePolicy", None) if type(self) is DTypePolicy else None

    def at(self, path: str | None) -> DTypePolicy:
        """The policy of the layer with this path."""
        return self

    def convert_input(self, x: Any, autocast: bool, dtype: Any) -> Any:
        """An argument of a layer call in the dtype in which the layer computes.

        Args:
            x: a tensor, array or symbolic tensor; all else comes back as it is.
            autocast: whether floats are cast.
            dtype: the dtype for them.
        """
        return to_input(x, dtypes.as_dtype(dtype) if autocast else None)

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {"name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The policy that `get_config` described."""
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypePolicy) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f'<{type(self).__name__} "{self.name}">'


class DTypePolicyMap(DTypePolicy, MutableMapping[str, DTypePolicy]):
    """Policies by the paths of layers; the arithmetic of a layer by itself is the default's.

    A layer is looked up by its `path`: first as it is, then among the keys as regular expressions
    that fit all of it.

    Args:
        default_policy: for the paths that no key fits; by default what `set_dtype_policy` chose.
        policy_map: policies by path.

    Raises:
        ValueError: the default is a map itself.
        TypeError: `policy_map` is no dict.

    Example:
        >>> policies = tk.dtype_policies.DTypePolicyMap()
        >>> policies["encoder/dense"] = tk.layers.DTypePolicy("mixed_bfloat16")
        >>> policies["encoder/dense"].compute_dtype
        'bfloat16'
    """

    def __init__(self, default_policy: Any = None, policy_map: Any = None) -> None:
        if isinstance(default_policy, DTypePolicyMap):
            raise ValueError("DTypePolicyMap: default_policy can't be a DTypePolicyMap")
        if policy_map is not None and not isinstance(policy_map, dict):
            raise TypeError(f"DTypePolicyMap: policy_map must be a dict, got {policy_map!r}")
        self._given = default_policy
        self.default_policy = policy_of(default_policy)
        self._policies: dict[str, DTypePolicy] = {}
        for key, policy in (policy_map or {}).items():
            self[key] = policy

    name = property(
        lambda self: f"map_{self.default_policy.name}", doc="`map_` and the default policy's name."
    )
    variable_dtype = property(
        lambda self: self.default_policy.variable_dtype, doc="That of the default policy."
    )
    compute_dtype = property(
        lambda self: self.default_policy.compute_dtype, doc="That of the default policy."
    )
    quantization_mode = property(
        lambda self: self.default_policy.quantization_mode, doc="That of the default policy."
    )

    def at(self, path: str | None) -> DTypePolicy:
        """The policy of the layer with this path; the default for one that has none yet."""
        return self.default_policy if path is None else self[path]

    def __getitem__(self, key: str) -> DTypePolicy:
        # A path is no pattern of itself: names may have a "." or "+" in them.
        if key in self._policies:
            return self._policies[key]
        fitting = [pattern for pattern in self._policies if re.fullmatch(pattern, key)]
        if len(fitting) > 1:
            raise ValueError(f"the path {key!r} fits several keys of the policies: {fitting}")
        return self._policies[fitting[0]] if fitting else self.default_policy

    def __setitem__(self, key: str, policy: Any) -> None:
        if key in self._policies:
            raise ValueError(f"there is a policy for {key!r} already: {self._policies[key]!r}")
        try:
            self._policies[key] = policy_of(policy)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"{policy!r} is no policy for {key!r}: {error}") from error

    def __delitem__(self, key: str) -> None:
        del self._policies[key]

    def __contains__(self, key: object) -> bool:
        return key in self._policies

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)

    def get_config(self) -> dict[str, Any]:
        described = serialize_object(self._policies)
        if self._given is None:
            # The default policy may be another when the config is read, and counts for all then:
            # what only repeats today's default is left open.
            for policy in described.values():
                policy["config"] = {
                    key: None if key in _NAMED_BY_DEFAULT else value
                    for key, value in policy["config"].items()
                }
        return {"default_policy": serialize_object(self._given), "policy_map": described}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> DTypePolicyMap:
        """The map that `get_config` described.

        Args:
            config: what it gave.
            custom_objects: classes that it may name, by name.
        """
        return cls(**{key: deserialize_object(x, custom_objects) for key, x in config.items()})

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DTypePolicyMap):
            return False
        mine, theirs = (
            (self.default_policy, self._policies),
            (other.default_policy, other._policies),
        )
        return mine == theirs

    def __repr__(self) -> str:
        listed = [(key, policy.name) for key, policy in self._policies.items()]
        return f"<DTypePolicyMap default_policy={self.default_policy.name}, mapping={listed}>"


POLICIES.add(DTypePolicy, "FloatDTypePolicy", "Policy")
POLICIES.add(DTypePolicyMap)

# Empty stands for the default float, which `set_floatx` may change at any time.
_CHOSEN: list[DTypePolicy] = []


def dtype_policy() -> DTypePolicy:
    """The policy of layers that name none: float32 unless `set_dtype_policy` changed it.

    Example:
        >>> tk.mixed_precision.dtype_policy().name
        'float32'
    """
    return _CHOSEN[0] if _CHOSEN else DTypePolicy(dtypes.floatx())


def set_dtype_policy(policy: Any) -> None:
    """Set the policy of all layers made later that name none.

    Args:
        policy: a `DTypePolicy` or its name; `None` goes back to the default float.

    Raises:
        ValueError: it is neither.

    Example:
        >>> tk.mixed_precision.set_dtype_policy("mixed_bfloat16")
        >>> tk.layers.Dense(2).compute_dtype
        'bfloat16'
        >>> tk.mixed_precision.set_dtype_policy("float32")
    """
    if policy is not None and not isinstance(policy, str | dict | DTypePolicy):
        raise InvalidArgumentError(f"set_dtype_policy takes a policy or its name, got {policy!r}")
    _CHOSEN[:] = [] if policy is None else [policy_of(policy)]


def described_policy(policy: DTypePolicy) -> Any:
    """A policy as it stands in the config of a layer, in Keras's layout."""
    return serialize_object(policy)


def policy_of(identifier: Any) -> DTypePolicy:
    """The policy that the argument `dtype` of a layer means.

    Args:
        identifier: a policy, its name or config, a dtype, or `None` for the default.

    Raises:
        ValueError: it names neither a policy nor a dtype.

    Example:
        >>> tk.dtype_policies.get("mixed_float16").compute_dtype
        'float16'
    """
    if identifier is None:
        return dtype_policy()
    if isinstance(identifier, DTypePolicy):
        return identifier
    if isinstance(identifier, dict):
        policy: DTypePolicy = POLICIES.deserialize(
            identifier
            if "class_name" in identifier
            else {"class_name": "DTypePolicy", "config": identifier}
        )
        return policy
    if isinstance(identifier, str):
        named = next((policy for read in BY_NAME if (policy := read(identifier)) is not None), None)
        return DTypePolicy(identifier) if named is None else named
    try:
        return DTypePolicy(dtypes.as_dtype(identifier).name)
    except TypeError as error:
        raise InvalidPolicyError(
            f"{identifier!r} is no dtype policy and no dtype: {error}"
        ) from error


class InvalidPolicyError(InvalidArgumentError, TypeError):
    """Something stands where a dtype or a policy belongs."""
