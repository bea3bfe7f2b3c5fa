"""Pairs of runs with one planted difference each: whether `tk.runs.diff` names it, and how fast.

    python -m tests.attacks.planted_differences --pairs 200 --seed 1

Each kind is planted equally often, with other models, places and steps; the runs of another BLAS
kernel or number of threads are made by processes of their own.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

import trainkit as tk

ROWS, BATCH, EPOCHS = 60, 16, 2
ROOT = pathlib.Path(__file__).resolve().parents[2]


def data(number):
    rng = np.random.default_rng(number)
    return rng.normal(size=(ROWS, 4)).astype("f"), rng.integers(0, 3, ROWS)


def layers(number, **edits):
    """The layers of a small model, which differ by its number."""
    hidden = edits.get("activation", ("relu", "tanh", "gelu")[number % 3])
    listed = [
        tk.layers.Dense(6 + number % 3, activation=hidden, dtype=edits.get("dtype")),
        tk.layers.Dropout(edits.get("dropout", 0.3)),
        tk.layers.BatchNormalization(epsilon=edits.get("epsilon", 1e-3)),
        tk.layers.Dense(3),
    ]
    if "moved" in edits:
        listed.insert(edits["moved"], listed.pop(1))
    return listed


def new_model(number, seed=None, **edits):
    tk.keras.utils.set_random_seed(number if seed is None else seed)
    model = tk.Sequential([tk.Input((4,)), *layers(number, **edits)])
    rate, beta = edits.get("rate", 0.01), edits.get("beta", 0.9)
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.optimizers.Adam(rate, beta_1=beta), loss)
    return model


def train(folder, number, model=None, x=None, y=None, callbacks=None, shuffle=True):
    own_x, own_y = data(number)
    journal = tk.callbacks.RunJournal(folder, save_every=3, digest_every=1 + number % 2)
    model = new_model(number) if model is None else model
    x, y = own_x if x is None else x, own_y if y is None else y
    more = {"batch_size": BATCH, "epochs": EPOCHS, "shuffle": shuffle, "verbose": 0}
    model.fit(x, y, callbacks=callbacks, run=journal, **more)


class ChangeRate(tk.callbacks.Callback):
    """Sets the learning rate before a step."""

    def __init__(self, step, rate):
        super().__init__()
        self.step, self.rate = step, rate

    def on_train_batch_begin(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == self.step - 1:
            self.model.optimizer.learning_rate = self.rate


# ------------------------------------------------------------------ what is planted


def seed(folder, number, rng):
    train(folder, number, model=new_model(number, seed=number + 500))
    return rf"step 1: another seed: {number} in the first run, {number + 500} in the other"


def one_pixel(folder, number, rng):
    x, _ = data(number)
    row, column = int(rng.integers(ROWS)), int(rng.integers(4))
    old = x[row, column]
    x[row, column] += 1e-3
    train(folder, number, x=x)
    numbers = re.escape(f"{old} in the first run, {x[row, column]} in the other")
    return rf"another batch: inputs of row \d+ differ at \[{column}\]: {numbers}"


def one_label(folder, number, rng):
    _, y = data(number)
    row = int(rng.integers(ROWS))
    old, y[row] = y[row], (y[row] + 1) % 3
    train(folder, number, y=y)
    return rf"another batch: labels of row \d+ differ: {old} in the first run, {y[row]} in"


def learning_rate(folder, number, rng):
    step = int(rng.integers(1, 9))
    train(folder, number, callbacks=[ChangeRate(step, 0.5)])
    return rf"step {step}: the learning rate is 0.0\d+ in the first run, 0.5 in the other"


def swapped_batches(folder, number, rng):
    one, other = sorted(int(i) for i in rng.choice(3, 2, replace=False))
    order = list(range(ROWS))
    a, b = slice(one * BATCH, (one + 1) * BATCH), slice(other * BATCH, (other + 1) * BATCH)
    order[a], order[b] = order[b], order[a]
    x, y = data(number)
    train(folder, number, x=x[order], y=y[order], shuffle=False)
    return rf"step {one + 1}: another batch: .*the batch of step {other + 1}"


def edited_layer(folder, number, rng):
    edits = {
        "activation": ("sigmoid", r"activation of 'dense' is '\w+' in the first run, 'sigmoid' in"),
        "dropout": (0.5, r"rate of 'dropout' is 0.3 in the first run, 0.5 in the other"),
        "epsilon": (0.1, r"epsilon of 'batch_normalization' is 0.001 in the first run, 0.1"),
        "beta": (0.7, r"beta_1 of 'adam' is 0.9 in the first run, 0.7"),
    }
    name = list(edits)[int(rng.integers(len(edits)))]
    value, text = edits[name]
    train(folder, number, model=new_model(number, **{name: value}))
    return f"step 1: .*{text}"


def dropout_elsewhere(folder, number, rng):
    train(folder, number, model=new_model(number, moved=int(rng.integers(2, 4))))
    return "step 1: .*Dropout"


def other_dtype(folder, number, rng):
    name = ("float64", "mixed_bfloat16", "float16")[int(rng.integers(3))]
    train(folder, number, model=new_model(number, dtype=name))
    return f"step 1: .*(dtype.*{name}|float32.*{name}|{name})"


KINDS = (
    seed, one_pixel, one_label, learning_rate, swapped_batches, edited_layer, dropout_elsewhere,
    other_dtype,
)  # fmt: skip


# ------------------------------------------------------------------ other installations


def wide(folder, number):
    """A run whose products are cut by the number of threads, and made by the kernels of BLAS."""
    tk.keras.utils.set_random_seed(number)
    x = np.random.default_rng(number).normal(size=(256, 300)).astype("f")
    model = tk.Sequential([tk.Input((300,)), tk.layers.Dense(320), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    journal = tk.callbacks.RunJournal(folder, save_every=2, digest_every=1)
    model.fit(x, x[:, :1], batch_size=128, epochs=1, verbose=0, run=journal)


_CODE = """
from tests.attacks.planted_differences import wide
for number in {numbers!r}:
    wide(f"{folder}/{{number}}-{name}", number)
