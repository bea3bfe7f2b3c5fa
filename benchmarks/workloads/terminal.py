"""A terminal that nobody looks at, for what draws bars only where there is one."""

import fcntl
import os
import pty
import struct
import sys
import termios
import threading
from typing import Any


class Terminal:
    """Within a `with` block the output goes to a terminal of 40 x 120, whose end is read."""

    def __enter__(self) -> "Terminal":
        end, self._own = pty.openpty()
        fcntl.ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        threading.Thread(target=_drain, args=(end,), daemon=True).start()
        self._kept = [os.dup(1), os.dup(2)]
        self._streams = sys.stdout, sys.stderr
        os.dup2(self._own, 1)
        os.dup2(self._own, 2)
        sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
        return self

    def __exit__(self, *exc: Any) -> None:
        sys.stdout.close()
        sys.stderr.close()
        sys.stdout, sys.stderr = self._streams
        for number, kept in zip((1, 2), self._kept, strict=True):
            os.dup2(kept, number)
            os.close(kept)
        os.close(self._own)


def _drain(end: int) -> None:
    try:
        while os.read(end, 65536):
            pass
    except OSError:  # the other end is closed
        pass
