"""`Config`: settings by name, as attributes and as items."""

from __future__ import annotations

import json
from collections.abc import Iterator, KeysView
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.names import near_names


class Config:
    """Settings by name, each an attribute and an item; they can be frozen.

    Args:
        **kwargs: settings to start with.

    >>> settings = tk.keras.utils.Config(rate=0.1)
    >>> settings.steps = 5
    >>> settings["rate"], settings.to_json()
    (0.1, '{"rate": 0.1, "steps": 5}')
    """

    _config: dict[str, Any]
    _frozen: bool

    def __init__(self, **kwargs: Any) -> None:
        object.__setattr__(self, "_config", kwargs)
        object.__setattr__(self, "_frozen", False)

    @property
    def frozen(self) -> bool:
        """Whether settings can't be changed."""
        return self._frozen

    def freeze(self) -> None:
        """Refuse changes from now on."""
        object.__setattr__(self, "_frozen", True)

    def unfreeze(self) -> None:
        """Allow changes again."""
        object.__setattr__(self, "_frozen", False)

    def as_dict(self) -> dict[str, Any]:
        """The settings as a dict of its own."""
        return dict(self._config)

    def to_json(self) -> str:
        """The settings as JSON.

        Raises:
            TypeError: JSON can't hold one of them.
        """
        return json.dumps(self._config)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._config.keys()

    def values(self) -> Any:
        """The settings."""
        return self._config.values()

    def items(self) -> Any:
        """Pairs of a name and its setting."""
        return self._config.items()

    def get(self, keyname: str, value: Any = None) -> Any:
        """The setting of a name, `value` if there is none."""
        return self._config.get(keyname, value)

    def pop(self, *args: Any) -> Any:
        """Take a setting out, as `dict.pop` does.

        Raises:
            KeyError: there is none of this name, and no default is given.
            ValueError: the settings are frozen.
        """
        return self._changeable().pop(*args)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several at once, as `dict.update` does.

        Raises:
            ValueError: the settings are frozen.
        """
        self._changeable().update(*args, **kwargs)

    def _changeable(self) -> dict[str, Any]:
        if self._frozen:
            raise InvalidArgumentError(
                "Config is frozen, its settings can't be changed; call unfreeze() before"
            )
        return self._config

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name) or name in Config.__annotations__:
            object.__setattr__(self, name, value)
        else:
            self._changeable()[name] = value

    def __getattr__(self, name: str) -> Any:
        config = self.__dict__.get("_config", {})
        if name in config:
            return config[name]
        near = near_names(name, config, 1, 0.7)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"Config has no setting {name!r}{hint}")

    def __getitem__(self, key: str) -> Any:
        return self._config[key]

    def __setitem__(self, key: str, item: Any) -> None:
        self._changeable()[key] = item

    def __delitem__(self, key: str) -> None:
        del self._changeable()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._config))

    def __len__(self) -> int:
        return len(self._config)

    def __contains__(self, item: object) -> bool:
        return item in self._config

    def __repr__(self) -> str:
        return f"<Config {self._config}>"
