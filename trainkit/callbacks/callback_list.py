"""`CallbackList`: calls many callbacks as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from trainkit.callbacks.callback import Callback, Logs, numbers
from trainkit.callbacks.history import History
from trainkit.callbacks.progress import ProgressBar
from trainkit.callbacks.ranks import rank_of

Hook = tuple[Callable[..., None], bool]

_BATCH_EVENTS = {
    "train_begin": ("on_train_batch_begin", "on_batch_begin"),
    "train_end": ("on_train_batch_end", "on_batch_end"),
    **{
        f"{mode}_{event}": (f"on_{mode}_batch_{event}",)
        for mode in ("test", "predict")
        for event in ("begin", "end")
    },
}
"""By events of batches, the methods that hear of them; the first is called."""


def _overrides(callback: Any, names: Iterable[str]) -> bool:
    kind = type(callback)
    return any(
        name in callback.__dict__ or getattr(kind, name, None) is not getattr(Callback, name)
        for name in names
    )


def _of_other_ranks(callbacks: list[Any], model: Any, params: dict[str, Any]) -> list[Any]:
    """The callbacks of a process that is not the first, and what stands for those of that one."""
    own_callbacks = []
    for callback in callbacks:
        if not getattr(callback, "only_rank_0", False):
            own_callbacks.append(callback)
            continue
        stands_in = callback.in_other_ranks() if isinstance(callback, Callback) else None
        if stands_in is not None:
            stands_in.set_params(params)
            stands_in.set_model(model)
            own_callbacks.append(stands_in)
    return own_callbacks


def _stores_last(callbacks: list[Any]) -> list[Any]:
    """What stores a run comes behind what may change it, wherever both stand."""
    return sorted(callbacks, key=lambda callback: getattr(callback, "stores_runs", False) is True)


class CallbackList:
    """Calls many callbacks, in their order, as one: `on_epoch_end(epoch, logs)` and so on.

    Those that store whole runs come behind all others after a batch, as what is stored has to hold
    what these have done.

    Args:
        callbacks: a list of them.
        add_history: add a `History`, unless there is one, and let the model hold it.
        add_progbar: add a progress bar, unless there is one.
        model: handed to each.
        **params: handed to each, as a dict: `epochs`, `steps`, `verbose` and so on.

    Attributes:
        callbacks: the list.
        model: what was handed to each last, or None.
        params: likewise the dict.

    Raises:
        TypeError: something in the list is no callback.

    Example:
        >>> stop = tk.callbacks.EarlyStopping(monitor="loss")
        >>> callbacks = tk.callbacks.CallbackList([stop], model=tk.Sequential())
        >>> callbacks.on_train_begin()
        >>> callbacks.on_epoch_end(0, {"loss": 0.5})
        >>> callbacks.on_train_end()
    """

    def __init__(
        self,
        callbacks: Iterable[Any] | None = None,
        add_history: bool = False,
        add_progbar: bool = False,
        model: Any = None,
        **params: Any,
    ) -> None:
        self.callbacks = list(callbacks or ())
        self.model: Any = None
        self.params: dict[str, Any] = {}
        for callback in self.callbacks:
            hook = getattr(callback, "on_epoch_end", None)
            if isinstance(callback, type) or not callable(hook):
                raise TypeError(
                    f"callbacks must be Callback objects, got {callback!r}"
                    + ("; call the class to make one" if isinstance(callback, type) else "")
                )
        if add_history and not any(isinstance(c, History) for c in self.callbacks):
            self.callbacks.append(History())
        if add_progbar and not any(isinstance(c, ProgressBar) for c in self.callbacks):
            self.callbacks.append(ProgressBar(params.get("verbose", 1)))
        self.set_params(params)
        if model is not None:
            self.set_model(model)
        self._called = self.callbacks
        if rank_of(model):
            self._called = _of_other_ranks(self.callbacks, model, params)
        self._hooks: dict[str, list[Hook]] = {}

    def _hooks_of(self, event: str) -> list[Hook]:
        """The methods for an event of batches that do something, and whether they want numbers.

        They are looked for when it happens first: a call of `predict` has two of the six events.
        """
        hooks = self._hooks.get(event)
        if hooks is None:
            hooks = self._hooks[event] = self._search_hooks(_BATCH_EVENTS[event])
        return hooks

    def _search_hooks(self, names: tuple[str, ...]) -> list[Hook]:
        return [
            (getattr(callback, names[0]), getattr(callback, "reads_batch_logs", True))
            for callback in _stores_last(self._called)
            if not isinstance(callback, Callback) or _overrides(callback, names)
        ]

    def hears_batches(self, mode: str) -> bool:
        """Whether a callback that all ranks have hears of the ends of batches of `mode`."""
        owners = [getattr(hook, "__self__", None) for hook, _ in self._hooks_of(f"{mode}_end")]
        return not all(getattr(owner, "only_rank_0", False) for owner in owners)

    def set_model(self, model: Any) -> None:
        """Hand `model` to each."""
        self.model = model
        for callback in self.callbacks:
            callback.set_model(model)
            if isinstance(callback, History):
                model.history = callback

    def set_params(self, params: dict[str, Any]) -> None:
        """Hand `params` to each."""
        self.params = params
        for callback in self.callbacks:
            callback.set_params(params)

    def call(self, method: str, *args: Any) -> None:
        """Call `method` of each."""
        called = self._called
        for callback in _stores_last(called) if method == "on_train_interrupted" else called:
            hook = getattr(callback, method, None)
            if hook is not None:
                hook(*args)

    def batch_begin(self, mode: str, batch: int) -> None:
        """Call the method for the beginning of a batch of `mode`: train, test or predict."""
        for hook, _ in self._hooks_of(f"{mode}_begin"):
            hook(batch, {})

    def batch_end(self, mode: str, batch: int, logs: Logs) -> None:
        """Call the method for the end of a batch; logs become numbers for those that read them."""
        values: Logs | None = None
        for hook, reads in self._hooks_of(f"{mode}_end"):
            if reads and mode != "predict":
                values = numbers(logs) if values is None else values
                hook(batch, values)
            else:
                hook(batch, logs)


def _make_hook(method: str) -> Callable[..., None]:
    def of_a_loop(self: CallbackList, logs: Logs | None = None) -> None:
        self.call(method, logs or {})

    def of_a_part(self: CallbackList, index: int, logs: Logs | None = None) -> None:
        self.call(method, index, logs or {})

    tell = of_a_part if "epoch" in method or "batch" in method else of_a_loop
    tell.__name__, tell.__doc__ = method, f"Call `{method}` of each."
    return tell


for _method in dir(Callback):
    if _method.startswith("on_"):
        setattr(CallbackList, _method, _make_hook(_method))
