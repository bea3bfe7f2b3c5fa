"""Damages files of all formats, again and again; each reader must answer by its own errors.

    python -m tests.attacks.fuzz --seconds 60 --seed 1          # each format for a while
    python -m tests.attacks.fuzz --mutations 10000 --format npz

A reader fails by another error than its own, by a crash, by taking more memory than it may (64 MiB
beyond four times the file), or more than ten seconds. The bytes of what failed are kept in the
folder `tests/attacks/found`, which `test_fuzz.py` reads on every run. Each format has a process of
its own.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import gzip
import io
import json
import multiprocessing
import os
import random
import resource
import struct
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np

import trainkit as tk
from tests.attacks import media_formats
from tests.attacks.documents import mutated_document, parts_of, write_parts
from tests.attacks.file_format import Format
from tests.checkpoints.fuzzing import mutated, reseal
from tests.weights.torch_files import write_state
from trainkit.datasets import cifar10, mnist
from trainkit.datasets.idx import read_idx
from trainkit.journal import lines
from trainkit.journal.journal_writer import JournalWriter
from trainkit.ops.arrays.dlpack import from_dlpack
from trainkit.saved_graph import standalone

FOUND = Path(__file__).with_name("found")
SECONDS = 10
INPUT = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def make_model():
    tk.random.set_seed(3)
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(3, "relu"), tk.layers.Dense(2)])
    model.compile("adam", "mse")
    return model


class Sealed(Format):
    """Files with a seal, of which some get one that fits what was damaged."""

    def damage(self, valid, path, random_):
        if random_.random() < 0.5:
            reseal(valid, path, random_)
        else:
            super().damage(valid, path, random_)


class Checkpoints(Sealed):
    ending = "-1"

    def make(self, path):
        model = make_model()
        tk.train.Checkpoint(model=model, optimizer=model.optimizer).write(path)

    def read(self, path):
        model = make_model()
        status = tk.train.Checkpoint(model=model, optimizer=model.optimizer).read(path)
        status.expect_partial()


class Weights(Sealed):
    ending = ".weights.h5"

    def make(self, path):
        make_model().save_weights(path)

    def read(self, path):
        make_model().load_weights(path)


class Safetensors(Weights):
    ending = ".safetensors"

    def damage(self, valid, path, random_):
        if random_.random() < 0.5:
            return Format.damage(self, valid, path, random_)
        (length,) = struct.unpack_from("<Q", valid)
        header = json.dumps(mutated_document(json.loads(valid[8 : 8 + length]), random_)).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + valid[8 + length :])
        return None


class Npz(Weights):
    ending = ".npz"

    def damage(self, valid, path, random_):
        rezip(valid, path, random_, lambda data: mutated(data, random_)[0])


class Torch(Format):
    """Files of `torch.save`, half of them whole archives with a damaged member."""

    ending = ".pt"

    def make(self, path):
        with tempfile.TemporaryDirectory() as folder:
            arrays = f"{folder}/weights.npz"
            tk.weights.save(make_model(), arrays, layout="torch")
            write_state(path, tk.weights.load(arrays))

    def damage(self, valid, path, random_):
        rezip(valid, path, random_, lambda data: mutated(data, random_)[0], (zipfile.ZIP_STORED,))

    def read(self, path):
        tk.weights.load_into(make_model(), path, verify=False)


def rezip(valid, path, random_, change, packings=(zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)):
    """Damage the archive, or a member of it that then gets a checksum that fits."""
    if random_.random() < 0.4:
        path.write_bytes(mutated(valid, random_)[0])
        return
    with zipfile.ZipFile(io.BytesIO(valid)) as source, zipfile.ZipFile(path, "w") as target:
        names = source.namelist()
        chosen = random_.choice(names)
        for name in names:
            data = source.read(name)
            packed = random_.choice(packings)
            target.writestr(name, change(data) if name == chosen else data, packed)


class Keras(Format):
    ending = ".keras"
    own = (tk.errors.OpError, ValueError, TypeError)  # a config that a layer refuses

    def make(self, path):
        make_model().save(path)

    def read(self, path):
        tk.models.load_model(path)

    def damage(self, valid, path, random_):
        def change(data):
            if not data.startswith(b"{") or random_.random() < 0.3:
                return mutated(data, random_)[0]
            return json.dumps(mutated_document(json.loads(data), random_)).encode()

        rezip(valid, path, random_, change)


class Graphs(Format):
    """Saved graphs, and what is computed by one that was taken."""

    ending = ".h5"
    own = (tk.errors.OpError,)
    kind = "trainkit-graph"
    reader = staticmethod(tk.saved_graph.load)

    def make(self, path):
        model, scale = make_model(), tk.Variable(2.0)

        @tk.function(input_signature=[tk.TensorSpec([None, 4])])
        def f(x):
            total = tk.zeros([4])
            for row in x:
                if tk.reduce_sum(row) > 0.0:
                    total = total + row * scale
            return {"y": model(x), "b": [tk.nn.softmax(total), "text", None]}

        tk.saved_graph.save(f, path)

    def read(self, path):
        graph = self.reader(path)
        with contextlib.suppress(TypeError, ValueError):  # the file wants another array
            graph(INPUT)

    def damage(self, valid, path, random_):
        if random_.random() < 0.3:
            reseal(valid, path, random_)
        elif random_.random() < 0.3:
            super().damage(valid, path, random_)
        else:
            path.write_bytes(valid)
            document, arrays = parts_of(path)
            write_parts(path, mutated_document(document, random_), arrays, self.kind)


class GraphsAlone(Graphs):
    own = (standalone.GraphError,)
    reader = staticmethod(standalone.load)


class Models(Graphs):
    """Objects with their functions and signatures."""

    kind = "trainkit-saved-model"

    def make(self, path):
        model = make_model()
        folder = path.with_suffix(".folder")
        tk.saved_model.save(model, folder)
        path.write_bytes((folder / "saved_model.h5").read_bytes())

    def reader(self, path):
        folder = path.with_suffix(".read")
        folder.mkdir(exist_ok=True)
        (folder / "saved_model.h5").write_bytes(path.read_bytes())
        return tk.saved_model.load(folder).signatures.get("serving_default", lambda x: None)


class ModelsAlone(Models):
    own = (standalone.GraphError,)

    def reader(self, path):
        return standalone.load(path)


class Training(Graphs):
    """Training steps: taken into a model, whose variables stay as they are if they are not."""

    def make(self, path):
        tk.saved_graph.save_training(compiled_model(), path, (INPUT, INPUT[:, :1]))

    def read(self, path):
        tk.saved_graph.load_training(path, compiled_model())


class TrainingAlone(Training):
    own = (standalone.GraphError,)

    def read(self, path):
        file = standalone.TrainingFile(path)
        with contextlib.suppress(TypeError, ValueError):  # the file wants other arrays
            file.train({"x": INPUT, "y": INPUT[:, :1]})
        file.save(path.with_suffix(".after"))


def compiled_model():
    model = tk.Sequential([tk.keras.Input((4,)), tk.layers.Dense(3), tk.layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    return model


class Idx(Format):
    own = (ValueError,)

    def make(self, path):
        images = np.arange(5 * 28 * 28).astype(np.uint8).reshape(5, 28, 28)
        path.write_bytes(struct.pack(">4I", 0x803, *images.shape) + images.tobytes())

    def read(self, path):
        read_idx(path, 3, (28, 28))


class IdxPacked(Idx):
    ending = ".gz"

    def make(self, path):
        super().make(path)
        path.write_bytes(gzip.compress(path.read_bytes()))

    def damage(self, valid, path, random_):
        repack(valid, path, random_)


def repack(valid, path, random_):
    """Damage what a gzip file holds, or the file."""
    if random_.random() < 0.5:
        path.write_bytes(mutated(valid, random_)[0])
    else:
        path.write_bytes(gzip.compress(mutated(gzip.decompress(valid), random_)[0], 1))


class KerasNpz(Npz):
    own = (ValueError,)

    def make(self, path):
        images, labels = np.zeros((4, 28, 28), np.uint8), np.arange(4, dtype=np.uint8)
        np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)

    def read(self, path):
        mnist.load_data(path)


class Cifar(Format):
    ending = ".tar.gz"
    own = (ValueError,)

    def make(self, path):
        with tarfile.open(path, "w:gz") as archive:
            for name in (*cifar10.TRAIN_FILES, *cifar10.TEST_FILES):
                info = tarfile.TarInfo(f"{cifar10.FOLDER}/{name}")
                info.size = cifar10.RECORD
                archive.addfile(info, io.BytesIO(bytes(cifar10.RECORD)))

    def read(self, path):
        cifar10.load_data(path)

    def damage(self, valid, path, random_):
        repack(valid, path, random_)


class Png(Format):
    ending = ".png"

    def make(self, path):
        image = np.arange(40 * 30 * 3).astype(np.uint8).reshape(40, 30, 3)
        path.write_bytes(tk.image.encode_png(image).numpy())

    def read(self, path):
        tk.image.decode_png(path.read_bytes())

    def damage(self, valid, path, random_):
        if random_.random() < 0.3:
            return super().damage(valid, path, random_)
        made, place = [valid[:8]], 8
        while place < len(valid):  # damage the content of the chunks, with checksums that fit
            (size,) = struct.unpack_from(">I", valid, place)
            kind, body = valid[place + 4 : place + 8], valid[place + 8 : place + 8 + size]
            if body and random_.random() < 0.6:
                if kind == b"IDAT" and random_.random() < 0.6:
                    body = zlib.compress(mutated(zlib.decompress(body), random_)[0])
                else:
                    body = mutated(body, random_)[0]
            check = struct.pack(">I", zlib.crc32(kind + body))
            made.append(struct.pack(">I", len(body)) + kind + body + check)
            place += 12 + size
        path.write_bytes(b"".join(made))
        return None


class Events(Format):
    """Files of records, as summaries are, whose records may have checksums that fit."""

    def make(self, path):
        with tk.io.TFRecordWriter(str(path)) as writer:
            for size in (0, 3, 300, 5000):
                writer.write(bytes(range(256)) * 20 if size == 5000 else b"x" * size)

    def read(self, path):
        for _ in tk.data.TFRecordDataset(str(path)):
            pass

    def damage(self, valid, path, random_):
        if random_.random() < 0.7:
            return super().damage(valid, path, random_)
        with tk.io.TFRecordWriter(str(path)) as writer:
            writer.write(mutated(valid, random_)[0])
        return None


class Liar:
    """An object that says of itself what a file says, in one of the protocols of arrays."""

    def __init__(self, said):
        self._held = bytearray(64)
        for name, value in said.items():
            if name == "__array_interface__":
                value = {"data": memoryview(self._held), **value}
            elif name in ("__array__", "__dlpack__", "__dlpack_device__", "__len__"):
                value = (lambda given: lambda *args, **more: given)(value)
            setattr(type(self), name, value)


class Interchange(Format):
    """Objects that lie about the arrays that they stand for."""

    ending = ".json"
    own = (tk.errors.OpError, TypeError, ValueError)
    SAID = (
        {"__array_interface__": {"shape": [4, 2], "typestr": "<f4", "version": 3}},
        {"__array_interface__": {"shape": [2], "typestr": "<f8", "strides": [8], "version": 3}},
        {"__array__": [1, 2]},
        {"__dlpack_device__": [1, 0], "__dlpack__": 3},
        {"shape": [2, 3], "dtype": "float32", "__len__": 2},
        {"numpy": [1, 2], "dtype": "float32", "shape": [2]},
    )

    def make(self, path):
        path.write_text(json.dumps(self.SAID))

    def damage(self, valid, path, random_):
        path.write_text(json.dumps(mutated_document(json.loads(valid), random_)))

    def read(self, path):
        for said in json.loads(path.read_text()):
            if not isinstance(said, dict):
                continue
            said = {name: _listed(value) for name, value in said.items() if name.isidentifier()}
            for take in (tk.constant, from_dlpack, tk.Variable):
                liar = type("Liar", (Liar,), {})
                with contextlib.suppress(*self.own):
                    take(liar(said))


def _listed(value):
    """An interface with tuples, as its version of the protocol wants them."""
    if not isinstance(value, dict):
        return value
    wanted = ("shape", "strides")
    return {k: tuple(v) if k in wanted and isinstance(v, list) else v for k, v in value.items()}


class Journals(Format):
    """Journals of runs, of which some have a chain that fits what was damaged."""

    ending = ".folder.jsonl"
    own = (tk.errors.OpError,)

    def make(self, path):
        writer = JournalWriter(path.with_suffix(".made"))
        writer.header({"id": "0", "seed": 1, "model": {"layers": [["a", "Dense", "0"]]}})
        for n in range(1, 9):
            writer.step(lines.Step(n, 0, 0.5, {"m": 1.0}, 0.1, 0.0, "0" * 16, *[None] * 5))
            if n % 4 == 0:
                writer.record("checkpoint", n=n, file="checkpoints/x", bytes=3, sha256="0" * 64)
        writer.record("resume", n=6)
        writer.record("end", n=6, how="finished")
        writer.close()
        path.write_bytes((writer.folder / lines.FILE).read_bytes())

    def read(self, path):
        folder = path.with_suffix(".run")
        folder.mkdir(exist_ok=True)
        (folder / lines.FILE).write_bytes(path.read_bytes())
        run = tk.runs.open(folder)
        _ = (run.steps, run.checkpoints, run.status, run.is_alive, run.id, run.epochs)
        run.journal.problems()
        for ask in (lambda: run.at(3), lambda: tk.runs.prove(run), lambda: tk.runs.diff(run, run)):
            with contextlib.suppress(*self.own):
                ask()

    def damage(self, valid, path, random_):
        if random_.random() < 0.4:
            return super().damage(valid, path, random_)
        head, parts = lines.START, []
        for line in valid.splitlines():
            record = json.loads(line)
            record.pop("c")
            if random_.random() < 0.3:
                record = mutated_document(record, random_)
            body = json.dumps(record)[:-1].encode()
            sealed, head = lines.sealed(body, head)
            parts.append(sealed)
        path.write_bytes(b"".join(parts))
        return None


class Proofs(Format):
    ending = ".proof"
    own = (tk.errors.OpError,)

    def make(self, path):
        sums = "0" * 64
        tk.runs.RunProof(
            "0", "nowhere", "now", 3, sums, 9, (0, 9), sums, None, None, "given", {}
        ).save(path)

    def read(self, path):
        proof = tk.runs.RunProof.load(path)
        with contextlib.suppress(*self.own):
            tk.runs.verify(proof, sample=1)

    def damage(self, valid, path, random_):
        if random_.random() < 0.4:
            return super().damage(valid, path, random_)
        path.write_text(json.dumps(mutated_document(json.loads(valid), random_)))
        return None


FORMATS = {
    "checkpoint": Checkpoints,
    "weights.h5": Weights,
    "safetensors": Safetensors,
    "npz": Npz,
    "torch": Torch,
    "keras": Keras,
    "graph": Graphs,
    "graph-alone": GraphsAlone,
    "saved-model": Models,
    "saved-model-alone": ModelsAlone,
    "training": Training,
    "training-alone": TrainingAlone,
    "idx": Idx,
    "idx.gz": IdxPacked,
    "mnist.npz": KerasNpz,
    "cifar": Cifar,
    "png": Png,
    "events": Events,
    "interchange": Interchange,
    "journal": Journals,
    "proof": Proofs,
    **media_formats.FORMATS,
}


class Failed(AssertionError):
    """A reader did not answer as it should."""


def attempt(format_, path):
    """Read `path`; `"taken"` or `"refused"`.

    Raises:
        Failed: by another error than the reader's own, or with too much memory or time.
    """
    size, before, began = path.stat().st_size, peak(), time.perf_counter()
    faulthandler.dump_traceback_later(3 * SECONDS, exit=True)
    try:
        format_.read(path)
        found = "taken"
    except format_.own:
        found = "refused"
    except Exception as error:
        raise Failed(f"{type(error).__name__}: {error}\n{traceback.format_exc()}") from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    if peak() - before > format_.allowed + 4 * size:
        raise Failed(f"{(peak() - before) >> 20} MiB for a file of {size} bytes")
    if time.perf_counter() - began > SECONDS:
        raise Failed(f"{time.perf_counter() - began:.1f} s")
    return found


def peak():
    """The most bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def fuzz(name, mutations, seconds, seed, found=FOUND):
    """Damage and read files of one format; how many were taken and refused, and what failed."""
    format_, random_ = FORMATS[name](), random.Random(f"{name} {seed}")
    counts, failures = collections.Counter(), {}
    ends = time.perf_counter() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{format_.ending}"
        format_.make(path)
        valid = path.read_bytes()
        if attempt(format_, path) != "taken":
            raise Failed(f"{name}: the valid file is refused")
        count = 0
        while count < mutations and time.perf_counter() < ends:
            count += 1
            format_.damage(valid, path, random_)
            damaged = path.read_bytes()
            try:
                counts[attempt(format_, path)] += 1
            except Failed as error:
                counts["failed"] += 1
                lines = (
                    str(error).strip().splitlines()
                )  # a single one, or an exception with its trace
                what = "".join(lines[-1:] + lines[-3:-2])
                if what not in failures:
                    failures[what] = str(error)
                    found.mkdir(exist_ok=True)
                    (found / f"{name}-{zlib.crc32(damaged):08x}").write_bytes(damaged)
    return counts, failures


