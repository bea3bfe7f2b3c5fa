"""How the weights of each kind of layer stand in PyTorch's modules, there and back.

| layer | module | change |
| --- | --- | --- |
| `Dense`, `EinsumDense` | `Linear` | (out, in) to (in, out); behind `Flatten` CHW to HWC |
| `Conv1D` ... `Conv3D` | `Conv1d` ... | (out, in / groups, *k) to (*k, in / groups, out) |
| `Conv1DTranspose` ... | `ConvTranspose1d` ... | (in, out, *k) to (*k, out, in) |
| `DepthwiseConv1D`, `2D` | `Conv` with `groups=in` | (in * m, 1, *k) to (*k, in, m) |
| `SeparableConv1D`, `2D` | two of `Conv`, `depthwise` and `pointwise` | as these |
| `BatchNormalization` | `BatchNorm` | the four arrays; `num_batches_tracked` is left out |
| `LSTM` | `LSTM`, `LSTMCell` | transposed; gates in the same order; one bias, the sum of two |
| `GRU` | `GRU`, `GRUCell` | transposed; gates r, z, n to z, r, h; both biases, of `reset_after` |
| `SimpleRNN` | `RNN`, `RNNCell` | transposed; one bias, the sum of two |
| `MultiHeadAttention` | `MultiheadAttention` | `in_proj_weight` in three, each (in, heads, size) |

Source: the documentation of `torch.nn` and Keras 3's layers of the same names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainkit import layers
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable
from trainkit.layers.rnn.cells import GRUCell, LSTMCell, SimpleRNNCell
from trainkit.weights.flattening import FlattenedInputs
from trainkit.weights.source_modules import role_of

Shape = tuple[int, ...]
Arrays = Sequence[Any]


@dataclass(frozen=True, eq=False)
class Slot:
    """A variable, and the arrays of a module that it is made of.

    Attributes:
        variable: of the layer.
        params: names in the module.
        shapes: of these, as PyTorch has them.
        forward: from the module's arrays to the variable's.
        backward: from the variable's array to the module's.
        text: what is done, for reports.
    """

    variable: Variable
    params: tuple[str, ...]
    shapes: tuple[Shape, ...]
    forward: Callable[[Arrays], Any]
    backward: Callable[[Any], Arrays]
    text: str


@dataclass(eq=False)
class Recipe:
    """A layer, and the forms in which a module may have its weights.

    Attributes:
        layer: the layer.
        path: of it in the model, such as `layers/1`.
        forms: each a list of slots; the first is the one that is written.
        module_path: of the module that has them, where it is not that of the layer.
        suffix: of the names of parameters when they are written, such as `_l0`.
        is_reverse: whether it runs from the last step.
        role: `"query"`, `"key"`, `"value"` or `"output"` of an attention.
        extras: names that a module has besides, with what is written for them.
    """

    layer: Any
    path: str
    forms: list[list[Slot]]
    module_path: str = ""
    suffix: str = ""
    is_reverse: bool = False
    role: str | None = None
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The class of the layer."""
        return type(self.layer).__name__

    @property
    def is_numbered(self) -> bool:
        """Whether its path is the number of a layer in a sequential or functional model."""
        return _NUMBERED.search(self.path) is not None

    @property
    def given_names(self) -> frozenset[str]:
        """What its author has called it: its last attribute, and its name if it has one."""
        parts = [part for part in self.path.split("/") if part and not part.isdigit()]
        attribute = parts[-1] if parts and parts[-1] != "layers" else None
        own = str(self.layer.name)
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.kind).lower()
        is_automatic = re.sub(r"_\d+$", "", own).replace("_", "") == snake.replace("_", "")
        return frozenset(name for name in (attribute, None if is_automatic else own) if name)

    def variables(self) -> list[Variable]:
        """All that it fills."""
        return [slot.variable for slot in self.forms[0]] if self.forms else []


_NUMBERED = re.compile(r"(?:^|/)layers/\d+")
Signature = tuple[bool, frozenset[tuple[str, Shape]]]


def signature_of(slots: Sequence[Slot], is_reverse: bool) -> Signature:
    """Names and shapes that a module must have for these slots."""
    pairs = {
        (param, shape)
        for slot in slots
        for param, shape in zip(slot.params, slot.shapes, strict=True)
    }
    return is_reverse, frozenset(pairs)


