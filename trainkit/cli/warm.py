"""The `warm` command: compiles what programs will need, so that none of them has to wait for it."""

from __future__ import annotations

import argparse
import os
import pathlib
import runpy
import sys

from trainkit.cli.checks.compiler import why_not_writable
from trainkit.cli.kernels import named_compilers, usual_kernels
from trainkit.core import devices
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.code_store import code_folder, why_not_trusted
from trainkit.kernels.jit.kernel_code import compiled_kernel, kernel_at_hand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "script",
        nargs="?",
        help="a program to run, with every kernel and graph that it uses compiled; without one "
        "the kernels that every user needs are compiled, as far as they did not come compiled",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")


def run(args: argparse.Namespace) -> int:
    """Fill the cache, and say where it is.

    Raises:
        ValueError: nothing can be kept.
    """
    cache = code_folder()
    reason = why_not_trusted() or why_not_writable(cache)
    if reason:
        raise ValueError(f"{_not_kept(cache, reason)}; {_ASKED}")
    before, on_gpu_before = _files(cache), _files_of_cupy()
    status = 0 if args.script is None else _run(args.script, args.arguments)
    if args.script is None:
        with named_compilers():
            for module, builder, key in usual_kernels():
                if kernel_at_hand(module, builder, key) is None:
                    compiled_kernel(module, builder, key)
    added = len(_files(cache) - before)
    print(f"{added} compiled kernels and graphs were added to {cache}")
    on_gpu = len(_files_of_cupy() - on_gpu_before)
    if on_gpu or devices.gpu_count():
        kernels = f"{on_gpu} kernel{'s' * (on_gpu != 1)} of the GPU"
        print(f"{kernels} were added to {_folder_of_cupy()}")
    return status


def _run(script: str, arguments: list[str]) -> int:
    """Run a program with all that it uses compiled at once; its exit status."""
    kernel_family.set_mode("eager")
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


_ASKED = "set TRAINKIT_CACHE to a folder that you alone may write to"


def _not_kept(folder: pathlib.Path, reason: str) -> str:
    return f"compiled code can't be kept in {folder} ({reason})"


def _files(folder: pathlib.Path) -> set[str]:
    return {path.name for path in folder.glob("*.o")}


def _folder_of_cupy() -> pathlib.Path:
    """Where CuPy keeps what it has compiled."""
    usual = pathlib.Path.home() / ".cupy" / "kernel_cache"
    return pathlib.Path(os.environ.get("CUPY_CACHE_DIR", usual))


def _files_of_cupy() -> set[str]:
    return {path.name for path in _folder_of_cupy().glob("*.cubin")}
