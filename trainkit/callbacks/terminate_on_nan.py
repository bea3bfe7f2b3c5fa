"""`TerminateOnNaN`: ends training when the loss is no number any more."""

from __future__ import annotations

import math

from trainkit.callbacks.callback import Callback, Logs
from trainkit.core.process.console import say


class TerminateOnNaN(Callback):
    """Stops training after a batch whose loss is NaN or infinite.

    Args:
        raise_error: end it with an error rather than as if it had been asked to stop; then no
            callback hears of an end of training, and `BackupAndRestore` keeps what it stored.

    Raises:
        RuntimeError: in training, with `raise_error`, the loss is NaN or infinite.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> stop = tk.callbacks.TerminateOnNaN()
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=2, verbose=0, callbacks=[stop])
    """

    def __init__(self, raise_error: bool = False) -> None:
        super().__init__()
        self.raise_error = bool(raise_error)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is None or math.isfinite(loss):
            return
        if self.raise_error:
            raise RuntimeError(
                f"TerminateOnNaN: the loss of batch {batch} is {loss}; look for NaN in the data, "
                "or for a learning rate that is too large"
            )
        say(f"batch {batch}: the loss is {loss}, training ends")
        self.model.stop_training = True
