"""Builds the shared libraries of compiled kernels that packages bring along.

A child process compiles for each instruction set: which one is meant is said by Numba's variables,
which are read once. Where there are several cores it has children of its own, which leave their
parts on disk. What is compiled is kept, so building again compiles what has changed alone.
"""

from __future__ import annotations

import ast
import importlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from trainkit.core.cpu.cpu_count import usable_cores
from trainkit.core.process.child_python import child_command
from trainkit.kernels.elementwise.parallel_ufuncs import library_ufuncs
from trainkit.kernels.jit.code_store import has_code, read_code, write_code
from trainkit.kernels.jit.digests import digest_of
from trainkit.kernels.jit.kernel_code import code_writer, function_name
from trainkit.kernels.jit.kernel_library import library_path, objects_path
from trainkit.kernels.jit.llvm_target import WIDE, processor, target_machine
from trainkit.kernels.jit.python_entry import OBJECTS
from trainkit.kernels.jit.target import LEVELS
from trainkit.kernels.threads.pool_code import library_text

Kernel = tuple[str, str, tuple[Any, ...]]
"""The module below `kernels`, the builder in it, and its arguments."""

_FEWEST = 8
"""Kernels that are worth a process: about as many seconds, and a third of a GB while it runs."""
_PART = """
import sys
from trainkit.kernels.jit import library_builder
library_builder.compile_part(sys.argv[1])
"""
_COMMAND = "from trainkit.cli.main import main\nsys.exit(main())"


class NoLinker(Exception):
    """There is no C compiler here that makes a library."""


def environment(level: str) -> dict[str, str]:
    """The variables of a process that compiles for an instruction set."""
    features = [f"+{name}" for name in sorted(LEVELS[level])]
    features += [WIDE] if level == "x86-64-v4" else []
    # LLVM has names for the levels of x86-64; for ARM the common base is enough.
    name = "generic" if level == "aarch64" else level
    said = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ",".join(features)}
    # The child must not load the library that it is about to replace.
    return {**os.environ, **said, "TRAINKIT_KERNELS": "0"}


def machine_of(level: str) -> str:
    """The processor that an instruction set belongs to, as the system calls it."""
    return "aarch64" if level == "aarch64" else "x86_64"


def can_build(level: str) -> bool:
    """Whether kernels for an instruction set can be compiled here: for ARM everywhere."""
    return machine_of(level) in ("aarch64", platform.machine())


def _triple(level: str) -> str:
    """LLVM's name of the machine of an instruction set, empty where it is this one."""
    machine = machine_of(level)
    return "" if machine == platform.machine() else f"{machine}-linux-gnu"


def linker_command(level: str) -> list[str]:
    """The C compiler that calls the linker: `CC`, or the usual ones for this or another machine.

    Raises:
        NoLinker: there is none.
    """
    named = os.environ.get("CC", "").split()
    usual = [f"{_triple(level)}-gcc"] if _triple(level) else ["cc", "gcc", "clang"]
    command = named or [path for path in map(shutil.which, usual) if path][:1]
    if not command:
        raise NoLinker(f"no C compiler was found ({', '.join(usual)})")
    return command


def build_library(
    level: str, kernels: Iterable[Kernel], folder: Path | None, say: Callable[[str], None]
) -> Path:
    """Compile kernels for what Numba's variables say, and link them.

    Args:
        level: the instruction set, after which the library is called.
        kernels: which ones.
        folder: where the library is put; by default where this package looks for it.
        say: takes a line for each kernel that is compiled.

    Raises:
        NoLinker: there is no C compiler, or it fails.
    """
    command = linker_command(level)
    path = Path(library_path(level))
    path = path if folder is None else folder / path.name
    path.parent.mkdir(parents=True, exist_ok=True)
    kernel_list = list(kernels)
    with tempfile.TemporaryDirectory() as temporary:
        # It ends in .so, which git ignores, and lies where it can be renamed to its final name.
        partial_path = path.with_name(f"{os.getpid()}-{path.name}")
        link = [*command, "-shared", "-s", "-o", str(partial_path)]
        try:
            objects = _written(temporary, "text", _codes_of_texts(level))
            _run_linker(link, objects)  # before minutes are spent on kernels
            _compile_together(level, kernel_list, say, for_library=True)
            codes = (_code_of(level, kernel, say) for kernel in kernel_list)
            objects += _written(temporary, "kernel", codes)
            _run_linker(link, objects)
            os.replace(partial_path, path)
        finally:
            partial_path.unlink(missing_ok=True)
    return path


def _run_linker(command: Sequence[str], objects: Sequence[str]) -> None:
    try:
        subprocess.run([*command, *objects], check=True)
    except subprocess.CalledProcessError as error:
        cause = f"the C compiler {command[0]} can't link, its exit status is {error.returncode}"
        raise NoLinker(cause) from None
    except OSError as error:
        raise NoLinker(f"the C compiler can't be run: {error}") from None


def _written(folder: str, name: str, codes: Iterable[bytes]) -> list[str]:
    """The paths of object files with these codes."""
    paths = []
    for i, code in enumerate(codes):
        paths.append(str(Path(folder) / f"{name}-{i}.o"))
        Path(paths[-1]).write_bytes(code)
    return paths


