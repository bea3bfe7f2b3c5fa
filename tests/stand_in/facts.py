"""What CuPy has: its public functions with their parameters, its ufuncs with their loops.

`facts.json` holds what CuPy 14 has; `python -m tests.stand_in.facts` writes it again, where CuPy
is installed (a GPU is not needed for that). Only names that NumPy has too are taken.
"""

import inspect
import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("facts.json")
MODULES = ("", "linalg", "fft", "lib.stride_tricks")


def of_cupy(cupy):
    """The facts about the module `cupy`, as `facts.json` holds them."""
    found = {"version": cupy.__version__, "functions": {}, "ufuncs": {}, "methods": []}
    for path in MODULES:
        theirs, ours = _inside(cupy, path), _inside(np, path)
        for name in sorted(set(dir(theirs)) & set(dir(ours))):
            _note(found, f"{path}.{name}".lstrip("."), getattr(theirs, name))
    found["methods"] = sorted(set(dir(cupy.ndarray)) - set(dir(object)))
    return found


def _inside(module, path):
    for name in filter(None, path.split(".")):
        module = getattr(module, name)
    return module


def _note(found, name, thing):
    if name.startswith("_") or isinstance(thing, type) or not callable(thing):
        return
    if type(thing).__name__ == "ufunc":
        scatters = getattr(thing, "_scatter_op", None) is not None
        reduces = thing.name in ("cupy_add", "cupy_multiply")
        found["ufuncs"][name] = {
            "types": thing.types,
            "methods": ["at"] * scatters + ["reduce", "accumulate"] * reduces,
        }
        return
    try:
        found["functions"][name] = parameters(inspect.signature(thing))
    except ValueError:  # a compiled function without a signature
        found["functions"][name] = None


def parameters(signature):
    """A signature as text in which every default is `None`."""
    plain = []
    for p in signature.parameters.values():
        default = p.empty if p.default is p.empty else None
        plain.append(p.replace(default=default, annotation=p.empty))
    return str(inspect.Signature(plain))


if __name__ == "__main__":
    import cupy

    FILE.write_text(json.dumps(of_cupy(cupy), indent=1, sort_keys=True) + "\n")
