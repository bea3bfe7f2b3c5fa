"""What runs in the process of a compiler: texts of LLVM's language come, object code goes back.

`compiler_process.py` starts it. It imports LLVM and nothing of NumPy, and ends when nobody is there
to ask any more.
"""

from __future__ import annotations

import os
import signal
import struct
from typing import IO

from trainkit.kernels.jit.llvm_target import target_machine
from trainkit.kernels.jit.llvm_text import optimized_code

LENGTH = struct.Struct("<?Q")
"""What goes before a text: whether there is one, as an error gives none, and how long it is."""


def serve(requests: IO[bytes], answers: IO[bytes], priority: int) -> None:
    """Compile what comes until the other end is closed.

    Args:
        requests: modules in LLVM's language.
        answers: for each its object code, or what LLVM says against it.
        priority: the niceness of this process.
    """
    import llvmlite.binding as llvm

    # Ctrl+C is for the program, which ends this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpriority(os.PRIO_PROCESS, 0, priority)
    target = target_machine()
    while (text := receive(requests)) is not None:
        try:
            code = optimized_code(llvm.parse_assembly(text[1].decode()), target)
        except RuntimeError as error:
            send(answers, False, str(error).encode())
        else:
            send(answers, True, code)


def send(file: IO[bytes], is_whole: bool, data: bytes) -> None:
    """Write bytes with their length before them."""
    file.write(LENGTH.pack(is_whole, len(data)) + data)
    file.flush()


def receive(file: IO[bytes]) -> tuple[bool, bytes] | None:
    """What the other end has sent; `None` where that has ended."""
    head = file.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    is_whole, length = LENGTH.unpack(head)
    data = file.read(length)
    return (is_whole, data) if len(data) == length else None