"""

INSTALLATIONS = {
    "blas_kernel": (
        {"OPENBLAS_CORETYPE": "Haswell"},
        {"OPENBLAS_CORETYPE": "Nehalem"},
        "another machine or installation: .*(blas|OPENBLAS_CORETYPE)",
    ),
    "threads": (
        {"TRAINKIT_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        {"TRAINKIT_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        "another machine or installation: .*(threads|THREADS)",
    ),
}


def installations(folder, kind, numbers):
    for name, variables in zip("ab", INSTALLATIONS[kind], strict=False):
        code = _CODE.format(numbers=list(numbers), folder=folder, name=name)
        environment = os.environ | {"PYTHONPATH": str(ROOT), **variables}
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True)


# ------------------------------------------------------------------ the attack


def judged(one, other, text):
    """Whether a difference is named as `text` says, the answer, and the seconds it took."""
    began = time.perf_counter()
    found = tk.runs.diff(tk.runs.open(one), tk.runs.open(other))
    seconds = time.perf_counter() - began
    return re.search(text, " ".join(str(found).split())) is not None, str(found), seconds


def planted(kind, number, folder):
    """Two runs with a planted difference, and what `diff` says."""
    rng = np.random.default_rng(number)
    train(f"{folder}/a", number, shuffle=kind is not swapped_batches)
    text = kind(f"{folder}/b", number, rng)
    return judged(f"{folder}/a", f"{folder}/b", text)


def attack(pairs, first, say=print):
    """So many pairs; by kind how many were named right, and all times."""
    kinds = len(KINDS) + len(INSTALLATIONS)
    results, times = {}, []
    for kind in KINDS:
        named = []
        for number in range(first, first + -(-pairs // kinds)):
            with tempfile.TemporaryDirectory() as folder:
                right, answer, seconds = planted(kind, number, folder)
            named.append(right)
            times.append(seconds)
            if not right:
                say(f"{kind.__name__} {number}: {answer}")
        results[kind.__name__] = named
        say(f"{kind.__name__:<18} {sum(named)} of {len(named)} named")
    for kind, (_, _, text) in INSTALLATIONS.items():
        numbers = range(first, first + -(-pairs // kinds))
        named, same = [], 0
        with tempfile.TemporaryDirectory() as folder:
            installations(folder, kind, numbers)
            for number in numbers:
                right, answer, seconds = judged(
                    f"{folder}/{number}-a", f"{folder}/{number}-b", text
                )
                alike = answer.startswith("the runs are the same")
                named.append(right or alike)
                same += alike
                times.append(seconds)
                if not right and not alike:
                    say(f"{kind} {number}: {answer}")
        results[kind] = named
        say(f"{kind:<18} {sum(named)} of {len(named)} named, {same} of them have equal bits")
    total = sum(map(sum, results.values()))
    count = sum(map(len, results.values()))
    median, longest = np.median(times), max(times)
    say(f"{total} of {count} named; {median:.2f} s at the median, {longest:.2f} at most")
    return total, count, float(median)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    total, count, median = attack(args.pairs, args.seed)
    return 0 if total == count and median <= 10 else 1


if __name__ == "__main__":
    raise SystemExit(main())
