"""Losses by name: `get`, `serialize`, `deserialize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from trainkit.core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainkit.core.tensor import Tensor
    from trainkit.losses.loss import Loss

T = TypeVar("T")


LOSSES = Registry(
    "losses",
    "loss",
    {
        "binary_crossentropy": ("bce", "BCE"),
        "kl_divergence": ("kld", "KLD"),
        "mean_absolute_error": ("mae", "MAE"),
        "mean_absolute_percentage_error": ("mape", "MAPE"),
        "mean_squared_error": ("mse", "MSE"),
        "mean_squared_logarithmic_error": ("msle", "MSLE"),
    },
    unlisted={"FunctionLoss"},
)


@overload
def get(identifier: None) -> None: ...
@overload
def get(identifier: str | Mapping[str, Any] | type[Loss]) -> Callable[..., Tensor]: ...
@overload
def get(identifier: T) -> T: ...
def get(identifier: Any) -> Any:
    """A loss by name or configuration.

    Args:
        identifier: the name of a function (`"mse"`, `"mean_squared_error"`) or class
            (`"MeanSquaredError"`), what `serialize` gave, a class, a `Loss`, a function of targets
            and predictions, or `None`.

    Returns:
        The function, or a new object of the class; a loss, function or `None` comes back as it is.

    Raises:
        ValueError: there is no such loss; lists those there are.
        TypeError: `identifier` is something else.

    Example:
        >>> tk.losses.get("mse").__name__
        'mean_squared_error'
        >>> tk.losses.get("Huber").get_config()["delta"]
        1.0
    """
    return LOSSES.get(identifier)


def serialize(loss: Callable[..., Any]) -> str | dict[str, Any]:
    """A loss as plain data: a function's name, or `class_name` and `config`.

    Args:
        loss: a loss, or a function.

    Example:
        >>> tk.losses.serialize(tk.losses.Huber(delta=2.0))["class_name"]
        'Huber'
    """
    return LOSSES.serialize(loss)


def deserialize(
    name: str | Mapping[str, Any], custom_objects: dict[str, Any] | None = None
) -> Callable[..., Tensor]:
    """The loss that `serialize` gave as plain data.

    Args:
        name: a function's name, or a dict with `class_name` and `config`.
        custom_objects: further classes and functions by name.

    Raises:
        ValueError: there is no loss of that name.

    Example:
        >>> config = tk.losses.serialize(tk.losses.Huber(delta=2.0))
        >>> tk.losses.deserialize(config).get_config()["delta"]
        2.0
    """
    return LOSSES.deserialize(name, custom_objects)
