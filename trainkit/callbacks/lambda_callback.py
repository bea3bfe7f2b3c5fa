"""`LambdaCallback`: functions as a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.callbacks import callback as base


class LambdaCallback(base.Callback):
    """A callback made of functions.

    Args:
        on_epoch_begin, on_epoch_end: functions of (epoch, logs).
        on_train_begin, on_train_end: functions of (logs).
        on_train_batch_begin, on_train_batch_end: functions of (batch, logs).
        **more: functions for any other method of `Callback`, or by a name of your own.

    Raises:
        TypeError: a name begins with `on_` but is that of no method, or a value is no function.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1, kernel_initializer="ones")])
        >>> model.compile("sgd", "mse")
        >>> show = tk.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print(epoch, logs))
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=2, verbose=0, callbacks=[show])
        0 {'loss': 0.0}
        1 {'loss': 0.0}
    """

    def __init__(
        self,
        on_epoch_begin: Callable[..., Any] | None = None,
        on_epoch_end: Callable[..., Any] | None = None,
        on_train_begin: Callable[..., Any] | None = None,
        on_train_end: Callable[..., Any] | None = None,
        on_train_batch_begin: Callable[..., Any] | None = None,
        on_train_batch_end: Callable[..., Any] | None = None,
        **more: Callable[..., Any] | None,
    ) -> None:
        super().__init__()
        functions = {
            "on_epoch_begin": on_epoch_begin,
            "on_epoch_end": on_epoch_end,
            "on_train_begin": on_train_begin,
            "on_train_end": on_train_end,
            "on_train_batch_begin": on_train_batch_begin,
            "on_train_batch_end": on_train_batch_end,
            **more,
        }
        for name, function in functions.items():
            if name.startswith("on_") and not hasattr(base.Callback, name):
                hooks = [n for n in dir(base.Callback) if n.startswith("on_")]
                raise TypeError(
                    f"LambdaCallback: there is no {name!r}; there are {', '.join(hooks)}"
                )
            if function is not None:
                if not callable(function):
                    raise TypeError(f"LambdaCallback: {name} must be a function, got {function!r}")
                object.__setattr__(self, name, function)