class RecipeBook:
    """The recipes of a model, in the order of its layers.

    Args:
        model: a model or layer that is built.
        flattened: the (height, width, channels) of the images that a `Dense` takes flattened, by
            the layer's path or name.
        splits_attention: whether each projection of an attention is a module of its own.
        further_form: from a layer and its forms in PyTorch to one more, by default the names and
            layout of the layer itself.

    Attributes:
        recipes: in the order of the tree.
        unknown: layers with weights of a kind that is not in the table above, by path.
        flattening: which layers take flattened images.
    """

    def __init__(
        self,
        model: Trackable,
        flattened: Mapping[str, Sequence[int] | None] | None = None,
        splits_attention: bool = False,
        further_form: Callable[[Any, Sequence[Sequence[Slot]]], list[Slot]] | None = None,
    ) -> None:
        self.recipes: list[Recipe] = []
        self._further_form = further_form or (lambda layer, forms: own_form(forms))
        self.unknown: dict[str, Any] = {}
        self.flattening = FlattenedInputs(model, flattened)
        self._splits_attention = splits_attention
        self._claimed: set[int] = set()
        for path, part in traverse(model):
            if not isinstance(part, Variable) and id(part) not in self._claimed:
                self._visit("/".join(path), part)
        self.flattening.check_used()

    def _visit(self, path: str, part: Trackable) -> None:
        if isinstance(part, layers.Bidirectional):
            self._bidirectional(path, part)
        elif isinstance(part, layers.MultiHeadAttention):
            self._attention(path, part)
        elif isinstance(part, (layers.SeparableConv1D, layers.SeparableConv2D)):
            self._separable(path, part)
        else:
            recipe = self._recipe(path, part)
            if recipe is not None:
                self.recipes.append(recipe)
            elif any(isinstance(own, Variable) for own in type(part).parts(part).values()):
                self.unknown[path] = part

    def _claim(self, part: Trackable) -> None:
        self._claimed.update(id(inner) for _, inner in traverse(part))

    def _recipe(self, path: str, part: Any) -> Recipe | None:
        for kinds, forms_of in _FORMS:
            if isinstance(part, kinds):
                if isinstance(part, layers.Dense):
                    slots = _dense(part, self.flattening.sizes_of(path, part))
                else:
                    self.flattening.require_none(path, part)
                    slots = forms_of(part)
                if slots is None:
                    return None
                self._claim(part)
                forms = [*slots, self._further_form(part, slots)]
                recipe = Recipe(part, path, forms, role=role_of(path))
                if isinstance(part, layers.BatchNormalization):
                    recipe.extras = {"num_batches_tracked": np.zeros((), np.int64)}
                if isinstance(part, layers.RNN):
                    recipe.suffix = "_l0"
                return recipe
        return None

    def _bidirectional(self, path: str, part: Any) -> None:
        for name, is_reverse in (("forward_layer", False), ("backward_layer", True)):
            recipe = self._recipe(f"{path}/{name}", getattr(part, name))
            if recipe is None:
                return
            recipe.is_reverse, recipe.module_path = is_reverse, path
            recipe.suffix = "_l0_reverse" if is_reverse else "_l0"
            self.recipes.append(recipe)

    def _separable(self, path: str, part: Any) -> None:
        """Two modules: a depthwise convolution without bias, and one of window 1 with it."""
        each, mixing = part.depthwise_kernel, part.pointwise_kernel
        axes = (*range(2, part.rank + 2), 1, 0)
        pointwise = _with_bias([_moved(mixing, "weight", axes, "out and in last")], part.bias)
        depthwise = [_depthwise_slot(each, part.rank, "weight")]
        self._claim(part)
        self.recipes.append(Recipe(part, f"{path}/depthwise", [depthwise]))
        self.recipes.append(Recipe(part, f"{path}/pointwise", [pointwise]))

    def _attention(self, path: str, part: Any) -> None:
        if not self._splits_attention and getattr(part, "gate_dense", None) is None:
            forms = _attention(part)
            if forms is not None:
                self._claim(part)
                self.recipes.append(Recipe(part, path, forms))
            return
        for role in ("query", "key", "value", "output"):
            child = getattr(part, f"{role}_dense")
            recipe = self._recipe(f"{path}/{role}_dense", child)
            if recipe is not None:
                self.recipes.append(recipe)


