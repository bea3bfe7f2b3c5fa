"""How long a sum over processes takes, and what that says of a step on many machines.

    python benchmarks/collectives.py measure            sums of 1, 2, 4 and 8 processes here
    python benchmarks/collectives.py predict            tables for up to 1,000 machines

`measure` starts `mpiexec` by itself, fits latency and bandwidth to half of the sizes and prints the
model's times beside those of all sizes. The formulas are in docs/distributed.md.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

import numpy as np

from trainkit.core.cpu.cpu_count import usable_cores

MPIEXEC = pathlib.Path(sys.executable).parent / "mpiexec"
COUNTS = (1, 2, 4, 8)
SIZES = tuple(4**k for k in range(2, 12))
"""Numbers of float32 in a sum: 16 to 4 million."""


def tree_seconds(processes, count, latency, per_byte, itemsize=4):
    """Reduce-scatter and all-gather by halves: 2 log2 p messages, 2 (p - 1) / p of the bytes.

    Args:
        processes: p.
        count: how many numbers are summed.
        latency: seconds of a message without content.
        per_byte: seconds of a byte.
        itemsize: bytes of a number.
    """
    if processes == 1:
        return 0.0
    share = (processes - 1) / processes
    return 2 * math.ceil(math.log2(processes)) * latency + 2 * share * count * itemsize * per_byte


def ring_seconds(processes, count, latency, per_byte, itemsize=4):
    """The same around a ring: 2 (p - 1) messages, as many bytes.

    Args:
        processes: p.
        count: how many numbers are summed.
        latency: seconds of a message without content.
        per_byte: seconds of a byte.
        itemsize: bytes of a number.
    """
    if processes == 1:
        return 0.0
    share = (processes - 1) / processes
    return 2 * (processes - 1) * latency + 2 * share * count * itemsize * per_byte


def step_seconds(processes, weights, forward_backward, network, overlap=0.0, itemsize=4):
    """A step: computing, then what of the sum of gradients is not hidden behind it.

    Args:
        processes: how many machines, each with a replica.
        weights: how many numbers the gradients have.
        forward_backward: seconds that a replica computes for its rows.
        network: (latency, seconds per byte).
        overlap: which part of the computing the sum may run beside: the backward pass takes two
            thirds.
        itemsize: bytes of a number of the gradients.
    """
    summing = min(
        tree_seconds(processes, weights, *network, itemsize),
        ring_seconds(processes, weights, *network, itemsize),
    )
    return forward_backward + max(0.0, summing - overlap * forward_backward)


NETWORKS = {
    "10 Gbit/s Ethernet": (30e-6, 1 / 1.1e9),
    "100 Gbit/s Ethernet": (10e-6, 1 / 11e9),
    "400 Gbit/s InfiniBand": (2e-6, 1 / 45e9),
}
MODELS = {
    "MLP, 0.1 M weights, 1 ms": (0.1e6, 1e-3),
    "ResNet-50, 25.6 M weights, 60 ms": (25.6e6, 60e-3),
    "transformer, 340 M weights, 400 ms": (340e6, 400e-3),
}


def predict():
    """Print how well machines are used, by network, model and number of machines."""
    counts = (2, 8, 64, 256, 1000)
    for network, costs in NETWORKS.items():
        print(f"\n{network}\n")
        print("| a replica's step | gradients |", " | ".join(f"{n:,}" for n in counts), "|")
        print("| --- | --- |", " | ".join("---:" for _ in counts), "|")
        for model, (weights, seconds) in MODELS.items():
            for kind, itemsize in (("float32", 4), ("float16", 2)):
                used = [
                    seconds / step_seconds(n, weights, seconds, costs, 2 / 3, itemsize)
                    for n in counts
                ]
                cells = " | ".join(f"{100 * part:.0f} %" for part in used)
                print(f"| {model} | {kind} | {cells} |")


def sums(repeats):
    """In a process of the job: print the seconds of a sum, by size, from rank 0."""
    import trainkit as tk

    strategy = tk.distribute.MultiWorkerMirroredStrategy()
    group = strategy._group
    found = {}
    for size in SIZES:
        array = np.zeros(size, np.float32)
        samples = []
        for _ in range(max(5, min(repeats, 40_000_000 // size))):
            group.barrier()
            start = time.perf_counter()
            group.all_reduce(array)
            samples.append(time.perf_counter() - start)
        found[size] = float(np.median(samples))
    if strategy.rank == 0:
        print(json.dumps(found))


def measure(repeats):
    """Measure, fit and compare; the rows as a table."""
    times = {}
    for count in COUNTS[1:]:
        done = subprocess.run(
            [str(MPIEXEC), "-n", str(count), sys.executable, __file__, "sums", str(repeats)],
            capture_output=True,
            text=True,
            check=True,
        )
        times[count] = {int(k): v for k, v in json.loads(done.stdout.splitlines()[-1]).items()}
    latency, per_byte, turn = fit(times)
    print(
        f"fitted: {1e6 * latency:.1f} us a message, {1e-9 / per_byte:.2f} GB/s a process, "
        f"{1e6 * turn:.0f} us a turn on a core that processes share\n"
    )
    print("| numbers |", " | ".join(f"{n} processes, us | model" for n in times), "|")
    print("| ---: |", " | ".join("---: | ---:" for _ in times), "|")
    for size in SIZES:
        cells = [
            f"{1e6 * times[n][size]:.0f} | "
            f"{1e6 * (tree_seconds(n, size, latency, per_byte) + turns(n) * turn):.0f}"
            for n in times
        ]
        print(f"| {size:,} |", " | ".join(cells), "|")


def turns(processes):
    """How often a process waits, in one sum, for its turn on a core that it shares with others."""
    rounds = 2 * math.ceil(math.log2(processes))
    return rounds * max(0.0, processes / usable_cores() - 1)


def fit(times):
    """Seconds of a message, of a byte and of a turn, from every second size.

    Least squares of relative errors; what would be negative is left out.
    """
    rows = []
    for count, of_size in times.items():
        for size in SIZES[::2]:
            terms = (
                tree_seconds(count, size, 1.0, 0.0),
                tree_seconds(count, size, 0.0, 1.0),
                turns(count),
            )
            rows.append([term / of_size[size] for term in terms])
    matrix = np.array(rows)
    used = [k for k in range(3) if matrix[:, k].any()]
    while True:
        found = np.linalg.lstsq(matrix[:, used], np.ones(len(rows)), rcond=None)[0]
        if (found > 0).all():
            break
        used = [k for k, value in zip(used, found, strict=True) if value > 0]
    result = [0.0, 0.0, 0.0]
    for k, value in zip(used, found, strict=True):
        result[k] = float(value)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["measure", "predict", "sums"])
    parser.add_argument("repeats", nargs="?", type=int, default=200)
    given = parser.parse_args()
    if given.what == "predict":
        predict()
    elif given.what == "sums":
        sums(given.repeats)
    else:
        measure(given.repeats)
