"""LLVM's language compiled to a function that Python calls, and kept on disk as object code."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trainkit.core.process import forks
from trainkit.core.process.key_locks import KeyLocks
from trainkit.core.process.side_work import import_modules
from trainkit.kernels.jit import llvm_target, numpy_inner_loops, target
from trainkit.kernels.jit.code_store import read_code, write_code
from trainkit.kernels.jit.digests import digest_of
from trainkit.kernels.jit.llvm_text import optimized_code
from trainkit.kernels.jit.object_loader import linker
from trainkit.kernels.jit.without_llvm.compiler_process import compiler_process

_FORMAT = 3
"""Changed when files that were kept before no longer serve."""


class Machine:
    """LLVM for this processor, and the functions that were made with it."""

    def __init__(self) -> None:
        import llvmlite  # so much is there to be imported, whoever compiles

        self._linker = linker()
        self._facts = "\n".join((str(_FORMAT), llvmlite.__version__, target.identity()))
        self._made: dict[str, Any] = {}
        self._making = KeyLocks()

    def function(self, text: str, symbols: dict[str, int]) -> Any:
        """A built-in function of the code `@run` in `text`.

        Args:
            text: a module; its functions and objects from outside are named in `symbols`.
            symbols: their addresses in this process.
        """
        digest = digest_of(self._facts, text)[:40]
        # Two threads may come with the same text, of two graphs: one of them compiles it. A child
        # that is forked off in the middle would find LLVM as this thread left it.
        with self._making.hold(digest), forks.COMPILING:
            function = self._made.get(digest)
            if function is None:
                self._linker.symbols(symbols)
                # Object code refers to what is outside by name, so the names come first.
                function = self._made[digest] = self._kept(digest) or self._new(text, digest)
        return function

    def _kept(self, digest: str) -> Any:
        """The function that is kept on disk, `None` where there is none that is whole."""
        code = read_code(digest)
        if code is None:
            return None
        try:
            return self._linker.loaded(code, f"run_{digest}")
        except (ValueError, RuntimeError):
            return None

    def _new(self, text: str, digest: str) -> Any:
        code = self._compiled(text, f"run_{digest}")
        write_code(digest, code)
        return self._linker.loaded(code, f"run_{digest}")

    def _compiled(self, text: str, name: str) -> bytes:
        """Object code."""
        # Objects share one linker, in which every function needs a name of its own.
        text = text.replace("@run(", f"@{name}(")
        return compiler_process().object_code(text) or _compile_here(text)


def _compile_here(text: str) -> bytes:
    """Object code that LLVM makes in this process, where it stays."""
    import_modules(("llvmlite.binding",))
    import llvmlite.binding as llvm

    processor = llvm_target.target_machine()  # first: it sets up what reads a module, too
    return optimized_code(llvm.parse_assembly(text), processor)


@lru_cache(maxsize=1)
def machine() -> Machine:
    """The one of this process.

    Raises:
        RuntimeError: this Python or this NumPy lays out its objects otherwise than is known here.
    """
    if not numpy_inner_loops.available():
        raise RuntimeError("this interpreter's objects have a layout that is not known")
    return Machine()
