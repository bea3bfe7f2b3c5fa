"""The error classes, under TensorFlow's names, as subclasses of the built-in ones they stand for.

Each can be caught as TensorFlow's users do (`tk.errors.InvalidArgumentError`) and as Python's users
do (`ValueError`, `IndexError`).
"""

from __future__ import annotations


class OpError(Exception):
    """Base of all errors raised by an operation.

    Attributes:
        message: the text without the class name.
    """

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self.args[0]) if self.args else ""


class InvalidArgumentError(OpError, ValueError):
    """An operation was given values, shapes or dtypes that it can't take."""


class LeakedTensorError(InvalidArgumentError, TypeError):
    """A tensor of a function is used outside of it, where it has no value."""


class ShapeError(InvalidArgumentError):
    """Shapes do not fit each other or the operation."""


class UnknownArgumentError(ValueError, TypeError):
    """A class was given arguments that it does not have.

    Python raises a `TypeError` for these, Keras a `ValueError`; either catches it.
    """


class PositionError(ShapeError, IndexError):
    """A position is outside its axis, or there are more indices than axes."""


class ConfigError(InvalidArgumentError, TypeError):
    """The description of an object, as `get_config` and saved models give it, can't be read."""


class NoValueError(TypeError):
    """Python asked a symbolic tensor for the value that it stands for."""


class OutOfRangeError(OpError, IndexError):
    """An iterator has no further element, or a position is outside its range."""


class NotFoundError(OpError, FileNotFoundError):
    """A file, checkpoint or name does not exist."""

    # FileNotFoundError would print its arguments as an errno and a text.
    __str__ = Exception.__str__


class NoSuchFileError(NotFoundError, ValueError):
    """There is no such file of a model or of weights; Keras calls that a `ValueError`."""


class FailedPreconditionError(OpError, RuntimeError):
    """The object is not in the state that the call needs."""


class NotBuiltError(FailedPreconditionError, ValueError):
    """A layer or model has no weights yet, and the call needs them."""


class UnimplementedError(OpError, NotImplementedError):
    """The combination of arguments is known but not supported; the text names what is."""


class ResourceExhaustedError(OpError, MemoryError):
    """A device has no memory left for the result."""


class DataLossError(OpError, OSError):
    """A file is damaged: a checksum or a size does not agree with its content."""

    __str__ = Exception.__str__


class CheckpointError(DataLossError, ValueError):
    """A checkpoint is damaged, hostile, or does not fit the objects that are to take its values.

    Keras raises a `ValueError` for these.
    """


class CheckpointMismatchError(CheckpointError):
    """A whole checkpoint does not fit the objects that are to take its values; they stay as is.

    Attributes:
        report: all differences, a `tk.checkpoints.Report`, or None.
    """

    report: object = None


class InternalError(OpError, RuntimeError):
    """The library broke one of its own promises; please report it."""


class AbortedError(OpError, RuntimeError):
    """The operation was stopped before it could finish."""


class CancelledError(OpError, RuntimeError):
    """The operation was cancelled by its caller."""


class UnavailableError(OpError, ConnectionError):
    """Another process that takes part has ended, or what would bring them together is not there."""


class DeviceError(InvalidArgumentError, RuntimeError):
    """A device was asked for that this machine does not have."""
