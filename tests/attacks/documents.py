"""Mutations of what a saved graph says, as one who knows the format would make them."""

import copy
import json

import numpy as np

from trainkit.checkpoints.format.writer import Group, Values, write_file

NUMBERS = (0, 1, 2, 3, -1, 7, 2**31, 2**62, 2**70, 1.5, 1e300)
TEXTS = ("", "x", "float32", "float64", "int32", "bool", "add", "multiply", "matmul", "reshape",
         "cond", "op", "input", "constant", "relu", "same", "tensor", "..", "\0")  # fmt: skip


def parts_of(path):
    """The document and the arrays of a saved graph."""
    import h5py

    with h5py.File(path, "r") as file:
        document = json.loads(file["graph"][()].tobytes())
        arrays = file.get("values", {})
        return document, {name: arrays[name][()] for name in arrays}


def write_parts(path, document, arrays, kind="trainkit-graph"):
    """A saved graph, or what `kind` is, of these parts, sealed as `save` does it."""
    text = np.frombuffer(json.dumps(document).encode(), np.uint8)
    entries = [Values("graph", lambda: text)]
    if arrays:
        entries.append(Group("values", {}))
        entries += [Values(f"values/{name}", lambda a=a: a) for name, a in arrays.items()]
    write_file(path, entries, {"format": kind, "version": "1", "manifest": "{}"})


def places_in(value, place=()):
    """The paths to all parts of a document."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from places_in(item, (*place, key))
        else:
            yield (*place, key)


def mutated_document(document, random_):
    """A copy of `document` with one or two changes."""
    document = copy.deepcopy(document)
    for _ in range(random_.choice((1, 1, 1, 2))):
        places = list(places_in(document))[1:]
        *above, last = random_.choice(places)
        holder = document
        for key in above:
            holder = holder[key]
        _change(holder, last, document, places, random_)
    return document


def _change(holder, last, document, places, random_):
    old = holder[last]
    way = random_.random()
    if way < 0.12:
        del holder[last]
    elif way < 0.22 and isinstance(holder, list):
        holder.insert(last, copy.deepcopy(random_.choice(holder)))
    elif way < 0.32:
        *above, key = random_.choice(places)
        other = document
        for step in (*above, key):
            other = other[step]
        holder[last] = copy.deepcopy(other)
    elif way < 0.37 and isinstance(holder, dict):
        holder[random_.choice(TEXTS)] = holder.pop(last)
    elif isinstance(old, bool) or old is None:
        holder[last] = random_.choice((True, False, None, 0, "x"))
    elif isinstance(old, int | float):
        holder[last] = random_.choice((old + 1, old - 1, *NUMBERS))
    elif isinstance(old, str):
        holder[last] = random_.choice((*TEXTS, old[:-1], old + "x"))
    else:
        holder[last] = random_.choice(([], {}, None, 0, "x", [old], {"tuple": [old]}))
