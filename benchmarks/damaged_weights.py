"""Damaged files of weights: each ends in an error of trainkit's or in arrays.

    python benchmarks/damaged_weights.py [files...] [--count 2000] [--seed 0]

Without files, one of each format is damaged: a checkpoint of `torch.save`, quantized tensors, a
safetensors file and an index of several, `.npz`, `.weights.h5` and a file of Flax. Bytes are
changed, cut out, doubled and cut off; sizes are made large. For files of `torch.save` the pickle
alone is damaged too, in an archive that is whole. It prints for each format how many loaded, how
many ended in which error, the largest memory of the process, and what Python's audit saw besides:
programs that were started, classes that a pickle looked up, files elsewhere that were opened.
"""

from __future__ import annotations

import argparse
import codecs
import json
import pathlib
import pickle
import random
import resource
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter

import numpy as np

import trainkit as tk
from trainkit.core.errors import OpError

sys.path[:0] = [str(pathlib.Path(__file__).parent)]  # tests import this file from elsewhere

from file_damage import damaged  # noqa: E402
from flax_files import flax_bytes  # noqa: E402

RNG = np.random.default_rng(0)


class _Name:
    """A function of PyTorch that a pickle is to name."""

    def __init__(self, module: str, name: str) -> None:
        self.text = f"c{module}\n{name}\n".encode()


def _pickled(value: object) -> bytes:
    """Instructions for plain values, names, calls (function, arguments) and storages."""
    if isinstance(value, _Name):
        return value.text
    if isinstance(value, dict):
        return b"}(" + b"".join(_pickled(k) + _pickled(v) for k, v in value.items()) + b"u"
    if isinstance(value, tuple) and value and value[0] == "call":
        return _pickled(value[1]) + _pickled(value[2]) + b"R"
    if isinstance(value, tuple):
        is_storage = bool(value) and value[0] == "storage"
        return b"(" + b"".join(map(_pickled, value)) + b"t" + (b"Q" if is_storage else b"")
    return pickle.dumps(value, 2)[2:-1]


def _tensor(key: str, shape: tuple[int, ...], kind: str = "FloatStorage") -> tuple[object, ...]:
    count = int(np.prod(shape))
    strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    storage = ("storage", _Name("torch", kind), key, "cpu", count)
    return (
        "call",
        _Name("torch._utils", "_rebuild_tensor_v2"),
        (storage, 0, shape, strides, False, {}),
    )


def write_checkpoint(path: pathlib.Path) -> None:
    """A file of `torch.save` with weights, quantized ones too, an optimizer and numbers."""
    channels = (_Name("torch", "per_channel_affine"), _tensor("2", (3,), "DoubleStorage"),
                _tensor("3", (3,), "LongStorage"), 0)  # fmt: skip
    codes = ("storage", _Name("torch", "QInt8Storage"), "4", "cpu", 6)
    quantized = ("call", _Name("torch._utils", "_rebuild_qtensor"),
                 (codes, 0, (3, 2), (2, 1), channels, False, {}))  # fmt: skip
    model = {"conv.weight": _tensor("0", (4, 3, 3, 3)), "conv.bias": _tensor("1", (4,)),
             "tied": _tensor("0", (4, 27)), "codes": quantized}  # fmt: skip
    value = {"model": model, "optimizer": {"state": {0: {"step": _tensor("1", (4,))}}}, "epoch": 3}
    data = b"\x80\x02" + _pickled(value) + b"."
    storages = [RNG.random(108, "float32"), RNG.random(4, "float32"), RNG.random(3),
                np.arange(3), np.arange(6, dtype="int8")]  # fmt: skip
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w/data.pkl", data)
        archive.writestr("w/byteorder", "little")
        for key, array in enumerate(storages):
            archive.writestr(f"w/data/{key}", array.tobytes())


