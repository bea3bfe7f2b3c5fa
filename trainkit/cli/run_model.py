"""`python -m trainkit run model.h5`: what a saved graph gives for arrays in files.

python -m trainkit run model.h5 --input x.npy --output y.npy
python -m trainkit run served --input a=a.npy --input b=b.npy --output y.npz --signature serve
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.cli.serving.array_bodies import array_of_npy, arrays_of_npz, is_npy, npy_of, npz_of
from trainkit.cli.serving.servable import (
    InputError,
    Servable,
    computed,
    described,
    named_arrays,
    specs_of,
)
from trainkit.core.files.printable import printable

_MOST_UNPACKED = 1 << 40


def run_model(words: list[str]) -> int:
    """Read arrays, compute, and write or print the results.

    Returns:
        The exit status.

    Raises:
        ValueError: the model or an array can't be read, or they do not fit each other.
        OSError: a file can't be read or written.
    """
    parser = argparse.ArgumentParser("trainkit run")
    parser.add_argument(
        "model", help="a saved graph (HDF5), the folder of a saved model, or a .keras file"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="an array as npy, several as npz; without any, what the model takes is listed",
    )
    parser.add_argument("--output", metavar="FILE", help="npy for one result, npz for any number")
    parser.add_argument("--signature", metavar="NAME", help="which function of the model")
    args = parser.parse_args(words)
    servable = Servable.read(args.model)
    signature = servable.signature(args.signature)
    takes = specs_of(signature)
    if takes and not args.input:
        print(printable(_signatures_text(servable)))
        return 0
    if args.output and not args.output.endswith((".npy", ".npz")):
        raise InputError(f"--output is {args.output!r}; give a name that ends in .npy or .npz")
    results = computed(signature, named_arrays(signature, _arrays(args.input, list(takes))))
    if args.output is None:
        for name, array in results.items():
            print(printable(f"{name}  {array.dtype}{list(array.shape)}"))
            print(np.array2string(array, threshold=100))
    else:
        _write(args.output, results)
    return 0


def _signatures_text(servable: Servable) -> str:
    lines = []
    for name, signature in servable.signatures.items():
        lines.append(f"{name}")
        lines += [f"  takes {n}: {described(spec)}" for n, spec in specs_of(signature).items()]
        outputs = signature.structured_outputs.items()
        lines += [f"  gives {n}: {described(spec)}" for n, spec in outputs]
    return "\n".join([*lines, "give arrays by --input, such as --input x.npy"])


def _arrays(inputs: list[str], names: list[str]) -> dict[str, Any]:
    """The arrays that are given, by name."""
    arrays: dict[str, Any] = {}
    for text in inputs:
        name, mark, path = text.partition("=")
        if not mark or os.path.exists(text):
            name, path = "", text
        with open(path, "rb") as file:
            content = file.read()
        if is_npy(content):
            if not name and len(names) != 1:
                raise InputError(
                    f"the model takes {', '.join(names)}; say which one {path!r} is, such as "
                    f"--input {names[0]}={path}"
                )
            more = {name or names[0]: array_of_npy(content, repr(path))}
        elif name:
            raise InputError(f"{path!r} is no npy; an npz has its names in it: --input {path}")
        else:
            more = arrays_of_npz(content, _MOST_UNPACKED)
        twice = sorted(set(arrays) & set(more))
        if twice:
            raise InputError(f"the input {twice[0]!r} is given twice")
        arrays.update(more)
    return arrays


def _write(path: str, results: dict[str, Any]) -> None:
    """The results in a file, which appears whole or not at all."""
    if path.endswith(".npy") and len(results) != 1:
        raise InputError(f"there are {len(results)} results, {', '.join(results)}: name an npz")
    content = npz_of(results) if path.endswith(".npz") else npy_of(*results.values())
    with AtomicFile(path) as file:
        view = memoryview(content)
        while view:
            view = view[os.write(file.fd, view) :]
        file.commit()
