"""How the weights of each kind of layer stand in Flax's modules.

| layer | module | change |
| --- | --- | --- |
| `Dense`, `EinsumDense`, `Conv1D` ... `Conv3D` | `Dense`, `DenseGeneral`, `Conv` | as they are |
| `DepthwiseConv1D`, `2D` | `Conv` with `feature_group_count` | the last two axes are one |
| `Conv1DTranspose` ... | `ConvTranspose` | windows turned round, in and out exchanged |
| `BatchNormalization`, `LayerNormalization`, `GroupNormalization` | `BatchNorm` ... | other names |
| `LSTM`, `GRU`, `SimpleRNN` | `LSTMCell`, `GRUCell`, `SimpleCell` | gates joined |

Source: the documentation of `flax.linen` and Keras 3's layers of the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit import layers
from trainkit.core.variable import Variable
from trainkit.layers.rnn.cells import GRUCell, LSTMCell, SimpleRNNCell
from trainkit.weights.layer_recipes import Slot, own_form, slot_as_it_is, slots_by_name

_NAMES = {
    layers.BatchNormalization: {
        "gamma": "scale", "beta": "bias", "moving_mean": "mean", "moving_variance": "var",
    },
    layers.LayerNormalization: {"gamma": "scale", "beta": "bias"},
    layers.GroupNormalization: {"gamma": "scale", "beta": "bias"},
    layers.Embedding: {"embeddings": "embedding"},
}  # fmt: skip
_TRANSPOSED = (layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
_GATES = {LSTMCell: "ifgo", GRUCell: "zrn", SimpleRNNCell: ("",)}


def flax_form(layer: Any, forms: Sequence[Sequence[Slot]]) -> list[Slot]:
    """The slots of a layer with the names and shapes of Flax's module.

    Args:
        layer: the layer.
        forms: those of PyTorch, whose variables are meant.
    """
    for kind, names in _NAMES.items():
        if isinstance(layer, kind):
            return slots_by_name(layer, names)
    if isinstance(layer, _TRANSPOSED):
        return _with_bias(_turn_window(layer.kernel), layer.bias)
    if isinstance(layer, (layers.DepthwiseConv1D, layers.DepthwiseConv2D)):
        *window, channels, multiplier = layer.kernel.shape
        shape = (*window, 1, channels * multiplier)
        return _with_bias(slot_as_it_is(layer.kernel, "kernel", shape), layer.bias)
    cell = layer.cell if isinstance(layer, layers.RNN) else layer
    return _cell(cell) if type(cell) in _GATES else own_form(forms)


def _with_bias(slot: Slot, bias: Any) -> list[Slot]:
    return [slot] if bias is None else [slot, slot_as_it_is(bias, "bias")]


def _turn_window(kernel: Variable) -> Slot:
    """A window that Flax moves as it is, and Keras as the gradient of a convolution does."""
    *window, filters, channels = kernel.shape

    def turn(array: Any) -> Any:
        return np.flip(array, tuple(range(len(window)))).swapaxes(-1, -2)

    return Slot(
        kernel,
        ("kernel",),
        ((*window, channels, filters),),
        lambda arrays: turn(arrays[0]),
        lambda array: [turn(array)],
        "turned round, in and out exchanged",
    )


def _cell(cell: Any) -> list[Slot]:
    """The kernels and biases of the gates, one beside the other."""
    gates, units = _GATES[type(cell)], cell.units
    is_gru = type(cell) is GRUCell
    slots = [
        _join_gates(cell.kernel, [f"i{gate}/kernel" for gate in gates]),
        _join_gates(cell.recurrent_kernel, [f"h{gate}/kernel" for gate in gates]),
    ]
    if cell.bias is None:
        return slots
    if not is_gru:  # LSTM's biases are of the products with the state, those of SimpleCell are not
        side = "h" if type(cell) is LSTMCell else "i"
        return [*slots, _join_gates(cell.bias, [f"{side}{gate}/bias" for gate in gates])]
    if not cell.reset_after:
        return []  # r multiplies the state before its product: another formula than Flax's

    def stack(arrays: Sequence[Any]) -> Any:
        *of_inputs, of_state = arrays
        return np.stack(
            [np.concatenate(of_inputs), np.concatenate([np.zeros(2 * units), of_state])]
        )

    def split(array: Any) -> list[Any]:
        of_inputs, of_state = (np.split(row, 3) for row in array)
        # Flax has one bias for the gates z and r
        return [of_inputs[0] + of_state[0], of_inputs[1] + of_state[1], of_inputs[2], of_state[2]]

    names = ("iz/bias", "ir/bias", "in/bias", "hn/bias")
    shapes = ((units,),) * 4
    text = "biases of the gates z, r and n"
    return [*slots, Slot(cell.bias, names, shapes, stack, split, text)]


def _join_gates(variable: Variable, params: Sequence[str]) -> Slot:
    *rows, columns = variable.shape
    count = len(params)
    return Slot(
        variable,
        tuple(params),
        ((*rows, columns // count),) * count,
        lambda arrays: np.concatenate(arrays, axis=-1),
        lambda array: np.split(array, count, axis=-1),
        "as it is" if count == 1 else "gates joined",
    )
