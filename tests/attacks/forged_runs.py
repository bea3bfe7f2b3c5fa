"""Runs that did not take place as they say, among honest ones: what a verification of five catches.

    python -m tests.attacks.forged_runs --runs 100 --seed 1

Each forged run has a journal whose chain and checkpoint sums are whole; a proof is made of it, and
verified once, by segments that the verifier draws. How many should be caught follows from how many
segments each forgery touches. Honest runs have to pass, all of them.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import tempfile
import time

import numpy as np

import trainkit as tk
from trainkit.callbacks.run_journal import checkpoint_of
from trainkit.journal import lines
from trainkit.journal.replays import Reached
from trainkit.journal.run_log import file_sha256
from trainkit.journal.state_digests import digest_of, leaf_digest
from trainkit.runs.run_programs import process_unchanged, replayed

ROWS, BATCH, EPOCHS, EVERY = 40, 8, 8, 2


def step_count():
    return ROWS // BATCH * EPOCHS


def segment_count():
    return step_count() // EVERY


def data(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(ROWS, 3)).astype("f"), rng.integers(0, 3, ROWS)


def new_model(seed):
    tk.keras.utils.set_random_seed(seed)
    layers = [tk.Input((3,)), tk.layers.Dense(6, activation="relu"), tk.layers.Dropout(0.2)]
    model = tk.Sequential([*layers, tk.layers.Dense(3)])
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


def train(folder, seed, x=None, y=None, callbacks=None):
    own_x, own_y = data(seed)
    journal = tk.callbacks.RunJournal(folder, save_every=EVERY, digest_every=1)
    x, y = own_x if x is None else x, own_y if y is None else y
    model = new_model(seed)
    model.fit(x, y, BATCH, EPOCHS, verbose=0, callbacks=callbacks, run=journal)
    return model


def reseal(folder, edit):
    """Write a journal anew, each record as `edit` leaves it, with a chain that fits."""
    path = pathlib.Path(folder) / lines.FILE
    head, parts = lines.START, []
    for line in path.read_bytes().splitlines():
        record = lines.decode(line)
        edit(record)
        body = json.dumps(record, separators=(",", ":"))[:-1].encode()
        sealed, head = lines.sealed(body, head)
        parts.append(sealed)
    path.write_bytes(b"".join(parts))


class Tamper(tk.callbacks.Callback):
    """Does something after some steps; the journal has it as if training had."""

    def __init__(self, steps, act):
        super().__init__()
        self.__dict__.update(steps=set(steps), act=act, before=None)

    def on_train_batch_begin(self, batch, logs=None):
        model = self.model
        step = int(model.optimizer.iterations)
        if step in self.steps and self.act == "skip":  # the update of the step before is undone
            for variable, value in zip(self.variables(), self.before, strict=True):
                variable.assign(value)
            model.optimizer.iterations.assign(step)
        elif step in self.steps:
            kernel = model.layers[0].kernel
            kernel.assign(kernel + 1e-6)
        self.before = [variable.numpy() for variable in self.variables()]

    def variables(self):
        return [*self.model.weights, *self.model.optimizer.variables[1:]]


def without_callbacks(record):
    if "trainkit_run" in record:
        record["callbacks"] = []


def segment_of(step):
    """The segment in which a change before step `step + 1` shows."""
    return step // EVERY


def tampered(folder, seed, chance, act):
    steps = chance.sample(range(1, step_count()), chance.randint(1, 6))
    train(folder, seed, callbacks=[Tamper(steps, act)])
    reseal(folder, without_callbacks)
    return {segment_of(step) for step in steps}, None


def skipped_steps(folder, seed, chance):
    return tampered(folder, seed, chance, "skip")


def moved_weights(folder, seed, chance):
    return tampered(folder, seed, chance, "move")


def final_weights(folder, seed, chance):
    """Other weights in the last checkpoint than training had."""
    train(folder, seed)
    run = tk.runs.open(folder)
    path = run.checkpoints[step_count()]

    def forge(model):
        model.layers[-1].bias.assign(model.layers[-1].bias + 1e-6)
        checkpoint_of(model).write(path)
        raise Reached

    with process_unchanged():
        replayed(run.steps_program(), run.replay(str(path), step_count(), prepare=forge))
    state = run.at(step_count() + 1, check=False)
    digests = state.digests()

    def edit(record):
        if record.get("n") != step_count():
            return
        if record.get("kind") == "checkpoint":
            record["sha256"] = file_sha256(path)
        if record.get("kind") == "leaves":
            record.update(parts={name: digests[name] for name in record["parts"]})
        if "kind" not in record:
            record["w"] = digests["weights"]

    reseal(folder, edit)
    return {segment_count() - 1}, None


def another_seed(folder, seed, chance):
    """A run of another seed that says it was of this one; its steps are all honest."""
    train(folder, seed + 1000, *data(seed))

    def edit(record):
        if "trainkit_run" in record:
            record["seed"] = seed

    reseal(folder, edit)
    return set(), "seed"


def another_row(folder, seed, chance):
    """One value of one row was another; the data that is stored is that of the claim."""
    x, y = data(seed)
    other = x.copy()
    row = chance.randrange(ROWS)
    other[row, chance.randrange(3)] += 1e-3
    train(folder, seed, x=other)
    return claim_data(folder, other, x, y)


def another_label(folder, seed, chance):
    x, y = data(seed)
    other = y.copy()
    row = chance.randrange(ROWS)
    other[row] = (other[row] + 1) % 3
    train(folder, seed, y=other)
    return claim_data(folder, other, x, y)


def claim_data(folder, used, x, y):
    """Put the data of the claim in place of that which was used; the batches then tell."""
    store = pathlib.Path(folder) / "data"
    for array in (x, y):
        np.save(store / f"{leaf_digest(array)}.npy", array)
    swap = {leaf_digest(used): leaf_digest(x if used.ndim == 2 else y)}

    def edit(record):
        if "trainkit_run" not in record:
            return
        text = json.dumps(record["data"])
        for one, other in swap.items():
            text = text.replace(one, other)
        record["data"] = json.loads(text) | {"digest": digest_of([x, y])}

    before = [step.batch for step in tk.runs.open(folder).steps]
    reseal(folder, edit)
    run = tk.runs.open(folder)
    claimed = [run.at(step + 1, check=False).digests()["batch"] for step in range(step_count())]
    touched = {i // EVERY for i in range(step_count()) if before[i] != claimed[i]}
    return touched, None


def better_losses(folder, seed, chance):
    """Losses in the journal that no step had."""
    train(folder, seed)
    steps = chance.sample(range(1, step_count() + 1), chance.randint(1, 6))

    def edit(record):
        if record.get("n") in steps and "kind" not in record:
            record["l"] *= 0.9

    reseal(folder, edit)
    return {(step - 1) // EVERY for step in steps}, None


FORGERIES = (
    final_weights, skipped_steps, moved_weights, another_seed, another_row, another_label,
    better_losses,
)  # fmt: skip


def proof_of(folder, beginning=None):
    proof = tk.runs.prove(tk.runs.open(folder))
    return proof if beginning is None else dataclasses.replace(proof, beginning=beginning)


def forged(forgery, folder, seed, sample=5):
    """Make a forged run and verify it once.

    Returns:
        Whether it was caught, and the probability that it should be.
    """
    touched, beginning = forgery(folder, seed, random.Random(seed))
    proof = proof_of(folder, beginning)
    found = tk.runs.verify(proof, sample=sample)
    certain = beginning is not None or segment_count() - 1 in touched
    return not found.passed, 1.0 if certain else found.caught(len(touched))


def honest(folder, seed, sample=5):
    """Make an honest run; what a verification says of it."""
    train(folder, seed)
    return tk.runs.verify(proof_of(folder), sample=sample)


def attack(count, seed, say=print):
    """So many forged and honest runs; the counts."""
    caught: dict[str, list] = {forgery.__name__: [] for forgery in FORGERIES}
    passed, seconds = 0, []
    for i in range(count):
        forgery = FORGERIES[i % len(FORGERIES)]
        with tempfile.TemporaryDirectory() as scratch:
            caught[forgery.__name__].append(forged(forgery, f"{scratch}/forged", seed + i))
            began = time.perf_counter()
            found = honest(f"{scratch}/honest", seed + i)
            seconds.append(time.perf_counter() - began)
            passed += found.passed
            if not found.passed:
                say(f"honest run {seed + i}: {found}")
    for name, results in caught.items():
        expected = sum(chance for _, chance in results)
        say(f"{name:<14} {sum(was for was, _ in results)} of {len(results)} caught, "
            f"{expected:.1f} expected")  # fmt: skip
    every = [result for results in caught.values() for result in results]
    total, expected = sum(was for was, _ in every), sum(chance for _, chance in every)
    spread = sum(chance * (1 - chance) for _, chance in every) ** 0.5
    say(f"{total} of {count} forged runs caught; {expected:.1f} +- {spread:.1f} expected")
    say(f"{passed} of {count} honest runs pass; {np.median(seconds):.2f} s each, at the median")
    return total, expected, spread, passed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    total, expected, spread, passed = attack(args.runs, args.seed)
    return 0 if passed == args.runs and abs(total - expected) <= 3 * spread + 0.5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