def samples(folder: pathlib.Path) -> list[pathlib.Path]:
    """A small file of each format."""
    write_checkpoint(folder / "checkpoint.pt")
    arrays = {"a.weight": RNG.random((4, 3), "float32"), "a.bias": np.ones(4, "float16")}
    tk.weights.save(arrays, folder / "one.safetensors")
    tk.weights.save(arrays, folder / "model.safetensors", max_shard_size=16)
    tk.weights.save(arrays, folder / "arrays.npz")
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(4)])
    tk.weights.save(model, folder / "keras.weights.h5")
    params = {"Dense_0": {"kernel": arrays["a.weight"], "bias": arrays["a.bias"]}, "scale": 0.5}
    state = {"step": 3, "params": params, "batch_stats": {"mean": RNG.random(50)}}
    (folder / "flax.msgpack").write_bytes(flax_bytes(state, chunk_size=160))
    names = ("checkpoint.pt", "one.safetensors", "model.safetensors.index.json", "arrays.npz",
             "keras.weights.h5", "flax.msgpack")  # fmt: skip
    return [folder / name for name in names]


def with_damaged_pickle(path: pathlib.Path, rng: random.Random) -> bytes:
    """A whole archive of `torch.save` whose pickle has faults, as only an attacker writes it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    target = path.with_name("rewritten.zip")
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, damaged(data, rng) if name.endswith("data.pkl") else data)
    return target.read_bytes()


def outcome(path: pathlib.Path) -> str:
    """What becomes of reading a file: `loaded`, or the name of the error.

    Args:
        path: of the file.
    """
    try:
        with tk.weights.open(path, verify=False) as table:
            table.arrays()
        tk.weights.load(path)
    except OpError as error:
        return type(error).__name__
    return "loaded"


def count_outcomes(path: pathlib.Path, count: int, rng: random.Random) -> tuple[Counter[str], int]:
    """How often damaged copies of a file end how, and how many end in an error of Python's.

    Args:
        path: of a whole file; copies are written beside it.
        count: of copies.
        rng: of the faults.
    """
    data = path.read_bytes()
    stem, _, ending = path.name.partition(".")
    copy = path.with_name(f"{stem}-damaged.{ending}")
    results: Counter[str] = Counter()
    faults = 0
    for number in range(count):
        is_forged = path.suffix == ".pt" and number % 2
        copy.write_bytes(with_damaged_pickle(path, rng) if is_forged else damaged(data, rng))
        try:
            results[outcome(copy)] += 1
        except Exception:
            faults += 1
            traceback.print_exc(limit=-4)
    return results, faults


class Audit:
    """What a reader must not do: start programs, look classes up, open files elsewhere.

    Args:
        folder: where files may be opened.

    Attributes:
        events: names of what was done, with how often.
    """

    # not "compile": NumPy parses the header of an array as a literal, and runs nothing of it
    _FORBIDDEN = ("pickle.find_class", "os.system", "os.exec", "subprocess.Popen", "exec")

    def __init__(self, folder: str) -> None:
        self.events: Counter[str] = Counter()
        self._folder = folder
        self._is_on = False
        for encoding in (
            "cp437",
            "unicode_escape",
            "utf-8-sig",
            "utf-16",
            "utf-16-be",
            "utf-16-le",
            "utf-32",
            "utf-32-be",
            "utf-32-le",
        ):
            codecs.lookup(encoding)  # of names in archives, of JSON; imported at their first use
        sys.addaudithook(self._note)

    def _note(self, event: str, details: tuple[object, ...]) -> None:
        if not self._is_on:
            return
        is_elsewhere = event == "open" and not str(details[0]).startswith((self._folder, "["))
        if event in self._FORBIDDEN or (is_elsewhere and not isinstance(details[0], int)):
            self.events[f"{event} {str(details[0])[-60:]}"] += 1

    def __enter__(self) -> Audit:
        self._is_on = True
        return self

    def __exit__(self, *error: object) -> None:
        self._is_on = False


def main() -> None:
    """Damage files and count what becomes of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        audit = Audit(folder)
        for path in arguments.files or samples(pathlib.Path(folder)):
            outcome(path)  # imports what it needs
            with audit:
                results, faults = count_outcomes(path, arguments.count, rng)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            print(f"{path.name}: {json.dumps(results)}, other errors: {faults}, peak {peak} MB")
        print(f"forbidden: {dict(audit.events) or 'nothing'}")


if __name__ == "__main__":
    main()
