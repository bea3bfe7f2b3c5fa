"""Steps of five models gone back to: each has the bits that were seen live, and forks end alike.

    python -m tests.attacks.past_steps --steps 50 --seed 1

A callback keeps weights, slots and random state as each step found them, and `run.at(step)` is
compared with them by all bytes. A fork with nothing changed has to end in the
state in which the run has ended.
"""

import argparse
import tempfile

import numpy as np

import trainkit as tk
from trainkit.journal.state_digests import StateDigests, array_of
from trainkit.ops.sampling.generators import global_generator

ROWS, BATCH, EPOCHS = 52, 8, 3


class Live(tk.callbacks.Callback):
    """Keeps the bytes of all variables as each step found them."""

    def __init__(self):
        super().__init__()
        self.__dict__["states"] = []

    def on_train_batch_begin(self, batch, logs=None):
        self.states.append(state_bytes(self.model))

    def on_train_end(self, logs=None):
        self.states.append(state_bytes(self.model))


def state_bytes(model):
    found = StateDigests({"model": model, "random": global_generator()}).variables
    return [array_of(v).tobytes() for part in found.values() for _, v in part]


def image_data(rng):
    return rng.normal(size=(ROWS, 6, 6, 1)).astype("f"), rng.integers(0, 3, ROWS)


def text_data(rng):
    return rng.integers(0, 20, (ROWS, 7)), rng.integers(0, 3, ROWS)


def row_data(rng):
    return rng.normal(size=(ROWS, 4)).astype("f"), rng.integers(0, 3, ROWS)


def compiled(*layers, optimizer="adam", **options):
    model = tk.Sequential([*layers, tk.layers.Dense(3, activation="softmax")])
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"], **options)
    return model


def perceptron():
    return compiled(
        tk.Input((4,)), tk.layers.Dense(8, activation="relu"), tk.layers.Dropout(0.3),
        tk.layers.BatchNormalization(),
    ), row_data  # fmt: skip


def images():
    return compiled(
        tk.Input((6, 6, 1)), tk.layers.RandomFlip(), tk.layers.Conv2D(4, 3, activation="relu"),
        tk.layers.MaxPooling2D(), tk.layers.Flatten(), optimizer=tk.optimizers.SGD(0.1, 0.9),
    ), image_data  # fmt: skip


def texts():
    return compiled(
        tk.Input((7,)), tk.layers.Embedding(20, 5), tk.layers.LSTM(6, dropout=0.2),
        optimizer="rmsprop",
    ), text_data  # fmt: skip


def eager():
    return compiled(
        tk.Input((4,)), tk.layers.GaussianNoise(0.1), tk.layers.Dense(8, activation="gelu"),
        tk.layers.LayerNormalization(), optimizer="adamw", run_eagerly=True,
    ), row_data  # fmt: skip


def branches():
    x = tk.Input((4,))
    one, other = tk.layers.Dense(6, activation="tanh")(x), tk.layers.Dense(6)(x)
    y = tk.layers.Dropout(0.2)(tk.layers.Add()([one, other]))
    model = tk.Model(x, tk.layers.Dense(3, activation="softmax")(y))
    optimizer = tk.optimizers.Adam(tk.optimizers.schedules.ExponentialDecay(0.02, 5, 0.9))
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=False)
    return model, row_data


EXAMPLES = (perceptron, images, texts, eager, branches)


def train(example, folder, seed):
    """A run, and what each step has found."""
    tk.keras.utils.set_random_seed(seed)
    model, make = example()
    x, y = make(np.random.default_rng(seed))
    live = Live()
    journal = tk.callbacks.RunJournal(folder, save_every=6, digest_every=1, keep="400kB")
    model.fit(x, y, BATCH, EPOCHS, verbose=0, callbacks=[live], run=journal)
    return live.states


def exact_states(run, live, steps):
    """How many of the steps have the bits that were seen live, and say they are verified."""
    exact = 0
    for step in steps:
        state = run.at(int(step))
        with state._own_random():
            same = state_bytes(state.model) == live[step - 1]
        state.train_step()
        with state._own_random():
            after = state_bytes(state.model) == live[step]
        exact += same and state.verified and after
    return exact


def attack(steps, seed, say=print):
    """So many steps of each example, and five forks of each; what was exact, of how many."""
    exact = forks = 0
    for number, example in enumerate(EXAMPLES):
        rng = np.random.default_rng(seed + number)
        with tempfile.TemporaryDirectory() as folder:
            live = train(example, f"{folder}/run", seed)
            run = tk.runs.open(f"{folder}/run")
            chosen = rng.choice(np.arange(1, run.last_step + 1), steps)
            good = exact_states(run, live, chosen)
            alike = 0
            for i, at in enumerate(chosen[:5]):
                fork = run.fork(int(at), f"{folder}/fork-{i}")
                state = fork.at(fork.last_step + 1)
                with state._own_random():
                    alike += state_bytes(state.model) == live[-1]
        say(f"{example.__name__:<11} {good} of {steps} steps, {alike} of {len(chosen[:5])} forks")
        exact, forks = exact + good, forks + alike
    say(f"{exact} of {steps * len(EXAMPLES)} steps have the bits seen live")
    say(f"{forks} of {len(EXAMPLES) * min(steps, 5)} forks end in the bits of their run")
    return exact, forks


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    exact, forks = attack(args.steps, args.seed)
    return (
        0
        if exact == args.steps * len(EXAMPLES) and forks == len(EXAMPLES) * min(args.steps, 5)
        else 1
    )


if __name__ == "__main__":
    raise SystemExit(main())
