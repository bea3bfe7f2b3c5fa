"""The step of a network by several processes, beside PyTorch's DistributedDataParallel (gloo).

    python benchmarks/distributed.py                        1, 2 and 4 processes, three networks
    python benchmarks/distributed.py mlp --processes 2      one of them

Each process has the same number of rows, so one that computes and one that also joins gradients can
be compared. trainkit runs under the `mpiexec` beside this Python, its step as a `tk.function`;
PyTorch runs as `torch.multiprocessing.spawn` makes it, in the Python that
`TRAINKIT_BENCH_PYTHONS=torch=PATH` names. The two take turns, `--rounds` times; printed are the
medians of all steps of rank 0, and the bytes of gradients that a step joins.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

import numpy as np

MPIEXEC = pathlib.Path(sys.executable).parent / "mpiexec"
ROWS = 64
"""Rows of a process."""

NETWORKS = ("mlp", "cnn", "lstm")


def batch(network, rank):
    """Inputs and labels of a process."""
    random = np.random.default_rng(rank)
    shape = {"mlp": (ROWS, 784), "cnn": (ROWS, 28, 28, 1), "lstm": (ROWS, 32, 64)}[network]
    return random.normal(size=shape).astype("float32"), random.integers(0, 10, ROWS)


# ------------------------------------------------------------------ trainkit


def trainkit_network(network):
    """A model of `trainkit`."""
    import trainkit as tk

    layers = tk.keras.layers
    parts = {
        "mlp": [tk.keras.Input((784,)), *(layers.Dense(1024, "relu") for _ in range(3))],
        "cnn": [
            tk.keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(128, "relu"),
        ],
        "lstm": [
            tk.keras.Input((32, 64)),
            layers.LSTM(256, return_sequences=True),
            layers.LSTM(256),
        ],
    }[network]
    return tk.keras.Sequential([*parts, layers.Dense(10)])


def trainkit_steps(network, steps):
    """Seconds of each step, in a process that `mpiexec` started or alone."""
    import trainkit as tk
    from trainkit.collectives.replica import GlobalRows

    strategy = tk.distribute.MultiWorkerMirroredStrategy()
    rank, size = strategy.rank, strategy.num_replicas_in_sync
    tk.random.set_seed(1)
    with strategy.scope():
        model = trainkit_network(network)
        optimizer = tk.keras.optimizers.SGD(0.01, momentum=0.9)
        loss_of = tk.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tk.function
    def step(x, y):
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(grads, model.trainable_variables)
        return loss

    x, y = (tk.constant(part) for part in batch(network, rank))
    with strategy.replica(GlobalRows(rank * ROWS, ROWS, size * ROWS), averages=True):
        seconds = timed(lambda: float(step(x, y)), steps)
    count = sum(int(np.prod(w.shape)) for w in model.trainable_variables)
    return rank, seconds, 4 * count


# ------------------------------------------------------------------ PyTorch


def torch_network(network):
    """The same model of PyTorch."""
    from torch import nn

    if network == "mlp":
        hidden = [nn.Linear(784, 1024), nn.ReLU()]
        for _ in range(2):
            hidden += [nn.Linear(1024, 1024), nn.ReLU()]
        return nn.Sequential(*hidden, nn.Linear(1024, 10))
    if network == "cnn":
        return nn.Sequential(
            *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU()),
            *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 12 * 12, 128), nn.ReLU()),
            nn.Linear(128, 10),
        )

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(64, 256, num_layers=2, batch_first=True)
            self.head = nn.Linear(256, 10)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    return Recurrent()


def torch_worker(rank, size, network, steps, port, path):
    """One of PyTorch's processes; rank 0 writes what it measured."""
    import torch
    from torch import nn

    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // size))
    torch.manual_seed(1)
    model = torch_network(network)
    if size > 1:
        torch.distributed.init_process_group(
            "gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=size
        )
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    x, y = batch(network, rank)
    x = x.transpose(0, 3, 1, 2) if network == "cnn" else x
    x, y = torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(y)

    def step():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return float(loss)

    seconds = timed(step, steps)
    if rank == 0:
        count = sum(p.numel() for p in model.parameters())
        pathlib.Path(path).write_text(json.dumps([seconds, 4 * count]))
    if size > 1:
        torch.distributed.destroy_process_group()


# ------------------------------------------------------------------ both


def timed(step, steps):
    """Seconds of each of `steps` steps, after some that don't count."""
    for _ in range(max(3, steps // 4)):
        step()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def free_port():
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(framework, network, size, steps):
    """Seconds of the steps of rank 0 of a job, and the bytes of its gradients."""
    found = dict(
        pair.split("=", 1)
        for pair in os.environ.get("TRAINKIT_BENCH_PYTHONS", "").split(",")
        if pair
    )
    command = [found.get(framework, sys.executable), __file__, network, "--steps", str(steps)]
    command += ["--worker", framework, "--processes", str(size)]
    if framework == "trainkit" and size > 1:
        command = [str(MPIEXEC), "-n", str(size), *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"{framework}, {network}, {size} processes:\n{done.stderr[-2000:]}")
    seconds, count = json.loads(done.stdout.splitlines()[-1])
    return seconds, count


def work(given):
    """What a started process does: measure, and print what rank 0 found."""
    (network,), (size,) = given.networks, given.processes
    if given.worker == "trainkit":
        rank, *found = trainkit_steps(network, given.steps)
        if rank == 0:
            print(json.dumps(found))
        return
    import tempfile

    from torch import multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/found.json"
        args = (size, network, given.steps, free_port(), path)
        if size == 1:
            torch_worker(0, *args)
        else:
            multiprocessing.spawn(torch_worker, args, size)
        print(pathlib.Path(path).read_text())


def main(arguments=None):
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="network", help=", ".join(NETWORKS))
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--worker", choices=["trainkit", "torch"])
    given = parser.parse_args(arguments)
    given.networks = given.networks or list(NETWORKS)
    if set(given.networks) - set(NETWORKS):
        parser.error(f"networks are {', '.join(NETWORKS)}, got {' '.join(given.networks)}")
    if given.worker:
        work(given)
        return
    print("| network | gradients | processes | trainkit, ms | torch DDP, ms | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for network in given.networks:
        for size in given.processes:
            seconds = {"trainkit": [], "torch": []}
            for _ in range(given.rounds):
                for framework, samples in seconds.items():
                    found, count = run(framework, network, size, given.steps)
                    samples += found
            mine, theirs = (1e3 * statistics.median(part) for part in seconds.values())
            print(
                f"| {network} | {count / 1e6:.1f} MB | {size} | {mine:.2f} | {theirs:.2f} | "
                f"{mine / theirs:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
