"""Flips, cuts and extends the bytes of valid files: a load gives the right values or raises.

A quarter of the files is sealed again, as an attacker would do it, so that HDF5 itself meets the
damage; these may give whatever the file says, or raise. Run as `python fuzzing.py MUTATIONS SEED`.
Memory is limited to 64 MiB beyond what the process has before, time to 10 s a load.
"""

import collections
import faulthandler
import os
import pathlib
import random
import re
import resource
import sys
import tempfile
import warnings

import h5py
import numpy as np

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format.checksum import SMALL
from trainkit.checkpoints.format.header import BLOCK, verify_header, write_header
from trainkit.checkpoints.format.writer import CheckpointOptions
from trainkit.checkpoints.weights import load_weights, save_weights
from trainkit.core.errors import CheckpointError
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable

ALLOWED = 64 << 20
SECONDS = 10


class Model(Trackable):
    def __init__(self, filled):
        rng = np.random.default_rng(0)

        def value(shape):
            return (rng.standard_normal(shape) * filled).astype(np.float32)

        self.small = Variable(value((3, 2)))
        self.large = Variable(value((SMALL // 4 + 100,)))
        self.again = self.small
        self.inner = [Variable(value(())), Variable(value((5,)))]
        self.flags = Variable(np.array([True, False, bool(filled)]))

    def all(self):
        return [self.small, self.large, *self.inner, self.flags]


def files(folder):
    """Valid files of each kind: (path, how to load it into a model)."""
    model = Model(1)
    plain = Checkpoint(model).write(folder / "plain")
    packed = Checkpoint(model).write(folder / "packed", CheckpointOptions(compression="gzip"))
    save_weights(model, folder / "m.weights.h5")
    return [
        (plain, lambda fresh, path: Checkpoint(fresh).restore(path).assert_consumed()),
        (packed, lambda fresh, path: Checkpoint(fresh).restore(path).assert_consumed()),
        (str(folder / "m.weights.h5"), load_weights),
    ]


def mutated(data, rng):
    """A copy of `data` with one to three changes, and what they were."""
    data = bytearray(data)
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not data:
            break
        kind = rng.choice(
            ("bit", "bit", "bit", "byte", "zeros", "cut", "extend", "insert", "repeat")
        )
        at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(min(8192, len(data)))
        size = rng.choice((1, 8, 100, 4096))
        if kind == "bit":
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "byte":
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == "zeros":
            data[at : at + size] = bytes(len(data[at : at + size]))
        elif kind == "cut":
            del data[rng.choice((at, max(1, len(data) - size))) :]
        elif kind == "extend":
            data += rng.randbytes(size)
        elif kind == "insert":
            data[at:at] = rng.randbytes(size)
        else:
            to = rng.randrange(len(data))
            data[to : to + size] = data[at : at + size]
        names.append(kind)
    return bytes(data), names


def same(model, other):
    pairs = zip(model.all(), other.all(), strict=True)
    return all(np.array_equal(a.numpy(), b.numpy()) for a, b in pairs)


def reseal(valid, target, rng):
    """Damage the structure of a file and give it a seal that fits."""
    target.write_bytes(valid)
    fd = os.open(target, os.O_RDWR)
    header, extents = verify_header(fd, "")
    end = header.table
    data = bytearray(valid[:end])
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(BLOCK, min(end, 12_000))
        if rng.random() < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        else:
            number = rng.choice((0, 1, 0x7F, 0xFF, 1 << 40, (1 << 64) - 1, rng.randrange(end)))
            size = rng.choice((1, 2, 4, 8))
            data[at : at + size] = (number % (1 << (8 * size))).to_bytes(size, "little")
    table = b""
    if header.contents and rng.random() < 0.5:
        table, data = damaged_table(bytes(data[-header.contents :]), rng), data[: -header.contents]
    os.ftruncate(fd, 0)
    os.pwrite(fd, data, 0)
    write_header(fd, rng.choice(([], extents)), 1, table)
    os.close(fd)


def damaged_table(table, rng):
    """The table of contents with one to three changes: a byte, a number, a piece."""
    table = bytearray(table)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(table))
        if rng.random() < 0.3:
            table[at] = rng.choice(b'0123456789[]{},:"-<>|fiubS ')
        elif rng.random() < 0.5:
            found = list(re.finditer(rb"\d+", table))
            start, end = rng.choice(found).span() if found else (at, at)
            table[start:end] = str(rng.choice((0, 1, 7, 1 << 20, 1 << 62, 1 << 70))).encode()
        else:
            piece = table[at : at + rng.choice((1, 10, 100))]
            to = rng.randrange(len(table))
            table[to : to + rng.choice((0, len(piece)))] = piece
    return bytes(table)


def attempt(load, path, before, want):
    """Load `path` into a fresh model: "taken", "refused", "in part" or "wrong"."""
    fresh = Model(0)
    try:
        load(fresh, str(path))
    except CheckpointError:
        assert same(fresh, before), "changed although refused"
        return "refused"
    except AssertionError:
        return "in part"
    return "taken" if want is None or same(fresh, want) else "wrong"


def limit_memory():
    with open("/proc/self/statm") as numbers:
        now = int(numbers.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ALLOWED, now + ALLOWED))


def main(mutations, seed):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    count = collections.Counter()
    want, before = Model(1), Model(0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        kinds = files(folder)
        contents = [pathlib.Path(path).read_bytes() for path, _ in kinds]
        for path, load in kinds:
            fresh = Model(0)
            load(fresh, path)
            assert same(fresh, want)
        h5py.get_config()
        limit_memory()
        for number in range(mutations):
            path, load = kinds[number % len(kinds)]
            valid = contents[number % len(kinds)]
            target = folder / f"x{os.path.basename(path)}"
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            if number % 4 == 3:
                reseal(valid, target, rng)
                count["sealed again, " + attempt(load, target, before, None)] += 1
            else:
                data, changes = mutated(valid, rng)
                target.write_bytes(data)
                right = "the same file" if data == valid else "right"
                found = attempt(load, target, before, want)
                assert found != "wrong", f"{number}: wrong values ({changes})"
                count[right if found == "taken" else found] += 1
            faulthandler.cancel_dump_traceback_later()
    print(f"{mutations} mutations: {dict(count)}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
