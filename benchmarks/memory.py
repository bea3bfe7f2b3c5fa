"""Peak memory of training steps, by batch and by depth, beside PyTorch and Keras on TensorFlow.

python benchmarks/memory.py [--torch PYTHON] [--tensorflow PYTHON] [--steps 8] [NETWORK ...]

`PYTHON` is an interpreter that has the framework. Each cell is a process of its own: it imports the
framework, builds the network, does steps with Adam on one batch, and prints by how much its peak of
resident memory exceeds what it held after the import. Peaks do not depend on what else the machine
does; threads are two, whose scratch counts.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

NETWORKS = {
    # name: (layers and units in words, [(depth, batch)])
    "conv": ("Conv2D 3 x 3 of 32 filters, BatchNormalization, ReLU on (32, 32, 32), a shortcut "
             "around each two", [(10, 8), (10, 32), (10, 128), (10, 256), (30, 8), (100, 8),
                                 (300, 8), (30, 64), (100, 32)]),
    "dense": ("Dense of 512 units and ReLU", [(10, 8), (10, 256), (30, 64), (100, 64), (300, 8),
                                             (300, 256)]),
    "embedding": ("Embedding of 2,000,000 x 16 and two Dense", [(3, 8), (3, 256)]),
}  # fmt: skip
FRAMEWORKS = ("trainkit", "torch", "tensorflow")
LEAST_SECONDS = 6.0  # of steps, within which graphs are compiled in the background


def _batch(network, batch):
    import numpy as np

    generator = np.random.default_rng(0)
    shape = {"conv": (batch, 32, 32, 32), "dense": (batch, 512)}.get(network)
    if shape is None:
        x = generator.integers(0, 2_000_000, (batch, 4)).astype("int32")
    else:
        x = generator.normal(size=shape).astype("float32")
    return x, generator.integers(0, 10, batch).astype("int32")


def _keras_step(keras, network, depth, batch):
    layers = keras.layers
    if network == "conv":
        inputs = x = keras.Input((32, 32, 32))
        for i in range(depth):
            if i % 2 == 0:
                shortcut = x
            x = layers.Conv2D(32, 3, padding="same", use_bias=False)(x)
            x = layers.BatchNormalization()(x)
            if i % 2:
                x = layers.Add()([x, shortcut])
            x = layers.ReLU()(x)
        x = layers.GlobalAveragePooling2D()(x)
    elif network == "dense":
        inputs = x = keras.Input((512,))
        for _ in range(depth):
            x = layers.Dense(512, activation="relu")(x)
    else:
        inputs = keras.Input((4,), dtype="int32")
        x = layers.Flatten()(layers.Embedding(2_000_000, 16)(inputs))
        x = layers.Dense(64, activation="relu")(x)
    model = keras.Model(inputs, layers.Dense(10)(x))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = _batch(network, batch)
    return lambda: model.train_on_batch(x, y)


def _torch_step(torch, network, depth, batch):
    from torch import nn

    torch.set_num_threads(2)

    class Block(nn.Module):
        def __init__(self, count):
            super().__init__()
            self.convs = nn.ModuleList(
                nn.Conv2d(32, 32, 3, padding=1, bias=False) for _ in range(count)
            )
            self.norms = nn.ModuleList(nn.BatchNorm2d(32) for _ in range(count))

        def forward(self, x):
            y = x
            for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
                y = norm(conv(y))
                y = nn.functional.relu(y + x if i else y)
            return y

    x, y = map(torch.from_numpy, _batch(network, batch))
    if network == "conv":
        parts = [*(Block(2) for _ in range(depth // 2)), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        model = nn.Sequential(*parts, nn.Linear(32, 10)).to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    elif network == "dense":
        hidden = [part for _ in range(depth) for part in (nn.Linear(512, 512), nn.ReLU())]
        model = nn.Sequential(*hidden, nn.Linear(512, 10))
    else:
        table = nn.Embedding(2_000_000, 16)
        model = nn.Sequential(table, nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y.long()).backward()
        optimizer.step()

    return step


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(framework, network, depth, batch, steps):
    """Megabytes of the peak of this process above what the import left."""
    if framework == "torch":
        import torch

        before = _resident()
        step = _torch_step(torch, network, depth, batch)
    else:
        if framework == "trainkit":
            from trainkit import keras
        else:
            import keras
        before = _resident()
        step = _keras_step(keras, network, depth, batch)
    end, count = time.perf_counter() + LEAST_SECONDS, 0
    while count < steps or time.perf_counter() < end:
        step()
        count += 1
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 1e6


def _in_a_process(python, *cell):
    threads = {"OMP_NUM_THREADS": "2", "TF_NUM_INTRAOP_THREADS": "2", "KERAS_BACKEND": "tensorflow"}
    run = subprocess.run(
        [python, __file__, "--cell", *map(str, cell)],
        capture_output=True, text=True, env={**os.environ, **threads},
    )  # fmt: skip
    if run.returncode:
        raise SystemExit(f"{' '.join(map(str, cell))} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def main(arguments=None):
    """Print one table for each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter with PyTorch")
    parser.add_argument("--tensorflow", metavar="PYTHON", help="one with Keras and TensorFlow")
    parser.add_argument("--steps", type=int, default=8, help="at least so many (default: 8)")
    parser.add_argument("--cell", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.cell:
        framework, network, *numbers = options.cell
        print(json.dumps(measure(framework, network, *map(int, numbers))))
        return
    unknown = set(options.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"no network {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    pythons = {"trainkit": sys.executable, "torch": options.torch, "tensorflow": options.tensorflow}
    there = [name for name in FRAMEWORKS if pythons[name]]
    for network in options.networks or NETWORKS:
        words, cells = NETWORKS[network]
        print(f"\n{network}: {words}; MB above the import\n")
        print(f"| depth | batch | {' | '.join(there)} | share of the best peer |")
        print(f"| ---: | ---: | {'---: | ' * len(there)}---: |")
        for depth, batch in cells:
            mb = [_in_a_process(pythons[f], f, network, depth, batch, options.steps) for f in there]
            share = f"{mb[0] / min(mb[1:]):.2f}" if len(mb) > 1 else ""
            numbers = " | ".join(f"{x:,.0f}" for x in mb)
            print(f"| {depth} | {batch} | {numbers} | {share} |", flush=True)


if __name__ == "__main__":
    main()
