"""`RemoteMonitor`: the metrics of each epoch, sent to a server."""

from __future__ import annotations

import importlib
import json
import warnings
from typing import Any

import numpy as np

from trainkit.callbacks.callback import Callback, Logs


class RemoteMonitor(Callback):
    """Sends the number of each epoch and its logs by HTTP POST; needs the package `requests`.

    A server that can't be reached is a warning, and training goes on.

    Args:
        root: address of the server.
        path: where on the server.
        field: the field of the form that holds the logs as JSON.
        headers: more HTTP headers by name.
        send_as_json: send them as the body, of type `application/json`, rather than in a form.

    Raises:
        ImportError: in training, there is no package `requests`.

    Example:
        >>> monitor = tk.callbacks.RemoteMonitor(root="http://localhost:9000", send_as_json=True)
        >>> monitor.root
        'http://localhost:9000'
    """

    only_rank_0 = True

    def __init__(
        self,
        root: str = "http://localhost:9000",
        path: str = "/publish/epoch/end/",
        field: str = "data",
        headers: dict[str, str] | None = None,
        send_as_json: bool = False,
    ) -> None:
        super().__init__()
        self.root, self.path, self.field = root, path, field
        self.headers = headers
        self.send_as_json = bool(send_as_json)

    _untracked = Callback._untracked | {"headers"}
    headers: dict[str, str] | None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        try:
            requests = importlib.import_module("requests")
        except ImportError:
            raise ImportError(
                "RemoteMonitor needs the package requests: pip install requests"
            ) from None
        values = {"epoch": epoch, **{name: _plain(value) for name, value in (logs or {}).items()}}
        address = self.root + self.path
        try:
            if self.send_as_json:
                requests.post(address, json=values, headers=self.headers)
            else:
                requests.post(address, {self.field: json.dumps(values)}, headers=self.headers)
        except requests.exceptions.RequestException as error:
            warnings.warn(
                f"Could not reach RemoteMonitor root server at {self.root}: {error}", stacklevel=2
            )


def _plain(value: Any) -> Any:
    """A number as JSON has it; a list of them for an array of several."""
    if isinstance(value, np.ndarray | np.generic):
        return value.item() if value.size == 1 else value.tolist()
    return value