def limit_memory():
    """Have a reader that goes wild fail, rather than the machine."""
    with open("/proc/self/statm") as numbers:
        now = int(numbers.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (4 << 30), now + (4 << 30)))


def main(arguments=None):
    """Run from the command line; the exit status is the number of formats that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=1 << 62, help="of each format")
    parser.add_argument("--seconds", type=float, default=1e9, help="for each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=[*FORMATS])
    given = parser.parse_args(arguments)
    if given.mutations == 1 << 62 and given.seconds == 1e9:
        given.seconds = 30.0
    warnings.simplefilter("ignore")
    faulthandler.enable()
    if given.format is not None:
        return attack(given.format, given)
    forks = multiprocessing.get_context("fork")  # what is imported once serves all of them
    failed = 0
    for name in FORMATS:
        process = forks.Process(target=lambda name: sys.exit(attack(name, given)), args=(name,))
        process.start()
        process.join()
        failed += process.exitcode != 0
    return failed


def attack(name, given):
    """Damage and read files of one format in this process; the exit status is 1 if one failed."""
    limit_memory()
    began = time.perf_counter()
    counts, failures = fuzz(name, given.mutations, given.seconds, given.seed)
    for text in failures.values():
        print(text, file=sys.stderr)
    seconds = time.perf_counter() - began
    print(f"{name}, seed {given.seed}: {dict(counts)} in {seconds:.0f} s", flush=True)
    return int(bool(failures))


if __name__ == "__main__":
    os.environ.setdefault("TRAINKIT_JIT", "0")
    sys.exit(main())