# ---------------------------------------------------------------------- slots


def slot_as_it_is(variable: Variable, param: str, shape: Shape | None = None) -> Slot:
    """An array that is taken as it is, or in another shape.

    Args:
        variable: of the layer.
        param: its name in the module.
        shape: that it has there, where it is another.
    """
    own = tuple(variable.shape)
    stored = own if shape is None else shape
    return Slot(
        variable,
        (param,),
        (stored,),
        lambda arrays: arrays[0].reshape(own),
        lambda array: [array.reshape(stored)],
        "as it is" if stored == own else f"reshaped from {stored}",
    )


def own_form(forms: Sequence[Sequence[Slot]]) -> list[Slot]:
    """The form of files that Keras has written: variables as they are, by their names."""
    slots = [slot_as_it_is(slot.variable, slot.variable.name) for slot in forms[0]]
    return slots if len({slot.params for slot in slots}) == len(slots) else []


def _moved(variable: Variable, param: str, axes: Sequence[int], text: str) -> Slot:
    """An array whose axes stand in another order: axis i of the variable is axes[i] there."""
    own = tuple(variable.shape)
    back = np.argsort(axes)
    return Slot(
        variable,
        (param,),
        (tuple(own[i] for i in back),),
        lambda arrays: arrays[0].transpose(tuple(axes)),
        lambda array: [array.transpose(tuple(back))],
        text,
    )


def _with_bias(slots: list[Slot], bias: Any) -> list[Slot]:
    return (
        slots if bias is None else [*slots, slot_as_it_is(bias, "bias", (math.prod(bias.shape),))]
    )


def _is_plain(layer: Any, *names: str) -> bool:
    """Whether these attributes are variables, and not what a quantized layer has instead."""
    return all(isinstance(getattr(layer, name, None), Variable) for name in names)


def _dense(layer: Any, sizes: Shape | None) -> list[list[Slot]] | None:
    if not _is_plain(layer, "kernel"):
        return None
    kernel = layer.kernel
    features, units = kernel.shape
    if sizes is None:
        slot = _moved(kernel, "weight", (1, 0), "transposed")
    else:
        channels_first = (sizes[-1], *sizes[:-1])
        slot = Slot(
            kernel,
            ("weight",),
            ((units, features),),
            lambda arrays: (
                np.moveaxis(arrays[0].reshape(units, *channels_first), 1, -1)
                .reshape(units, features)
                .T
            ),
            lambda array: [
                np.moveaxis(array.T.reshape(units, *sizes), -1, 1).reshape(units, features)
            ],
            f"transposed, rows from channels first to {sizes}",
        )
    return [_with_bias([slot], layer.bias)]


def _einsum_dense(layer: Any) -> list[list[Slot]] | None:
    """A Linear over all axes that are summed, if these stand first in the kernel."""
    if not _is_plain(layer, "kernel"):
        return None
    inputs, kernel_and_output = layer.equation.replace(" ", "").replace("...", "").split(",")
    kernel_letters, output = kernel_and_output.split("->")
    summed = [letter for letter in kernel_letters if letter in inputs and letter not in output]
    if list(kernel_letters[: len(summed)]) != summed or not summed:
        return None
    if any(letter in inputs for letter in kernel_letters[len(summed) :]):
        return None
    own = tuple(layer.kernel.shape)
    rows = math.prod(own[: len(summed)])
    columns = math.prod(own[len(summed) :])
    slot = Slot(
        layer.kernel,
        ("weight",),
        ((columns, rows),),
        lambda arrays: arrays[0].T.reshape(own),
        lambda array: [array.reshape(rows, columns).T],
        "transposed" if len(own) == 2 else f"transposed, as {own}",
    )
    return [_with_bias([slot], layer.bias)]


def _conv(layer: Any) -> list[list[Slot]] | None:
    if not _is_plain(layer, "kernel"):
        return None
    rank = layer.rank
    axes = (*range(2, rank + 2), 1, 0)
    kernel = _moved(layer.kernel, "weight", axes, "out and in last")
    return [_with_bias([kernel], layer.bias)]


