"""Changes bytes and configs of whole models in archives: a load gives the right model or refuses.

Half of the archives are changed byte by byte. The other half are put together again as a forger
would do it, with sums that fit: values of the config are exchanged for wild ones, members left out,
cut or exchanged. Those may also give another model, whose weights are those of the file. Run as
`python fuzzing.py MUTATIONS SEED`. Memory is limited to 96 MiB beyond what the process has before,
time to 10 s a load.
"""

import collections
import faulthandler
import io
import json
import os
import pathlib
import random
import re
import resource
import sys
import tempfile
import warnings
import zipfile

import numpy as np

os.environ["TRAINKIT_JIT"] = "0"  # a compiler that is imported on the way is no model's memory
import trainkit as tk
from trainkit.core.errors import CheckpointError, InvalidArgumentError, OpError

L = tk.layers
ALLOWED = 96 << 20
SECONDS = 10
WILD = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**62,
    10**30,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "relu",
    "float64",
    "x" * 1000,
    [],
    {},
    [[]],
    [None, 4],
    [2**40, 2**40],
    {"class_name": "Dense", "config": {"units": 2**40}},
    {"class_name": "function", "config": "eval"},
    {"class_name": "__lambda__", "config": {"code": "AAAA"}},
    {"class_name": "__tensor__", "config": {"value": [1, [2]], "dtype": "float32"}},
    {"class_name": "__keras_tensor__", "config": {"keras_history": ["nobody", 0, 0]}},
    {"module": "os", "class_name": "system", "config": "true"},
]


def functional():
    x = tk.Input((4,), name="x")
    y = L.Dense(3, kernel_regularizer="l2")(x)
    return tk.Model({"x": x}, [L.Dense(2)(y), (y * 2.0)[:, :1]])


def images():
    return tk.Sequential(
        [tk.Input((6, 6, 1)), L.Conv2D(2, 3, activation="relu"), L.UpSampling2D(2), L.Flatten()]
    )


def words():
    return tk.Sequential(
        [tk.Input((5,), dtype="int32"), L.Embedding(9, 3, mask_zero=True), L.LSTM(2), L.Dense(1)]
    )


def archives(folder):
    """Valid archives: (bytes, the weights in them)."""
    made = []
    for make in (functional, images, words):
        model = make()
        model.compile("adam", "mse")
        path = folder / "valid.keras"
        model.save(path)
        made.append((path.read_bytes(), model.get_weights()))
    return made


def damaged(content, rng):
    """The bytes with some of them changed, cut off, doubled or filled up."""
    content = bytearray(content)
    kind = rng.randrange(5)
    if kind == 0:
        del content[rng.randrange(len(content)) :]
    elif kind == 1:
        content += bytes(rng.randrange(256) for _ in range(rng.randrange(1, 400)))
    elif kind == 2:
        start = rng.randrange(len(content))
        del content[start : start + rng.randrange(1, 300)]
    else:
        # Many in the names and tables, which are a small part of the bytes.
        texts = [m.start() for m in re.finditer(rb"PK|json|weights|\x89HDF", bytes(content))] or [0]
        for _ in range(rng.randrange(1, 8)):
            near = rng.choice(texts) + rng.randrange(60) if rng.random() < 0.6 else None
            at = rng.randrange(len(content)) if near is None else min(near, len(content) - 1)
            content[at] = rng.randrange(256)
    return bytes(content)


def places(value, found):
    """Every place in nested lists and dicts, as (holder, key)."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        found.append((value, key))
        if isinstance(value[key], dict | list):
            places(value[key], found)
    return found


def forged(content, rng):
    """The archive with another config or other members, and without the checksums of the old."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["metadata.json"] = b"{}"
    kind = rng.randrange(10)
    if kind == 0:
        members.pop(rng.choice(list(members)))
    elif kind == 1:
        name = rng.choice(list(members))
        members[name] = damaged(members[name], rng) if members[name] else b"x"
    else:
        config = json.loads(members["config.json"])
        for _ in range(rng.randrange(1, 4)):
            holder, key = rng.choice(places(config, []))
            if rng.random() < 0.15:
                del holder[key]
            elif rng.random() < 0.3:
                other, from_key = rng.choice(places(config, []))
                holder[key] = json.loads(json.dumps(other[from_key]))
            else:
                holder[key] = rng.choice(WILD)
        members["config.json"] = json.dumps(config).encode()
    packed = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return packed.getvalue()


def loaded(path):
    """The model, or the name of the error that refused it."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        return tk.models.load_model(path)
    except (CheckpointError, InvalidArgumentError) as error:
        return type(error).__name__
    except OpError as error:
        return type(error).__name__
    except (ValueError, TypeError) as error:  # of a layer, about an argument
        if not ours(error):
            raise
        return f"{type(error).__name__} of ours"
    finally:
        faulthandler.cancel_dump_traceback_later()


def ours(error):
    """Whether the innermost line that raised stands in the package."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return "trainkit" in pathlib.Path(trace.tb_frame.f_code.co_filename).parts


def main(mutations, seed):
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    outcomes = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        valid = archives(folder)
        for content, _ in valid:  # caches of the process fill up before memory is limited
            (folder / "m.keras").write_bytes(content)
            loaded(folder / "m.keras")
        limit = resident() + ALLOWED
        for number in range(mutations):
            content, weights = rng.choice(valid)
            whole = number % 2 == 0
            change = damaged if whole else forged
            (folder / "m.keras").write_bytes(change(content, rng))
            try:
                found = loaded(folder / "m.keras")
            except BaseException:
                kept = pathlib.Path(tempfile.gettempdir()) / f"mutation-{seed}-{number}.keras"
                kept.write_bytes((folder / "m.keras").read_bytes())
                print(f"mutation {number} of seed {seed} kept as {kept}", file=sys.stderr)
                raise
            if isinstance(found, str):
                outcomes[found] += 1
                continue
            same = len(found.weights) == len(weights) and all(
                np.array_equal(a, b) for a, b in zip(found.get_weights(), weights, strict=True)
            )
            assert same or not whole, f"mutation {number} of seed {seed}: other weights"
            outcomes["right" if same else "another model"] += 1
            assert resident() < limit, f"mutation {number} of seed {seed} took the memory"
    taken = outcomes["right"] + outcomes["another model"]
    print(f"{mutations} mutations: {dict(outcomes)}, {mutations - taken} refused")


def resident():
    """Bytes that the process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
