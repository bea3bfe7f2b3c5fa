"""Summaries: scalars and histograms a second, written to an event file."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from timing import Benchmark, Step

SCALARS = 1000
HISTOGRAMS = 20
VALUES = np.random.default_rng(0).standard_normal(10_000).astype("float32")


def trainkit_scalars() -> Iterator[Step]:
    """Scalars by trainkit."""
    yield from _trainkit(lambda summary, step: summary.scalar("loss", 0.5, step=step), SCALARS)


def trainkit_histograms() -> Iterator[Step]:
    """Histograms by trainkit."""
    yield from _trainkit(
        lambda summary, step: summary.histogram("w", VALUES, step=step), HISTOGRAMS
    )


def _trainkit(write: Callable[[Any, int], object], count: int) -> Iterator[Step]:
    from trainkit import summary

    steps = itertools.count()

    def step() -> None:
        with writer.as_default():
            for _ in range(count):
                write(summary, next(steps))

    with tempfile.TemporaryDirectory() as folder:
        writer = summary.create_file_writer(folder)
        yield step
        writer.close()


def _peer(make: Callable[[], Any], write: Callable[[Any, int], object], count: int) -> Any:
    def contestant() -> Iterator[Step]:
        make_writer = make()
        steps = itertools.count()

        def step() -> None:
            for _ in range(count):
                write(writer, next(steps))
            writer.flush()

        with tempfile.TemporaryDirectory() as folder:
            writer = make_writer(folder)
            yield step
            writer.close()

    return contestant


def _torch() -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter


def _tensorboardx() -> Any:
    from tensorboardX import SummaryWriter

    return SummaryWriter


def _peers(write: Callable[[Any, int], object], count: int) -> dict[str, Any]:
    return {
        "torch": _peer(_torch, write, count),
        "tensorboardX": _peer(_tensorboardx, write, count),
    }


BENCHMARKS = [
    Benchmark(
        "scalars",
        "scalars/s",
        SCALARS,
        {
            "trainkit": trainkit_scalars,
            **_peers(lambda writer, step: writer.add_scalar("loss", 0.5, step), SCALARS),
        },
        rate=True,
    ),
    Benchmark(
        "histograms of 10,000 numbers",
        "histograms/s",
        HISTOGRAMS,
        {
            "trainkit": trainkit_histograms,
            **_peers(lambda writer, step: writer.add_histogram("w", VALUES, step), HISTOGRAMS),
        },
        rate=True,
    ),
]
