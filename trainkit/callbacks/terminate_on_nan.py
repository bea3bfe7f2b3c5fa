"""`TerminateOnNaN`: ends training when the loss is no number any more."""

from __future__ import annotations

import math

from trainkit.callbacks.callback import Callback, Logs


class TerminateOnNaN(Callback):
    """Stops training after a batch whose loss is NaN or infinite."""

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            print(f"batch {batch}: the loss is {loss}, training ends", flush=True)
            self.model.stop_training = True