def _depthwise_slot(kernel: Variable, rank: int, param: str) -> Slot:
    *window, channels, multiplier = kernel.shape
    return Slot(
        kernel,
        (param,),
        ((channels * multiplier, 1, *window),),
        lambda arrays: np.moveaxis(
            arrays[0].reshape(channels, multiplier, *window), (0, 1), (rank, rank + 1)
        ),
        lambda array: [
            np.moveaxis(array, (rank, rank + 1), (0, 1)).reshape(channels * multiplier, 1, *window)
        ],
        "channels last",
    )


def _depthwise(layer: Any) -> list[list[Slot]] | None:
    if not _is_plain(layer, "kernel"):
        return None
    return [_with_bias([_depthwise_slot(layer.kernel, layer.rank, "weight")], layer.bias)]


def _embedding(layer: Any) -> list[list[Slot]] | None:
    is_tied = type(layer) is layers.Embedding or getattr(layer, "tie_weights", False)
    if not is_tied or not _is_plain(layer, "embeddings"):
        return None
    return [[slot_as_it_is(layer.embeddings, "weight")]]


def _batch_normalization(layer: Any) -> list[list[Slot]] | None:
    names = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean",
             "moving_variance": "running_var"}  # fmt: skip
    return [slots_by_name(layer, names)]


def slots_by_name(layer: Any, names: Mapping[str, str]) -> list[Slot]:
    """The weights of these names that a layer has, each as it is.

    Args:
        layer: the layer.
        names: of parameters of a module by names of attributes.
    """
    return [
        slot_as_it_is(getattr(layer, own), param)
        for own, param in names.items()
        if getattr(layer, own, None) is not None
    ]


def _scale_and_shift(layer: Any) -> list[list[Slot]] | None:
    slots = slots_by_name(layer, {"gamma": "weight", "beta": "bias"})
    return [slots] if slots else None


def _rms_normalization(layer: Any) -> list[list[Slot]] | None:
    return [[slot_as_it_is(layer.scale, "weight")]]


def _prelu(layer: Any) -> list[list[Slot]] | None:
    if not _is_plain(layer, "alpha"):
        return None
    return [[slot_as_it_is(layer.alpha, "weight", (math.prod(layer.alpha.shape),))]]


def _gate_order(gates: int) -> list[int]:
    """Where each gate of ours stands in PyTorch's; the order is its own inverse."""
    return [1, 0, 2] if gates == 3 else list(range(gates))


def _reorder(array: Any, gates: int) -> Any:
    """Rows or numbers of gates in the other order."""
    parts = np.split(array, gates, axis=0)
    return np.concatenate([parts[i] for i in _gate_order(gates)], axis=0)


def _gate_kernel(kernel: Variable, param: str, gates: int) -> Slot:
    features, gate_size = kernel.shape
    return Slot(
        kernel,
        (param,),
        ((gate_size, features),),
        lambda arrays: _reorder(arrays[0], gates).T,
        lambda array: [_reorder(array.T, gates)],
        "transposed, gates r, z, n to z, r, h" if gates == 3 else "transposed",
    )


def _recurrent(layer: Any) -> list[list[Slot]] | None:
    cell = layer.cell if isinstance(layer, layers.RNN) else layer
    if type(cell) not in (LSTMCell, GRUCell, SimpleRNNCell):
        return None
    is_gru = type(cell) is GRUCell
    gates, bias = cell.gates, cell.bias
    slots = [
        _gate_kernel(cell.kernel, "weight_ih", gates),
        _gate_kernel(cell.recurrent_kernel, "weight_hh", gates),
    ]
    if is_gru and not cell.reset_after:
        return None  # r multiplies the state before its product: another formula than PyTorch's
    if bias is not None:
        gate_size = gates * cell.units
        both = ("bias_ih", "bias_hh")
        if is_gru:
            slots.append(
                Slot(
                    bias,
                    both,
                    ((gate_size,), (gate_size,)),
                    lambda arrays: np.stack([_reorder(b, gates) for b in arrays]),
                    lambda array: [_reorder(b, gates) for b in array],
                    "both biases, gates r, z, n to z, r, h",
                )
            )
        else:
            slots.append(
                Slot(
                    bias,
                    both,
                    ((gate_size,), (gate_size,)),
                    lambda arrays: arrays[0] + arrays[1],
                    lambda array: [array, np.zeros_like(array)],
                    "sum of both biases",
                )
            )
    return [slots]


