"""Objects that a config describes, of a family that finds their classes by name."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from trainkit.core.registry import Registry
from trainkit.core.values.config_text import config_text


class Configurable:
    """An object that `get_config` describes.

    `class Constraint(Configurable, family=CONSTRAINTS)` begins a family; the package's public
    classes below it are found there by their names.
    """

    _family: ClassVar[Registry]

    def __init_subclass__(cls, family: Registry | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if family is None:
            cls._family.add_built_in(cls)
        else:
            cls._family = family

    def __repr__(self) -> str:
        return config_text(self)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another such object, as plain data."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The object that `get_config` described."""
        return cls(**config)
