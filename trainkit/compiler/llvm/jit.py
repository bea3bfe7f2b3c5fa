"""LLVM's language compiled to a function that Python calls, and kept on disk as object code."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from functools import lru_cache
from typing import Any

from trainkit.kernels.jit import numpy_inner_loops
from trainkit.kernels.jit.generated import cache_folder

_FORMAT = 1
"""Changed when files that were kept before no longer serve."""
_DIGEST_BYTES = 32
_LOCK = threading.Lock()


class Machine:
    """LLVM, set up for this processor."""

    def __init__(self) -> None:
        import llvmlite
        import llvmlite.binding as llvm

        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        processor = llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features().flatten()
        target = llvm.Target.from_default_triple()
        self._target = target.create_target_machine(cpu=processor, features=features, opt=3)
        self._facts = f"{_FORMAT}\n{llvmlite.__version__}\n{target.triple}\n{processor}\n{features}"
        self._engine = numpy_inner_loops.forever(
            llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._target)
        )
        self._made: dict[str, Any] = {}

    def function(self, text: str, symbols: dict[str, int]) -> Any:
        """A built-in function of the code `@run` in `text`.

        Args:
            text: a module; its functions and objects from outside are named in `symbols`.
            symbols: their addresses in this process.
        """
        digest = hashlib.sha256(f"{self._facts}\n{text}".encode()).hexdigest()[:40]
        with _LOCK:
            found = self._made.get(digest)
            if found is None:
                code = _read(digest)
                if code is None:
                    code = self._compiled(text, f"run_{digest}")
                    _write(digest, code)
                found = self._made[digest] = self._loaded(code, f"run_{digest}", symbols)
        return found

    def _compiled(self, text: str, name: str) -> bytes:
        """Object code."""
        llvm = self._llvm
        module = llvm.parse_assembly(text.replace("@run(", f"@{name}("))
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        options.slp_vectorization = False
        options.loop_unrolling = True
        builder = llvm.create_pass_builder(self._target, options)
        builder.getModulePassManager().run(module, builder)
        code: bytes = self._target.emit_object(module)
        return code

    def _loaded(self, code: bytes, name: str, symbols: dict[str, int]) -> Any:
        for symbol, address in symbols.items():
            self._llvm.add_symbol(symbol, address)
        self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        address = self._engine.get_function_address(name)
        if not address:
            raise RuntimeError("the compiled code has no entry")
        return numpy_inner_loops.built_in(address)


@lru_cache(maxsize=1)
def machine() -> Machine:
    """The one of this process.

    Raises:
        RuntimeError: this Python or this NumPy lays out its objects otherwise than is known here.
    """
    if not numpy_inner_loops.available():
        raise RuntimeError("this interpreter's objects have a layout that is not known")
    return Machine()


# ------------------------------------------------------------------ on disk


def _path(digest: str) -> Any:
    return cache_folder() / "machine" / f"{digest}.o"


def _read(digest: str) -> bytes | None:
    """Object code that an earlier process has kept, `None` where there is none, or it is torn."""
    try:
        data = _path(digest).read_bytes()
    except OSError:
        return None
    code = data[_DIGEST_BYTES:]
    whole = hashlib.sha256(code).digest() == data[:_DIGEST_BYTES]
    return code if whole and code else None


def _write(digest: str, code: bytes) -> None:
    """Keep object code; a folder that can't be written to only costs time."""
    path = _path(digest)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(temporary, path)
    except OSError:
        return
