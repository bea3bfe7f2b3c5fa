"""The names of `tf.keras.optimizers.legacy`, which tell what to use in their place."""

from __future__ import annotations

from typing import Any, NoReturn


class _Gone:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._say()

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> NoReturn:
        """Raise `ImportError`, as making one does."""
        cls._say()

    @classmethod
    def _say(cls) -> NoReturn:
        name = cls.__name__
        raise ImportError(
            f"optimizers.legacy.{name} is no more; use optimizers.{name}, which makes the same "
            "steps. In place of its argument decay= give learning_rate a schedule, such as "
            "schedules.InverseTimeDecay."
        )


class Adagrad(_Gone):
    """Use `optimizers.Adagrad`."""


class Adam(_Gone):
    """Use `optimizers.Adam`."""


class Ftrl(_Gone):
    """Use `optimizers.Ftrl`."""


class Optimizer(_Gone):
    """Use `optimizers.Optimizer`."""


class RMSprop(_Gone):
    """Use `optimizers.RMSprop`."""


class SGD(_Gone):
    """Use `optimizers.SGD`."""
