"""`Quantizable`: what every layer can be asked about quantization and LoRA."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from trainkit.layers.base.building import put_back, state_of
from trainkit.layers.base.dtype_policy import DTypePolicyMap, policy_of
from trainkit.layers.quantized import quantized_policies as quantized_policies
from trainkit.layers.quantized.variants import Variant, plain_class
from trainkit.quantizers.quantizer_family import QUANTIZATION_MODES

_RESOLVING = "trainkit.quantizers.resolving"
_READING = "trainkit.quantizers.reading"


class Quantizable:
    """The half of a layer that deals with the forms of its weights.

    A class that can be quantized names the module of its variants in `_variants_in`, in whose
    `VARIANTS` they stand by its own name; classes derived from it can't unless they say so, too.
    """

    call: Any
    compute_dtype: Any
    keeps_floats: Any

    _variants_in: ClassVar[str | None] = None
    _is_quantized = is_gptq_calibrated = is_awq_calibrated = False
    lora_enabled = False

    if TYPE_CHECKING:
        name: str
        built: bool
        dtype_policy: Any
        quantization_config: Any
        _path: str | None
        _own: list[Any]

    @property
    def quantization_mode(self) -> str | None:
        """The mode in which the layer is quantized, or will be built; `None` for none."""
        mode: str | None = self.dtype_policy.at(self._path).quantization_mode
        return mode

    @property
    def variable_serialization_spec(self) -> dict[str | None, list[str]]:
        """The names of the variables that files have of such a layer, in order, by mode.

        Those that a layer does not have are left out in its files.

        Raises:
            AttributeError: its class has no modes.
        """
        module = self._variants_module()
        if module is None:
            raise AttributeError(f"{type(self).__name__} has no variable_serialization_spec")
        plain, by_mode = module.stored_names(self)
        return {None: list(plain), **{mode: list(names) for mode, names in by_mode.items()}}

    # ------------------------------------------------------------------ quantizing

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """Keep the weights in few bits from now on.

        Args:
            mode: `"int8"`, `"int4"`, `"float8"`, `"ternary"`, `"gptq"` or `"awq"`.
            type_check: whether a class derived from a layer that can be quantized is refused.
            config: a `QuantizationConfig` in place of the mode's own, or its mode.

        Raises:
            ValueError: the layer is not built, or quantized already, or the mode does not exist or
                does not fit.
            NotImplementedError: the layer can't be quantized, or not in this mode. It stays as it
                was.
        """
        config = self._resolved_quantization(mode, config)
        self._check_quantize_args(config.mode, self.compute_dtype)
        variant = self._quantized_variant(config.mode, type_check)
        before = state_of(self)
        try:
            self.quantization_config = config
            values = variant.encoded(self, config)
            self._while_unlocked(variant.replace_weights, config)
            for name, value in values.items():
                self.__dict__[name].assign(value)
            if self.dtype_policy.at(self._path).quantization_mode is None:
                self.dtype_policy = variant.policy_name(self, config)
            self.__dict__["_symbolic_call"] = before.get("_symbolic_call")
        except BaseException:
            put_back([(self, before)])
            raise

    def quantized_build(self, input_shape: Any, mode: str, config: Any = None) -> None:
        """Make the weights of a quantized layer, without values yet.

        Args:
            input_shape: the shape of the kernel or table before it is quantized.
            mode: how.
            config: a `QuantizationConfig`; by default the dtype policy says the rest.

        Raises:
            NotImplementedError: the layer can't be quantized, or not in this mode.
        """
        self._quantized_variant(mode, False).build(self, tuple(input_shape), config)
        self.__dict__["_is_quantized"] = True

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        a_initializer: Any = "he_uniform",
        b_initializer: Any = "zeros",
    ) -> None:
        """Freeze the weights, and train the product of two small matrices that is added to them.

        Args:
            rank: columns of the one and rows of the other.
            lora_alpha: the product counts `lora_alpha / rank` times; by default once.
            a_initializer: what the one starts with.
            b_initializer: and the other.

        Raises:
            ValueError: the layer is not built, has LoRA already, or a constraint on its weights.
            NotImplementedError: it can't have LoRA, or not with its mode.

        Source: Hu and others 2021, arXiv:2106.09685.
        """
        module = self._variants_module()
        add_lora = None if module is None else getattr(module, "add_lora", None)
        if add_lora is None:
            raise NotImplementedError(f"{type(self).__name__} can't have LoRA")
        before = state_of(self)
        try:
            self._while_unlocked(add_lora, rank, lora_alpha, a_initializer, b_initializer)
        except BaseException:
            put_back([(self, before)])
            raise

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        """The call of a quantized layer, which `call` is once it is quantized.

        Raises:
            NotImplementedError: it is not quantized.
        """
        if not self._is_quantized:
            self._refuse_mode(self.quantization_mode)
        return self.call(*args, **kwargs)

    # ------------------------------------------------------------------ for layers

    def _builds_plain(self, shape: Any) -> bool:
        """Make the weights that the dtype policy asks for; whether the plain ones are wanted too.

        Args:
            shape: of the kernel or table.
        """
        mode = self.quantization_mode
        if mode is None or self._variants_module() is None:
            return True
        self.quantized_build(shape, mode, self.quantization_config)
        return bool(self.keeps_floats)

    def _starts_lora(self) -> None:
        """Add LoRA if the layer was made with a rank."""
        rank = self.__dict__.get("lora_rank")
        if rank and not self.lora_enabled:
            self.__dict__["built"] = True
            self.enable_lora(rank, self.__dict__.get("lora_alpha"))

    # ------------------------------------------------------------------ its parts

    def _resolved_quantization(self, mode: Any, config: Any) -> Any:
        resolve: Any = importlib.import_module(_RESOLVING)
        return resolve.validate_and_resolve_config(mode, config)

    def _while_unlocked(self, change: Any, *args: Any) -> None:
        """`change(self, *args)`, which may make weights though the layer is built."""
        locked = self.__dict__.get("_locked", False)
        self.__dict__["_locked"] = False
        try:
            change(self, *args)
        finally:
            self.__dict__["_locked"] = locked

    def _check_quantize_args(self, mode: str, compute_dtype: str) -> None:
        """Raise unless the layer can be quantized now."""
        if not self.built:
            raise ValueError(
                f"Cannot quantize a layer that isn't yet built: {self.name!r} "
                f"({type(self).__name__}); build or call it first"
            )
        if self._is_quantized:
            raise ValueError(
                f"Layer {self.name!r} is already quantized with dtype_policy="
                f"{self.dtype_policy.name!r}, got mode={mode!r}"
            )
        if mode == "int8" and compute_dtype == "float16":
            raise ValueError(
                f"layer {self.name!r}: mode='int8' doesn't work well with "
                "compute_dtype='float16', whose range its sums leave; use bfloat16 or float32"
            )

    def _variants_module(self) -> Any:
        """The module of the variants of this layer's class, loaded now; `None` if it has none."""
        where = self._variants_in
        return None if where is None else importlib.import_module(where)

    def _quantized_variant(self, mode: Any, type_check: bool) -> Any:
        kind = plain_class(type(self))
        if mode not in QUANTIZATION_MODES:
            self._refuse_mode(mode)
        while type_check is False and "_variants_in" not in kind.__dict__ and kind is not object:
            kind = kind.__base__ or object
        module = self._variants_module() if "_variants_in" in kind.__dict__ else None
        if module is None:
            raise NotImplementedError(
                f"Layer {type(self).__name__} can't be quantized: it has no `quantize` of its own"
            )
        variants: dict[str, type[Variant]] = module.VARIANTS[kind.__name__]
        if mode not in variants:
            self._refuse_mode(mode, tuple(variants))
        return variants[mode]

    def _refuse_mode(self, mode: Any, modes: tuple[str, ...] = QUANTIZATION_MODES) -> NoReturn:
        raise NotImplementedError(
            f"layer {self.name!r} ({type(self).__name__}): Invalid quantization mode. Expected one "
            f"of {modes}, got quantization_mode={mode!r}"
        )

    def _taken_policy(self, identifier: Any) -> Any:
        """What the attribute `dtype_policy` becomes when `identifier` is assigned."""
        policy = policy_of(identifier)
        self._check_policy(policy)
        now, path = self.__dict__.get("dtype_policy"), self.__dict__.get("_path")
        if not isinstance(now, DTypePolicyMap) or path is None or policy is now:
            return policy
        if path in now:
            del now[path]
        now[path] = policy
        return now

    def _check_policy(self, policy: Any) -> None:
        """Raise if a built layer can't be quantized by a policy alone.

        Raises:
            ValueError: the mode needs data.
        """
        mode = policy.quantization_mode
        if mode in ("gptq", "awq") and self.__dict__.get("built") and not self._is_quantized:
            raise ValueError(
                f"layer {self.name!r}: a dtype policy can't quantize a built layer with mode "
                f"{mode!r}, which needs data for calibration; use quantize({mode!r}, config=...)"
            )

    def _follow_quantization(self) -> None:
        """Quantize a built layer whose new policy asks for it."""
        mode = self.quantization_mode
        waits = mode is None or self._is_quantized or not self.__dict__.get("built")
        if not waits and self._variants_module() is not None:
            self.quantize(mode, config=self._policy_config(str(mode)))

    def _policy_config(self, mode: str) -> Any:
        """The config that the numbers in the name of the policy mean."""
        block_size = getattr(self.dtype_policy.at(self._path), "block_size", None)
        if mode != "int4" or block_size is None:
            return None
        configs: Any = importlib.import_module("trainkit.quantizers.quantization_config")
        return configs.Int4QuantizationConfig(block_size=block_size)


def read_config(config: Any) -> Any:
    """A quantization config as an object, from a dict that describes it."""
    if not isinstance(config, dict):
        return config
    reading: Any = importlib.import_module(_READING)
    return reading.deserialize(config)
