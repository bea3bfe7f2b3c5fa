"""`tk.profiler.experimental`: profiles under TensorFlow's names, written for TensorBoard."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from trainkit.core.errors import UnimplementedError
from trainkit.core.files.local_paths import local_path
from trainkit.profiler import profiling
from trainkit.profiler.tensorboard import write_profile


class ProfilerOptions(NamedTuple):
    """How a profile is taken.

    Attributes:
        host_tracer_level: above 0, its only meaning here: spans of the library are always noted.
        python_tracer_level: must be 0; use cProfile for single Python functions.
        device_tracer_level: 1 waits for a GPU after each operation, so that its time is seen; 0
            does not.
        delay_ms: must be `None`.
    """

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    delay_ms: int | None = None


class _Target:
    logdir: str | None = None


def start(logdir: str | os.PathLike[str], options: ProfilerOptions | None = None) -> None:
    """Begin a profile; `stop` writes it.

    Args:
        logdir: folder for TensorBoard.
        options: see `ProfilerOptions`.

    Raises:
        FailedPreconditionError: a profile runs already.
        UnimplementedError: an option that is not supported is given.
    """
    settings, folder = (
        _check(ProfilerOptions() if options is None else options),
        local_path(logdir),
    )
    profiling.begin(synchronize=settings.device_tracer_level > 0)
    _Target.logdir = folder


def _check(options: Any) -> Any:
    wrong = {
        "host_tracer_level": options.host_tracer_level < 1,
        "python_tracer_level": options.python_tracer_level != 0,
        "delay_ms": options.delay_ms is not None,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise UnimplementedError(
                f"profiler: {name}={getattr(options, name)!r} is not supported; "
                "device_tracer_level of 0 or 1 is, with host_tracer_level from 1 on, "
                "python_tracer_level=0 (use cProfile) and delay_ms=None"
            )
    return options


def stop(save: bool = True) -> None:
    """End the profile that `start` began, and write it to its folder.

    Args:
        save: `False` writes nothing.

    Raises:
        FailedPreconditionError: no profile runs.
    """
    session = profiling.end()
    logdir, _Target.logdir = _Target.logdir, None
    if save and logdir is not None:
        write_profile(session, logdir)


class Profile:
    """A block that is profiled: `start` and `stop` around it.

    Args:
        logdir: folder for TensorBoard.
        options: see `ProfilerOptions`.
    """

    def __init__(
        self, logdir: str | os.PathLike[str], options: ProfilerOptions | None = None
    ) -> None:
        self._logdir, self._options = logdir, options

    def __enter__(self) -> None:
        start(self._logdir, self._options)

    def __exit__(self, *exc: object) -> None:
        stop()


class Trace:
    """A span of your own, such as a step; without a profile it does nothing.

    Args:
        name: of the span.
        **kwargs: facts that are shown in its name, such as `step_num`. Those that begin with an
            underscore are TensorFlow's own and are left out.

    >>> with tk.profiler.profile() as p:
    ...     for step in range(2):
    ...         with tk.profiler.experimental.Trace("train", step_num=step):
    ...             y = tk.ones(3) + 1.0
    >>> sorted(row.name for row in p.rows if row.kind == "user")
    ['train step_num=0', 'train step_num=1']
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name, self._facts = name, kwargs
        self._session: Any = None
        self._record: Any = None
        self._start = 0

    def set_metadata(self, **kwargs: Any) -> None:
        """Add facts that are known only inside the block."""
        self._facts |= kwargs

    def __enter__(self) -> Trace:
        session = profiling.running()
        if session is not None:
            self._session, self._record = session, session.record
            self._start = self._record.begin()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._record is not None:
            facts = [f" {k}={v}" for k, v in self._facts.items() if not k.startswith("_")]
            self._record.end(self._session.label("user", self._name + "".join(facts)), self._start)
            self._record = None


if not TYPE_CHECKING:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        if name in ("client", "server"):
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}: a process profiles itself; "
                "use start and stop, Profile, or tk.profiler.profile"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
