"""`DownloadBar`: how much of a file has come."""

from __future__ import annotations

import time

from trainkit.callbacks.progbar import duration_text
from trainkit.callbacks.status_line import StatusLine

_SECONDS_BETWEEN_DRAWS = 0.1
_MEGABYTE = 1e6


class DownloadBar:
    """A bar on a terminal or in a notebook, and one line at the end elsewhere; for pooch.

    Attributes:
        total: bytes of the file; 0 if the server does not say.
    """

    def __init__(self, name: str) -> None:
        self.name, self.total = name, 0
        self._done = 0
        self._line = StatusLine()
        self._began_at = time.perf_counter()
        self._drawn_at = 0.0

    def update(self, count: int) -> None:
        """So many more bytes have come."""
        self._done += count
        now = time.perf_counter()
        if self._line.kind != "file" and now - self._drawn_at > _SECONDS_BETWEEN_DRAWS:
            self._drawn_at = now
            self._line.draw(*self._parts(over=False))

    def reset(self) -> None:
        """Count from 0 again, if the whole is known: what was counted so far are whole chunks."""
        if self.total:
            self._done = 0

    def close(self) -> None:
        """All has come."""
        self._line.end(*self._parts(over=True))

    def _parts(self, over: bool) -> tuple[str, float | None, list[str]]:
        seconds = time.perf_counter() - self._began_at
        megabytes = self._done / _MEGABYTE
        if not self.total or over:
            size, share = f"{megabytes:.1f} MB", None
        else:
            megabytes = min(megabytes, self.total / _MEGABYTE)
            size = f"{megabytes:.1f}/{self.total / _MEGABYTE:.1f} MB"
            share = megabytes * _MEGABYTE / self.total
        pieces = [f"{duration_text(seconds)} {megabytes / max(seconds, 1e-9):.1f} MB/s"]
        if share and not over:
            pieces.append(f"{duration_text(seconds * (1 / share - 1))} left")
        return f"{'Downloaded' if over else 'Downloading'} {self.name}  {size}", share, pieces