def write_objects(
    level: str, kernels: Iterable[Kernel], folder: Path | None, say: Callable[[str], None]
) -> Path:
    """Compile kernels, and put each into a file: what can be done where nothing can be linked.

    LLVM loads them, which takes the import of llvmlite in each process, but no Numba.

    Args:
        level: the instruction set, after which their folder is called.
        kernels: which ones.
        folder: where that folder is put; by default where this package looks for it.
        say: takes a line for each kernel that is compiled.
    """
    objects_folder = Path(objects_path(level))
    objects_folder = objects_folder if folder is None else folder / objects_folder.name
    objects_folder.mkdir(parents=True, exist_ok=True)
    kernel_list = list(kernels)
    _compile_together(level, kernel_list, say, for_library=False)
    for kernel in kernel_list:
        name = function_name(*kernel)
        (objects_folder / f"{name}.o").write_bytes(_code_of(level, kernel, say, for_library=False))
    return objects_folder


def _codes_of_texts(level: str) -> Iterator[bytes]:
    """The code of what a library holds besides kernels."""
    # Addresses of Python's objects are filled in when the library is loaded.
    cells = "".join(f"@{name} = global ptr null\n" for name in OBJECTS)
    machine = machine_of(level)
    for text in (cells, library_text(machine), library_ufuncs(machine)):
        yield _assemble(level, text)


def _assemble(level: str, text: str) -> bytes:
    """The object code of a module of LLVM, given as text, for an instruction set."""
    import llvmlite.binding as llvm

    target = target_machine(for_library=True, triple=_triple(level))
    code: bytes = target.emit_object(llvm.parse_assembly(text))
    return code


def _code_of(
    level: str, kernel: Kernel, say: Callable[[str], None], for_library: bool = True
) -> bytes:
    name, digest = _digest(level, kernel, for_library)
    code = read_code(digest)
    if code is None:
        module, builder, key = kernel
        say(f"{builder}{key if len(repr(key)) < 40 else ''}")
        built = getattr(importlib.import_module(f"trainkit.kernels.{module}"), builder)(*key)
        object_code = code_writer(built)
        assert object_code is not None, f"{builder} gives no kernel that can be kept"
        code = object_code(name, for_library, _triple(level))
        write_code(digest, code)
    return code


def _digest(level: str, kernel: Kernel, for_library: bool) -> tuple[str, str]:
    """The name of a kernel's function, and that of its code on disk."""
    name = function_name(*kernel)
    assert name is not None
    kind = "library" if for_library else "object"
    return name, digest_of(kind, name, _triple(level), *processor())[:40]


def _compiler() -> Any:
    """What turns kernels into object code; it imports Numba."""
    return importlib.import_module("trainkit.kernels.jit.object_code")


def _compile_together(
    level: str, kernels: Sequence[Kernel], say: Callable[[str], None], for_library: bool
) -> None:
    """Put the code of all kernels on disk, by as many processes as there are cores.

    Where some fail, or nothing can be written, the caller compiles what is not there.
    """
    missing = [kernel for kernel in kernels if not has_code(_digest(level, kernel, for_library)[1])]
    # Counted by what is missing: building again mostly compiles a few kernels.
    processes = min(usable_cores(), len(missing) // _FEWEST)
    if processes < 2:
        return
    _compiler()  # where Numba is missing one error says so
    children = []
    with tempfile.TemporaryDirectory() as claims:
        try:
            task = Path(claims, "task")
            task.write_text(repr((level, missing, claims, for_library)))
            for _ in range(processes - 1):
                # Processes and not threads, as Numba compiles under one lock.
                children.append(subprocess.Popen(child_command(_PART, str(task))))
            _compile_claimed(level, missing, claims, for_library, say)
            for child in children:
                child.wait()
        finally:
            for child in children:
                # After a success they are gone already; else none may go on writing beside the next
                # try.
                child.terminate()
                child.wait()


def _compile_claimed(
    level: str,
    kernels: Sequence[Kernel],
    claims: str,
    for_library: bool,
    say: Callable[[str], None],
) -> None:
    """Compile the kernels that no other process has taken; a file in `claims` says that one has."""
    for i, kernel in enumerate(kernels):
        try:
            # To make a file that must not be there is one step for the system, so just one process
            # gets each kernel, and a slow one does not hold up the others' share.
            Path(claims, str(i)).touch(exist_ok=False)
        except FileExistsError:
            continue
        _code_of(level, kernel, say, for_library)


def compile_part(task: str) -> None:
    """Do a share of another process's kernels, which a file names."""

    def say(text: str) -> None:
        print(text, flush=True)

    level, kernels, claims, for_library = ast.literal_eval(Path(task).read_text())
    _compile_claimed(level, kernels, claims, for_library, say)


def build_each(arguments: Sequence[str], levels: Iterable[str]) -> int:
    """Run trainkit's command line once for each level, with the level as its last argument.

    Returns:
        The first exit status that is not 0.
    """
    for level in levels:
        command = child_command(_COMMAND, *arguments, level)
        process = subprocess.run(command, env=environment(level))
        if process.returncode:
            return process.returncode
    return 0
