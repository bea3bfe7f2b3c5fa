"""`tk.extract_volume_patches`: the parts of volumes under a sliding window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.images.patches import extract_patches_3d

_AXES = 5


def _inner_sizes(numbers: Any, name: str) -> tuple[int, ...]:
    """The three numbers of the space, behind that of the batch and before that of the channels."""
    if not isinstance(numbers, list | tuple) or len(numbers) != _AXES:
        raise InvalidArgumentError(
            f"extract_volume_patches: {name} must be a list of {_AXES} ints, got {numbers!r}"
        )
    sizes = tuple(int(n) for n in numbers)
    if sizes[0] != 1 or sizes[-1] != 1 or min(sizes) < 1:
        raise InvalidArgumentError(
            f"extract_volume_patches: {name} must be 1 for batch and channels and above 0 for the "
            f"other axes, got {list(sizes)}"
        )
    return sizes[1:-1]


def extract_volume_patches(
    input: TensorLike,
    ksizes: Sequence[int],
    strides: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Tensor:
    """The parts of volumes under a sliding window, side by side in the channels.

    Args:
        input: numbers (batch, planes, rows, columns, channels).
        ksizes: `[1, planes, rows, columns, 1]` of a patch.
        strides: `[1, planes, rows, columns, 1]` from one patch to the next.
        padding: `"VALID"` for patches that are wholly inside, `"SAME"` with zeros around.
        name: not kept.

    Returns:
        (batch, patches along planes, along rows, along columns, numbers of a patch), of the dtype
        of `input`.

    Raises:
        InvalidArgumentError: a setting is none of those above, or `input` holds no real numbers.
        ShapeError: `input` has not five axes.

    Example:
        >>> x = tk.reshape(tk.range(8.0), (1, 2, 2, 2, 1))
        >>> tk.extract_volume_patches(x, [1, 2, 2, 1, 1], [1, 1, 1, 1, 1], "VALID").numpy()[0, 0, 0]
        array([[0., 2., 4., 6.],
               [1., 3., 5., 7.]], dtype=float32)
    """
    sizes, steps = _inner_sizes(ksizes, "ksizes"), _inner_sizes(strides, "strides")
    if padding not in ("SAME", "VALID"):
        raise InvalidArgumentError(
            f"extract_volume_patches: padding must be 'SAME' or 'VALID', got {padding!r}"
        )
    x = convert_to_tensor(input)
    if len(x.shape) != _AXES:
        raise ShapeError(
            "extract_volume_patches: input must be (batch, planes, rows, columns, channels), got "
            f"shape {tuple(x.shape)}"
        )
    if not (x.dtype.is_floating or x.dtype.is_integer):
        raise InvalidArgumentError(
            f"extract_volume_patches: input must hold real numbers, got {x.dtype.name}"
        )
    return extract_patches_3d(x, sizes, steps, 1, padding, "channels_last")
