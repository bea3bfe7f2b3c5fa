"""Dtype policies of quantized layers."""

from __future__ import annotations

from typing import Any

from trainkit.layers.base.dtype_policy import BY_NAME, POLICIES, DTypePolicy, dtype_policy
from trainkit.quantizers.quantizer_family import QUANTIZATION_MODES

_BITS = (2, 3, 4, 8)
_NO_GROUPS = -1


class QuantizedDTypePolicy(DTypePolicy):
    """The mode of a layer, and the dtypes that it computes with besides.

    Args:
        mode: name of a mode, such as `"int8"`.
        source_name: name of the policy that the layer had before; by default the one that
            `set_dtype_policy` chose.

    Raises:
        ValueError: there is no such mode, or it does not go with float16.
    """

    def __init__(self, mode: str, source_name: str | None = None) -> None:
        super().__init__(dtype_policy().name if source_name is None else source_name)
        if mode not in QUANTIZATION_MODES:
            raise ValueError(
                f"Invalid quantization mode. Expected one of {QUANTIZATION_MODES}, got {mode!r}"
            )
        if self.compute_dtype == "float16" and mode == "int8":
            raise ValueError(
                f"Quantization mode={mode!r} doesn't work well with compute_dtype='float16': its "
                "sums leave the range of that; use bfloat16 or float32"
            )
        self._source_name = self.name
        self.quantization_mode = mode
        self.name = f"{self._label}_from_{self._source_name}"

    @property
    def _label(self) -> str:
        """The mode with all that belongs to it, as it stands in the name."""
        return str(self.quantization_mode)

    @property
    def _config_identity(self) -> tuple[str, str, str | None] | None:
        return None

    def get_config(self) -> dict[str, Any]:
        return {"mode": self._label, "source_name": self._source_name}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.get_config() == other.get_config()

    __hash__ = DTypePolicy.__hash__


class QuantizedFloat8DTypePolicy(QuantizedDTypePolicy):
    """The policy of layers that train with floats of 8 bits.

    Args:
        mode: `"float8"`.
        source_name: see `QuantizedDTypePolicy`.
        amax_history_length: over how many steps the greatest magnitude is taken.

    Raises:
        TypeError: that is no int.
    """

    default_amax_history_length = 1024

    def __init__(
        self, mode: str, source_name: str | None = None, amax_history_length: int = 1024
    ) -> None:
        super().__init__(mode, source_name)
        if not isinstance(amax_history_length, int):
            raise TypeError(
                f"`amax_history_length` must be an integer, got {amax_history_length!r}"
            )
        self.amax_history_length = amax_history_length

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "amax_history_length": self.amax_history_length}


class _Grouped(QuantizedDTypePolicy):
    """A policy whose mode has numbers behind slashes."""

    form = ""

    def __init__(self, mode: str, source_name: str | None = None) -> None:
        kind, *numbers = mode.split("/")
        form_kind, *names = self.form.split("/")
        if kind != form_kind or len(numbers) != len(names):
            raise ValueError(
                f"Invalid mode for {type(self).__name__}. Expected format {self.form!r}, got "
                f"{mode!r}"
            )
        try:
            values = [_NO_GROUPS if n == "None" else int(n) for n in numbers]
        except ValueError:
            raise ValueError(
                f"Invalid mode for {type(self).__name__}: {names} must be integers. Expected "
                f"format {self.form!r}, got {mode!r}"
            ) from None
        self._numbers = dict(zip(names, values, strict=True))
        self._check(mode)
        self.mode = kind
        super().__init__(kind, source_name)

    def _check(self, mode: str) -> None:
        """Raise unless the numbers make sense."""
        groups = list(self._numbers.values())[-1]
        if groups < _NO_GROUPS or groups == 0:
            name = list(self._numbers)[-1].strip("<>")
            raise ValueError(
                f"Invalid {name} in mode. It must be -1 or a positive integer, got {groups} in "
                f"{mode!r}"
            )

    @property
    def _label(self) -> str:
        return "/".join(map(str, [self.mode, *self._numbers.values()]))


class Int4DTypePolicy(_Grouped):
    """The policy of layers with weights of 4 bits.

    Args:
        mode: `"int4/<block_size>"`: inputs that share a scale, -1 for all.
        source_name: see `QuantizedDTypePolicy`.

    Raises:
        ValueError: the mode has another form.
    """

    form = "int4/<block_size>"

    @property
    def block_size(self) -> int:
        """Inputs that share a scale."""
        return self._numbers["<block_size>"]


class GPTQDTypePolicy(_Grouped):
    """The policy of layers that GPTQ has quantized.

    Args:
        mode: `"gptq/<weight_bits>/<group_size>"`.
        source_name: see `QuantizedDTypePolicy`.

    Raises:
        ValueError: the mode has another form.
    """

    form = "gptq/<weight_bits>/<group_size>"
    _bits: tuple[int, ...] = _BITS

    def _check(self, mode: str) -> None:
        if self.weight_bits not in self._bits:
            raise ValueError(
                f"Invalid weight_bits in mode. Supported are {self._bits}, got {self.weight_bits} "
                f"in {mode!r}"
            )
        super()._check(mode)

    @property
    def weight_bits(self) -> int:
        """Bits of a weight."""
        return self._numbers["<weight_bits>"]

    @property
    def group_size(self) -> int:
        """Inputs that share a scale."""
        return self._numbers["<group_size>"]


class AWQDTypePolicy(GPTQDTypePolicy):
    """The policy of layers that AWQ has quantized.

    Args:
        mode: `"awq/4/<group_size>"`.
        source_name: see `QuantizedDTypePolicy`.

    Raises:
        ValueError: the mode has another form.
    """

    form = "awq/<weight_bits>/<group_size>"
    _bits = (4,)


class TernaryDTypePolicy(QuantizedDTypePolicy):
    """The policy of layers with weights out of -1, 0 and 1."""


_KINDS: dict[str, type[QuantizedDTypePolicy]] = {
    "float8": QuantizedFloat8DTypePolicy,
    "ternary": TernaryDTypePolicy,
    "gptq": GPTQDTypePolicy,
    "awq": AWQDTypePolicy,
}


def quantized_policy_named(name: str) -> DTypePolicy | None:
    """The policy that a name such as `"int8_from_float32"` means; `None` for other names.

    Raises:
        ValueError: it begins with a mode, but is no such name.
    """
    if not name.startswith(QUANTIZATION_MODES) or "_" not in name:
        return None
    mode, joint, source = name.partition("_from_")
    if not joint or not source or "_from_" in source:
        raise ValueError(
            f"{name!r} is no quantized dtype policy: its name has the form 'MODE_from_POLICY', "
            "such as 'int8_from_float32'"
        )
    base = mode.partition("/")[0]
    if base == "int4" and "/" in mode:
        return Int4DTypePolicy(mode, source)
    return _KINDS.get(base, QuantizedDTypePolicy)(mode, source)


BY_NAME.append(quantized_policy_named)
for _policy in (
    QuantizedDTypePolicy,
    QuantizedFloat8DTypePolicy,
    Int4DTypePolicy,
    GPTQDTypePolicy,
    AWQDTypePolicy,
    TernaryDTypePolicy,
):
    POLICIES.add(_policy)
