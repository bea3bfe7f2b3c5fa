"""Names for weights that are split over devices: every device here has whole ones."""

from typing import Any, ClassVar, NoReturn

from trainkit.core.errors import UnimplementedError
from trainkit.core.names import BoundElsewhere

_WHOLE = (
    "splits weights over devices, and in trainkit a device has whole ones: use one device with "
    "more memory, RematScope to need less, or a smaller dtype policy."
)


class LayoutMap(BoundElsewhere):
    """Keras's table of which axes of a weight lie on which devices.

    Raises:
        UnimplementedError: always; the text says what to use instead.
    """

    instead: ClassVar[str] = _WHOLE


class ModelParallel(BoundElsewhere):
    """Keras's distribution of a model's weights over devices.

    Raises:
        UnimplementedError: always; the text says what to use instead.
    """

    instead: ClassVar[str] = _WHOLE


class TensorLayout(BoundElsewhere):
    """Keras's description of how a tensor is split over devices.

    Raises:
        UnimplementedError: always; the text says what to use instead.
    """

    instead: ClassVar[str] = _WHOLE


def distribute_tensor(tensor: Any, layout: Any) -> NoReturn:
    """Keras's function that splits a tensor over devices.

    Args:
        tensor: any tensor.
        layout: how it would be split.

    Raises:
        UnimplementedError: always; the text says what to use instead.
    """
    raise UnimplementedError(
        "distribute_tensor splits a tensor over devices, and in trainkit a tensor lies on one: "
        "copy it with tensor.gpu() or tensor.cpu(), or make it inside of tk.device."
    )
