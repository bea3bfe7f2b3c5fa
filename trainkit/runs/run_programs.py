"""Programs that do the steps of a run again: the user's, or one made of what a run has stored."""

from __future__ import annotations

import contextlib
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.callbacks.run_journal import DATA_FOLDER, MODEL_FILE, RunJournal, nest_of
from trainkit.checkpoints.format.regular_files import opened_regular
from trainkit.core import rng
from trainkit.core.errors import CheckpointError, FailedPreconditionError
from trainkit.journal.replays import ProgramReplay, Reached, replaying
from trainkit.kernels.jit.kernel_family import KernelChoice
from trainkit.models import model_from_json
from trainkit.ops.sampling.generators import global_generator
from trainkit.runs.live_names import drop_inputs

Program = Callable[[], Any]

_MOST_CONFIG = 1 << 26
_FIT_ARGUMENTS = ("batch_size", "shuffle", "initial_epoch", "steps_per_epoch")


class ReplayError(CheckpointError):
    """Steps done again have other bits than those that the journal tells of."""


def script_program(path: str) -> Program:
    """A program that runs a file of Python, as `python FILE` does."""
    return lambda: runpy.run_path(path, run_name="__main__")


def stored_program(run: Any, epochs: int | None = None) -> Program:
    """A program made of the model and the data that a run of `fit` has stored.

    Args:
        run: a `JournaledRun`.
        epochs: where training ends; by default where the run was to end.

    Raises:
        FailedPreconditionError: something is not stored; the text says what to give instead.
    """
    if run.header.get("loop") != "fit":
        raise FailedPreconditionError(
            f"{run.folder} is of a loop of its own, whose steps are in the program: "
            "tk.runs.open(folder, program=train), where train() does what made the run"
        )
    facts = run.header.get("fit")
    if not isinstance(facts, dict):
        raise CheckpointError(f"{run.folder}: the header does not say how fit was called")
    model, data = _model_source(run), data_of(run)
    planned = facts.get("epochs")
    reached = run.steps[-1].epoch + 1 if run.steps else 1
    last = max(planned if type(planned) is int else 1, reached) if epochs is None else epochs
    arguments = {name: facts[name] for name in _FIT_ARGUMENTS if facts.get(name) is not None}
    settings = run.header.get("keep")

    def train() -> None:
        own = dict(settings) if isinstance(settings, dict) else {}
        journal = RunJournal(run.program_folder, **own)
        x, y, sample_weight = data
        if not isinstance(run.data, tuple | list) and run.data is not None:
            arguments.pop("batch_size", None)
        model().fit(
            x, y, sample_weight=sample_weight, epochs=last, verbose=0, run=journal, **arguments
        )

    return train


def _model_source(run: Any) -> Callable[[], Any]:
    if run.model_function is not None:
        source: Callable[[], Any] = run.model_function
        return source
    path = run.folder / MODEL_FILE
    if not path.is_file():
        raise FailedPreconditionError(
            f"{run.folder} has no {MODEL_FILE}, since the model has no config: give "
            "tk.runs.open(folder, model=function), whose function gives the compiled model"
        )
    with opened_regular(path, "model's config") as file:
        text = file.read(_MOST_CONFIG + 1)
    if len(text) > _MOST_CONFIG:
        raise CheckpointError(f"{path} has more than {_MOST_CONFIG} bytes")
    return lambda: drop_inputs(model_from_json(text.decode()), run.header.get("model"))


def data_of(run: Any) -> tuple[Any, Any, Any]:
    """What `fit` was given: inputs, targets and sample weights.

    Raises:
        FailedPreconditionError: it is neither stored nor given.
        CheckpointError: what is stored can't be read.
    """
    if run.data is not None:
        return (
            (*run.data, None, None)[:3] if isinstance(run.data, tuple) else (run.data, None, None)
        )
    arrays = stored_arrays(run, "data")
    if arrays is None:
        raise FailedPreconditionError(
            f"the data of {run.folder} is not stored: give tk.runs.open(folder, data=...) what fit "
            "was given, (x, y) for arrays, or program=train"
        )
    return arrays


def stored_arrays(run: Any, name: str) -> tuple[Any, Any, Any] | None:
    """Inputs, targets and weights that are stored with a run; `None` where they are not.

    Args:
        run: a `JournaledRun`.
        name: of the field of the header: `"data"` or `"validation"`.

    Raises:
        CheckpointError: they can't be read.
    """
    about = run.header.get(name)
    structure = about.get("structure") if isinstance(about, dict) else None
    if structure is None:
        return None
    try:
        digests = {str(item["digest"]) for item in about["arrays"]}
        arrays = {digest: _array(run.folder, digest) for digest in digests}
        x, y, sample_weight = nest_of(structure, arrays)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OSError) as error:
        raise CheckpointError(f"{run.folder}: the stored data can't be read: {error}") from None
    return x, y, sample_weight


def _array(folder: Path, digest: str) -> Any:
    if len(digest) != 16 or not set(digest) <= set("0123456789abcdef"):
        raise ValueError(f"{digest!r:.40} is no digest")
    with opened_regular(folder / DATA_FOLDER / f"{digest}.npy", "array") as file:
        return np.load(file, allow_pickle=False)


@contextlib.contextmanager
def process_unchanged() -> Iterator[None]:
    """A context after which the process's random numbers and kernels are as before."""
    generator, seeds = global_generator(), rng._SEEDS
    state = generator.state.value()
    numbers = (seeds.seed, seeds.derived, seeds.version)
    kernels = KernelChoice().state_arrays()
    try:
        yield
    finally:
        seeds.seed, seeds.derived, seeds.version = numbers
        generator.state.assign(state)
        KernelChoice().load_state_arrays(kernels)


def replayed(program: Program, replay: ProgramReplay) -> None:
    """Run a program as far as a replay goes.

    Raises:
        FailedPreconditionError: the program begins no training of this run, or ends before.
    """
    with replaying(replay), contextlib.suppress(Reached):
        program()
    if not replay.used:
        raise FailedPreconditionError(
            f"the program never trained with run={str(replay.folder)!r}, nor made a Recorder of it"
        )
    if replay.target is not None and replay.reached is None:
        raise FailedPreconditionError(
            f"the program ended before step {replay.target}: there is no such step, or it is "
            "within an execution of several (steps_per_execution); a state can be had before the "
            "first step of each, the one after a step of run.steps"
        )
