"""`SwapEMAWeights`: a model is evaluated with the moving averages of its weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.callbacks.callback import Callback, Logs


class SwapEMAWeights(Callback):
    """Exchanges weights and their moving averages before evaluation, and again after it.

    The optimizer keeps the averages: `SGD(use_ema=True)`.

    Source: Polyak and Juditsky 1992, averaging of the iterates.

    Args:
        swap_on_epoch: exchange at the end of each epoch, too, and back at the beginning of the
            next: a `ModelCheckpoint` that comes later in the list then saves the averages.

    Raises:
        ValueError: in training, the optimizer keeps no averages.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile(tk.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), "mse")
        >>> swap = tk.callbacks.SwapEMAWeights(swap_on_epoch=True)
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=2, verbose=0, callbacks=[swap])
    """

    _untracked = Callback._untracked | {"swapped"}

    def __init__(self, swap_on_epoch: bool = False) -> None:
        super().__init__()
        self.swap_on_epoch = bool(swap_on_epoch)
        self.swapped = False

    def _averages(self) -> Iterator[tuple[Any, Any]]:
        """Each weight with its average."""
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        inner = getattr(optimizer, "optimizers", [optimizer])
        if not any(getattr(one, "use_ema", False) for one in inner):
            raise ValueError(
                f"SwapEMAWeights needs an optimizer with use_ema=True, got {optimizer!r}"
            )
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        for weight in self.model.trainable_variables:
            average = optimizer.state_of(weight).slots.get("average")
            if average is not None:
                yield weight, average

    def _swap(self, to_averages: bool) -> None:
        if self.swapped == to_averages:
            return
        for weight, average in self._averages():
            before = weight.numpy()
            weight.assign(average.numpy().astype(before.dtype))
            average.assign(before.astype(average.numpy().dtype))
        self.swapped = to_averages

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.swapped = False

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        if self.swap_on_epoch:
            self._swap(False)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if not self.swap_on_epoch:
            return
        self._swap(True)
        last = epoch == self.params.get("epochs", 0) - 1 or self.model.stop_training
        if last:  # the end of fit makes the averages the weights, which they are now
            for weight, average in self._averages():
                average.assign(weight.numpy().astype(average.numpy().dtype))
            self.swapped = False

    def on_test_begin(self, logs: Logs | None = None) -> None:
        self._swap(True)

    def on_test_end(self, logs: Logs | None = None) -> None:
        self._swap(False)

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        self._swap(True)

    def on_predict_end(self, logs: Logs | None = None) -> None:
        self._swap(False)

    def state_arrays(self) -> dict[str, Any]:
        return {"swapped": np.bool_(self.swapped)}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if set(arrays) != {"swapped"}:
            raise ValueError(f"SwapEMAWeights stores 'swapped', the file has {sorted(arrays)}")
        self.swapped = bool(arrays["swapped"])
