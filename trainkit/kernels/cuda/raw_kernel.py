"""A kernel written in CUDA C++: compiled once by NVRTC, launched on the current stream."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from trainkit.core.devices import several_gpus
from trainkit.core.process import forks

THREADS = 256
"""Threads of a block, where nothing asks for another number."""
MOST_THREADS, WARP = 1024, 32
"""Threads that a block may have, and those of it that run together."""
MANY_THREADS = MOST_THREADS // 2
"""Threads of a block that does much by itself; for more of them registers would lack."""
EACH = 8
"""Elements of a row or of a column that a thread holds; what holds more beside them takes half."""
ALIGNMENT = 16
"""Bytes of the widest word of a GPU; arrays that begin at a multiple of it are moved by words."""
MOST_BLOCKS = 4096
"""Blocks of a launch; their threads go on to further elements."""
ROUNDED = ("--fmad=false",)
"""A product and a sum are rounded each for itself, as one operation after the other."""

_COMPILED: dict[tuple[Any, ...], Any] = {}
_LOCK = forks.make_lock()


def compiled(xp: Any, name: str, text: str, options: tuple[str, ...] = ROUNDED) -> Any:
    """The kernel, ready to be launched with (grid, block, arguments).

    Equal sources are compiled once; CuPy keeps what it compiled on disk, too.
    """
    key = (xp, name, text, options)
    with _LOCK:
        kernel = _COMPILED.get(key)
        if kernel is None:
            kernel = xp.RawKernel(text, name, options=options)
            kernel.compile()
            _COMPILED[key] = kernel
    return kernel


def blocks_for(count: int, threads: int = THREADS, limit: int = MOST_BLOCKS) -> int:
    """Blocks for `count` elements, one a thread, where threads go on if there are more."""
    return max(1, min(-(-count // threads), limit))


def _check_places(xp: Any, args: Sequence[Any]) -> None:
    """Refuse arrays of another GPU, as CuPy's own kernels do: a raw one would read anything.

    Raises:
        ValueError: in CuPy's words.
    """
    device = int(xp.cuda.Device().id)
    for x in args:
        if isinstance(x, xp.ndarray) and int(x.device.id) != device:
            raise ValueError(
                "Array device must be same as the current device: array device = "
                f"{int(x.device.id)} while current = {device}"
            )


class RawKernel:
    """A kernel by name and text, for as long as the process lives.

    Args:
        name: of the function, which is `extern "C" __global__`.
        text: CUDA C++.
        options: for NVRTC.

    Numbers are passed as NumPy scalars of exactly the kernel's types.
    """

    def __init__(self, name: str, text: str, options: tuple[str, ...] = ROUNDED) -> None:
        self.name = name
        self.text = text
        self.options = options
        self._xp: Any = None
        self._launch: Any = None

    def is_there(self, xp: Any) -> bool:
        """Whether the kernel can be launched; the first time it is compiled.

        Where that fails a warning says so once, and the caller goes on by array arithmetic.
        """
        if self._xp is not xp:
            launch = None
            try:
                launch = compiled(xp, self.name, self.text, self.options)
            except Exception as error:  # the compiler may be missing or of another version
                warnings.warn(
                    f"the GPU kernel {self.name} can't be compiled here ({type(error).__name__}: "
                    f"{error}); array operations do its work, which takes longer",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._launch = launch
            self._xp = xp
        return self._launch is not None

    def __call__(
        self,
        blocks: int | tuple[int, ...],
        args: Sequence[Any],
        threads: int | tuple[int, ...] = THREADS,
        shared_mem: int = 0,
    ) -> None:
        """Launch it; `is_there` has been asked before.

        Args:
            blocks: how many, or how many along each of up to three axes.
            args: arrays on the current GPU, and NumPy scalars.
            threads: of a block, likewise.
            shared_mem: bytes of a block's memory beside what the text declares.
        """
        if several_gpus():
            _check_places(self._xp, args)
        grid = blocks if isinstance(blocks, tuple) else (blocks,)
        block = threads if isinstance(threads, tuple) else (threads,)
        self._launch(grid, block, tuple(args), shared_mem=shared_mem)
