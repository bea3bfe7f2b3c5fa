"""Checkpoints: 600 MB of weights and Adam's moments to the disk and back, and a small state.

Every contestant overwrites its file, and waits for the disk where the name says `fsync`; trainkit
always does. Loading reads into arrays that are there, from the page cache. trainkit computes and
compares checksums, the others do not.
"""

import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from timing import Benchmark, Step

SIZE, LAYERS = 2041, 12
MEGABYTES = 3 * LAYERS * (SIZE * SIZE + SIZE) * 4 / 1e6
SMALL_SIZE, SMALL_LAYERS = 64, 4


def arrays(size: int, layers: int) -> list[Any]:
    """Kernel and bias of each layer, three times: weights and two moments."""
    shapes = [(size, size), (size,)] * (3 * layers)
    return [np.full(shape, 0.5, np.float32) for shape in shapes]


class Disk:
    """Whether a save waits for the disk; trainkit's always does."""

    waits = True


def synced(path: str) -> None:
    """Wait until the disk has the file, where that is asked for."""
    if not Disk.waits:
        return
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def steps(save: Callable[[str], Any], load: Callable[[str], Any], loads: bool) -> Iterator[Step]:
    """The step that saves or loads a file in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state")
        save(path)
        yield lambda: (load if loads else save)(path)


def trainkit(size: int, layers: int, loads: bool) -> Iterator[Step]:
    """`Checkpoint.write` and `read`."""
    from trainkit import Variable
    from trainkit.checkpoints import Checkpoint

    checkpoint = Checkpoint(values=[Variable(array) for array in arrays(size, layers)])

    def load(path: str) -> None:
        checkpoint.read(path).assert_consumed()

    yield from steps(checkpoint.write, load, loads)


def h5py(size: int, layers: int, loads: bool) -> Iterator[Step]:
    """One dataset per array."""
    import h5py

    state = arrays(size, layers)

    def save(path: str) -> None:
        with h5py.File(path, "w") as file:
            for number, array in enumerate(state):
                file.create_dataset(str(number), data=array)
        synced(path)

    def load(path: str) -> None:
        with h5py.File(path) as file:
            for number, array in enumerate(state):
                file[str(number)].read_direct(array)

    yield from steps(save, load, loads)


def numpy_save(size: int, layers: int, loads: bool) -> Iterator[Step]:
    """`np.save`, all arrays in one file."""
    state = arrays(size, layers)

    def save(path: str) -> None:
        with open(path, "wb") as file:
            for array in state:
                np.save(file, array)
        synced(path)

    def load(path: str) -> None:
        with open(path, "rb") as file:
            for array in state:
                array[...] = np.load(file)

    yield from steps(save, load, loads)


def safetensors(size: int, layers: int, loads: bool) -> Iterator[Step]:
    """PyTorch's tensors by safetensors."""
    import torch
    from safetensors.torch import load_file, save_file

    state = {str(n): torch.from_numpy(array) for n, array in enumerate(arrays(size, layers))}

    def save(path: str) -> None:
        save_file(state, path)
        synced(path)

    def load(path: str) -> None:
        for name, tensor in load_file(path).items():
            state[name].copy_(tensor)

    yield from steps(save, load, loads)


def torch(size: int, layers: int, loads: bool) -> Iterator[Step]:
    """`torch.save`, and `torch.load` with a memory map."""
    import torch

    state = {str(n): torch.from_numpy(array) for n, array in enumerate(arrays(size, layers))}

    def save(path: str) -> None:
        torch.save(state, path)
        synced(path)

    def load(path: str) -> None:
        for name, tensor in torch.load(path, mmap=True).items():
            state[name].copy_(tensor)

    yield from steps(save, load, loads)


def keras(size: int, layers: int, loads: bool) -> Iterator[Step]:
    """`save_weights` of a compiled Keras model."""
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    dense = [keras.layers.Dense(size) for _ in range(layers)]
    model = keras.Sequential([keras.Input((size,)), *dense])
    model.compile(optimizer="adam", loss="mse")
    model.optimizer.build(model.trainable_variables)

    def save(path: str) -> None:
        model.save_weights(f"{path}.weights.h5")
        synced(f"{path}.weights.h5")

    def load(path: str) -> None:
        model.load_weights(f"{path}.weights.h5")

    yield from steps(save, load, loads)


def tensorflow(size: int, layers: int, loads: bool) -> Iterator[Step]:
    """`tf.train.Checkpoint`."""
    import tensorflow as tf

    values = [tf.Variable(array) for array in arrays(size, layers)]
    checkpoint = tf.train.Checkpoint(values=values)

    def save(path: str) -> None:
        checkpoint.write(path)
        for part in pathlib.Path(path).parent.iterdir():
            synced(str(part))

    yield from steps(save, checkpoint.read, loads)


MAKERS = {
    "trainkit": trainkit,
    "tensorflow": tensorflow,
    "keras-jax save_weights": keras,
    "torch save": torch,
    "torch safetensors": safetensors,
    "numpy": numpy_save,
    "h5py": h5py,
}


def contestants(size: int, layers: int, loads: bool, waits: bool = True) -> dict[str, Any]:
    """All of them."""

    def prepared(start: Any) -> Any:
        def contestant() -> Iterator[Step]:
            Disk.waits = waits
            yield from start(size, layers, loads)

        return contestant

    return {name: prepared(start) for name, start in MAKERS.items()}


def _large(name: str, loads: bool, waits: bool = True) -> Benchmark:
    makers = contestants(SIZE, LAYERS, loads, waits)
    return Benchmark(name, "MB/s", MEGABYTES, makers, rate=True, alone=True)


BENCHMARKS = [
    _large("checkpoint_save", False, waits=False),
    _large("checkpoint_save_fsync", False),
    _large("checkpoint_load", True),
    Benchmark("checkpoint_small_save", "ms", 1e3, contestants(SMALL_SIZE, SMALL_LAYERS, False)),
    Benchmark("checkpoint_small_load", "ms", 1e3, contestants(SMALL_SIZE, SMALL_LAYERS, True)),
]
