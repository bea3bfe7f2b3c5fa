"""LLVM in a process of its own, so that its memory is not the program's.

LLVM's library and what it needs for the first kernel take 80 MB, as much as a small network with
its training, and what it has freed lies between arrays. So texts are compiled by a child, which is
gone some seconds after the last of them. Where none can be started the caller compiles by itself.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
from functools import lru_cache

from trainkit.core.process import forks, side_work
from trainkit.core.process.child_python import child_command
from trainkit.core.process.side_work import COMPILER_SECONDS
from trainkit.kernels.jit.without_llvm import object_memory
from trainkit.kernels.jit.without_llvm.compiler_server import receive, send

NICENESS = 2 * side_work.NICENESS
"""By so much the niceness of the child is above that of the program: on a core that it shares with
a step it gets a tenth. Threads beside the program get more (`side_work.NICENESS`), as others wait
for the locks they hold; nothing waits for the child."""

# The package's own `__init__` imports NumPy and the operations, of which nothing is needed there.
_CHILD = """
import types
package = types.ModuleType("trainkit")
package.__path__ = {paths!r}
sys.modules["trainkit"] = package
from trainkit.kernels.jit.without_llvm.compiler_server import serve
serve(sys.stdin.buffer, sys.stdout.buffer, {priority})
"""


class CompilerProcess:
    """A child that compiles, started when it is needed."""

    def __init__(self) -> None:
        self._lock = forks.make_lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._last_use = 0.0
        self._is_possible = _may_start()
        self._ending_thread: int | None = None

    def object_code(self, text: str) -> bytes | None:
        """The optimized code of a module in LLVM's language; `None` where no child can make it.

        Raises:
            RuntimeError: LLVM refuses the text.
            SystemExit: another thread ends this process.
        """
        with self._lock:
            answer = self._ask(text) if self._is_possible else None
            self._last_use = time.monotonic()
        if self._ending_thread not in (None, threading.get_ident()):
            # The process ends, and this thread with it, silently: it may hold the lock of those who
            # compile, for which the exit waits.
            raise SystemExit
        if answer is None:
            self._is_possible = False
            return None
        is_whole, data = answer
        if not is_whole:
            raise RuntimeError(data.decode())
        return data

    def _ask(self, text: str) -> tuple[bool, bytes] | None:
        try:
            if self._child is None:
                self._child = self._start()
            child = self._child
            assert child.stdin is not None
            assert child.stdout is not None
            send(child.stdin, True, text.encode())
            answer = receive(child.stdout)
        except OSError:
            answer = None
        if answer is None:
            self._end()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        priority = os.getpriority(os.PRIO_PROCESS, os.getpid()) + NICENESS
        code = _CHILD.format(
            paths=list(sys.modules["trainkit"].__path__), priority=min(priority, 19)
        )
        child = subprocess.Popen(
            child_command(code, options=("-S",)),  # modules are found where this process finds them
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # errors come back as answers
            # Ctrl+C is not for it. It has no session of its own: Linux shares cores among sessions
            # first, whatever the niceness of those in them, and a step would wait for half a core.
            process_group=0,
        )
        threading.Thread(target=self._end_when_idle, name="trainkit-compiler", daemon=True).start()
        return child

    def _end_when_idle(self) -> None:
        while True:
            time.sleep(COMPILER_SECONDS)
            with self._lock:
                if time.monotonic() - self._last_use >= COMPILER_SECONDS:
                    self._end()
                if self._child is None:
                    return

    def _end(self) -> None:
        """End the child, whatever it does."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def end(self) -> None:
        """End the child, as this process ends."""
        self._ending_thread, self._is_possible = threading.get_ident(), False
        child = self._child
        if child is not None:
            child.kill()  # a thread that waits for it goes on
            with self._lock:
                self._end()

    def begin_fork(self) -> None:
        """Leave the child to the process that this one was forked off from."""
        child, self._child = self._child, None
        if child is not None:
            for pipe in (child.stdin, child.stdout):
                assert pipe is not None
                pipe.close()
            child.returncode = 0  # nobody here waits for it


def _may_start() -> bool:
    """Whether a child can be started, and its code can be used without LLVM in this process."""
    # what embeds Python, or is frozen with it, may name itself there
    name = os.path.basename(os.path.realpath(sys.executable or ""))
    is_python = name.startswith("python") and not getattr(sys, "frozen", False)
    return is_python and object_memory.is_supported()


@lru_cache(maxsize=1)
def compiler_process() -> CompilerProcess:
    """The one of this process."""
    compiler = CompilerProcess()
    atexit.register(compiler.end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=compiler.begin_fork)
    return compiler
