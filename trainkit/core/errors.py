"""The error classes, under TensorFlow's names, as subclasses of the built-in ones they stand for.

Each can be caught as TensorFlow's users do (`tk.errors.InvalidArgumentError`) and as Python's users
do (`ValueError`, `IndexError`).
"""

from __future__ import annotations

from trainkit.core.files.printable import printable

(
    OK,
    CANCELLED,
    UNKNOWN,
    INVALID_ARGUMENT,
    DEADLINE_EXCEEDED,
    NOT_FOUND,
    ALREADY_EXISTS,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    FAILED_PRECONDITION,
    ABORTED,
    OUT_OF_RANGE,
    UNIMPLEMENTED,
    INTERNAL,
    UNAVAILABLE,
    DATA_LOSS,
    UNAUTHENTICATED,
) = range(17)


def _shown(text: object) -> object:
    """A text without what a terminal would obey: a message may have names from a file in it."""
    return printable(text) if isinstance(text, str) else text


class OpError(Exception):
    """Base of all errors raised by an operation.

    It takes a text alone, or TensorFlow's arguments: `OpError(node_def, op, message, error_code)`
    and, for a class that has a code of its own, `InvalidArgumentError(node_def, op, message)`.

    Attributes:
        message: the text without the class name.
        op: the operation that failed, where one was given, else None.
        node_def: the description of that operation, where one was given, else None.
        error_code: the number of the kind of error, one of this module's constants.
        experimental_payloads: further values by their names, for a class that has its own code.

    Raises:
        TypeError: there is more than a text, but no message; or a code that is another than that
            of the class.

    >>> error = tk.errors.NotFoundError(None, None, "there is no such word")
    >>> str(error), error.error_code == tk.errors.NOT_FOUND
    ('there is no such word', True)
    """

    error_code = UNKNOWN
    op: object = None
    node_def: object = None
    experimental_payloads: dict[str, bytes] = {}  # noqa: RUF012  (empty, and never changed)

    def __init__(
        self,
        node_def: object = None,
        op: object = None,
        message: str | None = None,
        error_code: int | dict[str, bytes] | None = None,
    ) -> None:
        if message is None:
            if op is not None or error_code is not None:
                raise TypeError(
                    f"{type(self).__name__} has no message: give a text alone, or node_def, op "
                    f"and message"
                )
            super().__init__(*(() if node_def is None else (_shown(node_def),)))
            return
        super().__init__(_shown(message))
        if node_def is not None:
            self.node_def = node_def
        if op is not None:
            self.op = op
        if isinstance(error_code, dict):
            self.experimental_payloads = error_code
        elif error_code is not None:
            self._take_code(error_code)

    def _take_code(self, code: int) -> None:
        """Keep a code that was given; a class that stands for one has no other."""
        own = type(self).error_code
        if own not in (OpError.error_code, code):
            raise TypeError(f"the error_code of {type(self).__name__} is {own}, not {code}")
        self.error_code = code

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self.args[0]) if self.args else ""


class InvalidArgumentError(OpError, ValueError):
    """An operation was given values, shapes or dtypes that it can't take."""

    error_code = INVALID_ARGUMENT


class LeakedTensorError(InvalidArgumentError, TypeError):
    """A tensor of a function is used outside of it, where it has no value."""


class ShapeError(InvalidArgumentError):
    """Shapes do not fit each other or the operation."""


class DTypeError(InvalidArgumentError, TypeError):
    """A dtype is not the one that an operation needs."""


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


OperatorNotAllowedInGraphError = NoValueError
"""TensorFlow's name for it."""


class OutOfRangeError(OpError, IndexError):
    """An iterator has no further element, or a position is outside its range."""

    error_code = OUT_OF_RANGE


class NotFoundError(OpError, FileNotFoundError):
    """A file, checkpoint or name does not exist."""

    error_code = NOT_FOUND

    # FileNotFoundError would print its arguments as an errno and a text.
    __str__ = Exception.__str__


class NoSuchFileError(NotFoundError, ValueError):
    """There is no such file of a model or of weights; Keras calls that a `ValueError`."""


class FailedPreconditionError(OpError, RuntimeError):
    """The object is not in the state that the call needs."""

    error_code = FAILED_PRECONDITION


class NotBuiltError(FailedPreconditionError, ValueError):
    """A layer or model has no weights yet, and the call needs them."""


class UnimplementedError(OpError, NotImplementedError):
    """The combination of arguments is known but not supported; the text names what is."""

    error_code = UNIMPLEMENTED


class ResourceExhaustedError(OpError, MemoryError):
    """A device has no memory left for the result."""

    error_code = RESOURCE_EXHAUSTED


class DataLossError(OpError, OSError):
    """A file is damaged: a checksum or a size does not agree with its content."""

    error_code = DATA_LOSS

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

    error_code = INTERNAL


class AbortedError(OpError, RuntimeError):
    """The operation was stopped before it could finish."""

    error_code = ABORTED


class CancelledError(OpError, RuntimeError):
    """The operation was cancelled by its caller."""

    error_code = CANCELLED


class UnknownError(OpError, RuntimeError):
    """What went wrong is not known, or is of another system."""


class DeadlineExceededError(OpError, TimeoutError):
    """The operation had not ended when its time was over."""

    error_code = DEADLINE_EXCEEDED
    __str__ = Exception.__str__


class AlreadyExistsError(OpError, FileExistsError):
    """What was to be made is already there."""

    error_code = ALREADY_EXISTS
    __str__ = Exception.__str__


class PermissionDeniedError(OpError, PermissionError):
    """The caller may not do this."""

    error_code = PERMISSION_DENIED
    __str__ = Exception.__str__


class UnauthenticatedError(OpError, PermissionError):
    """It is not known who the caller is."""

    error_code = UNAUTHENTICATED
    __str__ = Exception.__str__


class UnavailableError(OpError, ConnectionError):
    """Another process that takes part has ended, or what would bring them together is not there."""

    error_code = UNAVAILABLE


class DeviceError(InvalidArgumentError, RuntimeError):
    """A device was asked for that this machine does not have."""
