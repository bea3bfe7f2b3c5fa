"""`Logger`: what all loggers can do, whatever takes the numbers."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from trainkit.core.files.local_paths import local_path
from trainkit.core.process.launcher import launched
from trainkit.distribution.strategy import scoped_strategy
from trainkit.journal.state_digests import array_of
from trainkit.summary.media import as_uint8

METHODS = ("log_metrics", "log_hyperparams", "log_image", "log_artifact", "finish")
"""The protocol: an object with these is a logger, too."""

ENDINGS = ("finished", "stopped", "interrupted", "failed")

Plain = str | bool | int | float | None


class Logger:
    """Base of all loggers: checks what it is given, and writes in the first process alone.

    A subclass has `write_metrics(values, step)`, `write_hyperparams(values)`,
    `write_image(name, pixels, step)`, `write_artifact(path, name)` and, where something is to be
    closed, `close(how)`; they get plain values. After `finish`, what is logged goes on in the same
    run.

    As a context it finishes at the end, as failed after an error.

    Args:
        rank: number of this process; by default that of the strategy in whose scope a method is
            called, or what the launcher of the process says. Only 0 writes.

    Example:
        >>> class Shout(tk.loggers.Logger):
        ...     def write_metrics(self, values, step):
        ...         print(step, values)
        >>> with Shout() as logger:
        ...     logger.log_metrics({"loss": tk.constant(0.5)}, step=3)
        3 {'loss': 0.5}
    """

    def __init__(self, rank: int | None = None) -> None:
        self._rank = rank

    @property
    def is_silent(self) -> bool:
        """Whether another process writes."""
        if self._rank is not None:
            return self._rank != 0
        strategy = scoped_strategy()
        if strategy is not None:
            return strategy.rank != 0
        launch = launched()
        return launch is not None and launch.rank != 0

    def log_metrics(self, metrics: Mapping[str, Any], step: int) -> None:
        """Log numbers.

        Args:
            metrics: numbers by name, or scalar tensors.
            step: how many steps are done.

        Raises:
            TypeError: a value is no number.
            ValueError: the step is below 0.
        """
        number = _step(step)
        values = {_name(name): _number(name, value) for name, value in metrics.items()}
        if values and not self.is_silent:
            self.write_metrics(values, number)

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        """Log the settings of a run; names of nested ones are joined by `/`.

        Args:
            params: bools, numbers, strings and None by name, nested in dicts; others as text.
        """
        values = flat_settings(params)
        if values and not self.is_silent:
            self.write_hyperparams(values)

    def log_image(self, name: str, image: Any, step: int) -> None:
        """Log an image.

        Args:
            name: of it.
            image: shape (height, width) or (height, width, channels) with 1, 3 or 4 channels; of
                uint8, or floats from 0 to 1, which are clipped.
            step: how many steps are done.

        Raises:
            ValueError: it has another shape or dtype, or the step is below 0.
        """
        number, pixels = _step(step), pixels_of(name, image)
        if not self.is_silent:
            self.write_image(_name(name), pixels, number)

    def log_artifact(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        """Log a file: a model, a table, a page.

        Args:
            path: of it.
            name: what it is called there; its own name by default.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the name has a separator of paths.
        """
        source = Path(local_path(path))
        if self.is_silent:
            return
        if not source.is_file():
            raise FileNotFoundError(f"log_artifact: there is no file {str(source)!r}")
        label = source.name if name is None else _name(name)
        if label in (".", "..") or any(letter in label for letter in "/\\\0"):
            raise ValueError(f"log_artifact: a name without separators, got {label!r}")
        self.write_artifact(source, label)

    def finish(self, how: str = "finished") -> None:
        """Write all that waits, and say how the run ended; a second call does nothing more.

        Args:
            how: `"finished"`, `"stopped"`, `"interrupted"` or `"failed"`.

        Raises:
            ValueError: it is none of these.
        """
        if how not in ENDINGS:
            raise ValueError(f"finish: how is one of {', '.join(ENDINGS)}; got {how!r}")
        if not self.is_silent:
            self.close(how)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        ended = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        self.finish("finished" if error is None else ended)

    # ------------------------------------------------------------------ of a subclass

    def write_metrics(self, values: dict[str, float], step: int) -> None:
        """Write numbers by name."""
        raise NotImplementedError(f"{type(self).__name__} does not log metrics")

    def write_hyperparams(self, values: dict[str, Plain]) -> None:
        """Write settings by name."""
        raise NotImplementedError(f"{type(self).__name__} does not log hyperparameters")

    def write_image(self, name: str, pixels: np.ndarray, step: int) -> None:
        """Write an image, uint8 of shape (height, width, channels)."""
        raise NotImplementedError(f"{type(self).__name__} does not log images")

    def write_artifact(self, path: Path, name: str) -> None:
        """Write a file under a name."""
        raise NotImplementedError(f"{type(self).__name__} does not log artifacts")

    def close(self, how: str) -> None:
        """Write what waits; nothing does by itself."""


def is_logger(value: Any) -> bool:
    """Whether an object has the methods of a logger, and is no class."""
    has_all = all(callable(getattr(value, name, None)) for name in METHODS)
    return has_all and not isinstance(value, type)


def library(name: str, logger: str) -> Any:
    """The module of an optional library.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{logger} needs the package {name}, which can't be imported ({error}); "
            f"pip install {name}"
        ) from error


def copied(path: Path, folder: Path, name: str) -> Path:
    """A copy of a file in a folder, which is made where it is missing; one of the name is replaced.

    The copy has its name once it is whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, part = folder / name, folder / f".{name}.part"
    try:
        shutil.copyfile(path, part)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


# ------------------------------------------------------------------ plain values


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"a name must be a string of at least one letter, got {name!r}")
    return name


def _step(step: Any) -> int:
    number = int(step)
    if number < 0:
        raise ValueError(f"step must be 0 or more, got {step!r}")
    return number


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"metric {name!r} must be a number, got {value!r:.100}") from None


def flat_settings(params: Mapping[str, Any], prefix: str = "") -> dict[str, Plain]:
    """Nested settings by names joined with `/`; what is no plain value as text.

    >>> flat_settings({"optimizer": {"rate": 0.1}, "layers": [4, 5]})
    {'optimizer/rate': 0.1, 'layers': '[4, 5]'}
    """
    values: dict[str, Plain] = {}
    for name, value in params.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            values.update(flat_settings(value, f"{path}/"))
        elif value is None or isinstance(value, str | bool | int | float):
            values[path] = value
        elif getattr(value, "ndim", None) == 0 or getattr(value, "shape", None) == ():
            values[path] = array_of(value).item()
        else:
            values[path] = str(value)
    return values


def pixels_of(name: str, image: Any) -> np.ndarray:
    """An image as uint8 of shape (height, width, channels).

    Raises:
        ValueError: it is of another shape or dtype.
    """
    array = np.asarray(array_of(image))
    array = array[:, :, None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise ValueError(
            f"image {name!r}: shape (height, width) or (height, width, channels) with 1, 3 or 4 "
            f"channels, got {np.shape(image)}"
        )
    return as_uint8(name, array)