def _attention(layer: Any) -> list[list[Slot]] | None:
    projections = [getattr(layer, f"{role}_dense") for role in ("query", "key", "value")]
    output = layer.output_dense
    if not all(_is_plain(dense, "kernel") for dense in (*projections, output)):
        return None
    kernels = [dense.kernel for dense in projections]
    widths = [math.prod(kernel.shape[1:]) for kernel in kernels]
    biases = [dense.bias for dense in projections]
    separate = [
        _einsum_slot(kernel, f"{letter}_proj_weight")
        for kernel, letter in zip(kernels, "qkv", strict=True)
    ]
    rows = len({kernel.shape[0] for kernel in kernels}) == 1
    joined = [
        _part_slot(kernel, "in_proj_weight", number, widths)
        for number, kernel in enumerate(kernels)
    ]  # fmt: skip
    shared: list[Slot] = []
    if all(bias is not None for bias in biases):
        shared += [
            _part_slot(bias, "in_proj_bias", number, widths) for number, bias in enumerate(biases)
        ]
    shared.append(_einsum_slot(output.kernel, "out_proj.weight", inputs=2))
    if output.bias is not None:
        shared.append(slot_as_it_is(output.bias, "out_proj.bias", (math.prod(output.bias.shape),)))
    return ([[*joined, *shared]] if rows else []) + [[*separate, *shared]]


def _einsum_slot(kernel: Variable, param: str, inputs: int = 1) -> Slot:
    own = tuple(kernel.shape)
    rows, columns = math.prod(own[:inputs]), math.prod(own[inputs:])
    return Slot(
        kernel,
        (param,),
        ((columns, rows),),
        lambda arrays: arrays[0].T.reshape(own),
        lambda array: [array.reshape(rows, columns).T],
        f"transposed, as {own}",
    )


def _part_slot(variable: Variable, param: str, number: int, widths: Sequence[int]) -> Slot:
    """One of the three projections that stand one below the other in PyTorch."""
    own = tuple(variable.shape)
    start, stop = sum(widths[:number]), sum(widths[: number + 1])
    is_kernel = param.endswith("weight")
    stored = (sum(widths), own[0]) if is_kernel else (sum(widths),)

    def forward(arrays: Arrays) -> Any:
        part = arrays[0][start:stop]
        return (part.T if is_kernel else part).reshape(own)

    def backward(array: Any) -> Arrays:
        part = array.reshape(own[0], stop - start).T if is_kernel else array.reshape(-1)
        return [_JoinedRows(start, sum(widths), part)]

    ordinal = ("first", "second", "third")[number]
    return Slot(variable, (param,), (stored,), forward, backward, f"{ordinal} part, as {own}")


@dataclass(frozen=True)
class _JoinedRows:
    """Rows of an array that several variables make together."""

    start: int
    total: int
    rows: Any


def joined_parts(arrays: Sequence[Any]) -> Any:
    """The array of a parameter out of what slots give for it."""
    if not isinstance(arrays[0], _JoinedRows):
        return arrays[0]
    return np.concatenate([part.rows for part in sorted(arrays, key=lambda part: part.start)])


_CONVOLUTIONS = (
    layers.Conv1D,
    layers.Conv2D,
    layers.Conv3D,
    layers.Conv1DTranspose,
    layers.Conv2DTranspose,
    layers.Conv3DTranspose,
)
_FORMS: list[tuple[Any, Callable[[Any], list[list[Slot]] | None]]] = [
    (layers.Dense, lambda layer: _dense(layer, None)),
    (layers.EinsumDense, _einsum_dense),
    ((layers.DepthwiseConv1D, layers.DepthwiseConv2D), _depthwise),
    (_CONVOLUTIONS, _conv),
    (layers.Embedding, _embedding),
    (layers.BatchNormalization, _batch_normalization),
    ((layers.LayerNormalization, layers.GroupNormalization), _scale_and_shift),
    (layers.RMSNormalization, _rms_normalization),
    (layers.PReLU, _prelu),
    ((layers.RNN, LSTMCell, GRUCell, SimpleRNNCell), _recurrent),
]
