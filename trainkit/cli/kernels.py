"""The `kernels` command: builds the library of compiled kernels that a package brings along."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import trainkit as tk
from trainkit import kernels as families
from trainkit.core.process.requirements import install_command
from trainkit.kernels.jit import kernel_family, target
from trainkit.kernels.jit.library_builder import (
    Kernel,
    NoLinker,
    build_each,
    build_library,
    can_build,
    write_objects,
)
from trainkit.kernels.jit.register_tiles import tiling, weight_rows
from trainkit.optimizers.base.flat_update import UPDATES
from trainkit.optimizers.base.optimizer import Optimizer

_SIXTEENS = (1, 2, 3, 4)
_WINDOWS, _STRIDES = ((3, 1), (3, 2), (5, 1), (7, 1)), (1, 2)
"""Windows of depthwise convolutions with the filters of a channel, and steps of windows."""
_OF_THE_MACHINE = "native"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--output", type=Path, help="folder, by default that of this package")
    parser.add_argument(
        "--levels",
        default=_OF_THE_MACHINE,
        help=f"instruction sets, of {', '.join(target.LEVELS)}; by default that of this machine",
    )
    parser.add_argument("--only", default="", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Build, and say what was made."""
    if args.only:
        return _build(args.only, args.output)
    levels = [target.level()] if args.levels == _OF_THE_MACHINE else args.levels.split(",")
    known_here = [level for level in target.LEVELS if can_build(level)]
    unknown = [level for level in levels if level not in known_here]
    if unknown:
        level_names = ", ".join(known_here)
        raise ValueError(
            f"kernels can be built for {level_names}, not for {unknown[0] or 'this machine'}"
        )
    output = [] if args.output is None else ["--output", str(args.output)]
    return build_each(["kernels", *output, "--only"], levels)


def _build(level: str, folder: Path | None) -> int:
    def say(text: str) -> None:
        print(text, flush=True)

    say(f"kernels for {level} are compiled, which takes a minute or two where none is on disk")
    with named_compilers():
        try:
            built = build_library(level, usual_kernels(), folder, say)
        except NoLinker as error:
            print(
                f"trainkit kernels: {error}, so there is no library to load; LLVM loads each "
                "kernel, which takes a tenth of a second of every process",
                file=sys.stderr,
            )
            built = write_objects(level, usual_kernels(), folder, say)
    files = [path for path in (built, *built.glob("*.o")) if path.is_file()]
    print(f"{built}: {sum(map(os.path.getsize, files)) / 1e6:.1f} MB")
    return 0


@contextlib.contextmanager
def named_compilers() -> Iterator[None]:
    """Say what to install where a compiler of kernels is missing.

    Raises:
        ValueError: in place of the error that a missing Numba or llvmlite gives.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        if name not in ("numba", "llvmlite"):
            raise
        raise ValueError(
            f"{name} is not installed, and kernels are compiled by it; "
            f"{install_command('numba')} brings it"
        ) from None


def usual_kernels() -> Iterator[Kernel]:
    """The kernels that every user may need: all but those for unusual windows and rules."""
    root = Path(families.__path__[0])
    for path in sorted([*root.glob("*/*_tuned.py"), *root.glob("*/png_rows.py")]):
        importlib.import_module(f"{families.__name__}.{path.parent.name}.{path.stem}")
    built_families = [f for f in kernel_family._State.families if f is not UPDATES]
    for family in built_families:
        for key in _KEYS.get(family.name, lambda: iter([()]))():
            yield family.file, family.builder, key
    yield from _updates()


def _weights() -> Iterator[tuple[int, ...]]:
    for n in _SIXTEENS:
        tile_rows = tiling(n)[0]
        yield from ((n, 0, rows) for rows in weight_rows(tile_rows))
        if n <= 2:  # vectors that share no channel
            yield n, 1, tile_rows


def _depthwise(back: bool) -> Iterator[tuple[int, ...]]:
    for window, each in _WINDOWS:
        for stride in _STRIDES:
            for pixels in (7, 8):
                yield pixels, window, stride, 1, 0, each
                if back:
                    yield pixels * stride if pixels == 7 else 8, window, stride, 1, 1, each


def _pairs() -> tuple[tuple[()], ...]:
    """The key, and none where the level's vectors are too short for pairs of bfloat16."""
    return ((),) if target.vector_lanes() == 16 else ()


def _depthwise_offsets() -> Iterator[tuple[int, ...]]:
    return ((p, w, s, d, each) for p, w, s, d, _, each in _depthwise(back=False))


_KEYS: dict[str, Any] = {
    "bfloat16_pair_product": _pairs,
    "stacked_bfloat16_pair_product": _pairs,
    "bfloat16_tile_product": _pairs,
    "stacked_bfloat16_tile_product": _pairs,
    "conv_pixels": lambda: ((n, each) for n in _SIXTEENS for each in (0, 1)),
    "conv_weights": _weights,
    "winograd_results": lambda: ((2,), (4,)),
    "winograd_sums": lambda: ((2,), (4,)),
    "winograd_half_results": lambda: ((2,), (4,)),
    "winograd_half_sums": lambda: ((2,), (4,)),
    "depthwise_lines": lambda: dict.fromkeys(_depthwise(back=True)),
    "depthwise_taps": _depthwise_offsets,
    "depthwise_half_lines": lambda: dict.fromkeys(_depthwise(back=True)),
    "depthwise_half_offsets": _depthwise_offsets,
}
"""The keys that are usual in each family; where it is not named its builder takes no arguments."""


def _optimizers() -> list[Optimizer]:
    """One for each sequence of steps that settings lead to; numbers are given to its loop."""
    named = tk.keras.optimizers
    return [
        make(weight_decay=decay, **settings)
        for make, variants in (
            (
                named.SGD,
                (
                    {},
                    {"momentum": 0.9},
                    {"momentum": 0.9, "nesterov": True},
                    {"momentum": 0.9, "use_ema": True},
                ),
            ),
            # of averages within a period of accumulation there is a rule for themselves
            (
                named.Adam,
                (
                    {},
                    {"amsgrad": True},
                    {"use_ema": True},
                    {"use_ema": True, "gradient_accumulation_steps": 2},
                ),
            ),
            (
                named.RMSprop,
                ({}, {"momentum": 0.9}, {"centered": True}, {"momentum": 0.9, "centered": True}),
            ),
            (named.Adagrad, ({},)),
            (named.Nadam, ({},)),
            (named.Adamax, ({},)),
            (named.Adadelta, ({},)),
            (named.Lion, ({},)),
            (named.ScheduleFreeAdamW, ({},)),
        )
        for settings in variants
        for decay in (None, 0.01)
    ]


def _updates() -> Iterator[Kernel]:
    """What updates the weights of the usual optimizers."""
    keys: dict[kernel_family.Key, None] = {}  # several optimizers have the averages' rule
    with tk.device("/cpu:0"):  # a GPU, where there is one, has kernels of its own
        for dtype in (np.float32, np.float64):
            for optimizer in _optimizers():
                optimizer.apply([np.ones(2, dtype)], [tk.Variable(np.ones(2, dtype))])
                for programs in (optimizer._programs, optimizer._average_programs):
                    updates = programs.flat_updates()
                    keys |= {u.kernel_key: None for u in updates if u.kernel_key is not None}
    for key in keys:
        yield UPDATES.file, UPDATES.builder, key
