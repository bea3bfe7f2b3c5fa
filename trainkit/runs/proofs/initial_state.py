"""Whether a run began as its seed, or its program, has it begin."""

from __future__ import annotations

from typing import Any

from trainkit.core import rng
from trainkit.core.errors import FailedPreconditionError
from trainkit.ops.sampling.generators import global_generator
from trainkit.random import set_seed
from trainkit.runs.past_state import PastState
from trainkit.runs.run_programs import process_unchanged, replayed, stored_program

BEGINNINGS = ("seed", "program", "given")


def beginning_of(run: Any) -> str:
    """Where the state that the first step found comes from, as far as it can be made again.

    Args:
        run: a `JournaledRun` with its first checkpoint.

    Returns:
        `"program"`: the program of the run makes it; `"seed"`: the seed and the stored model do;
        `"given"`: neither, as where weights were loaded.
    """
    recorded = run.at(1, check=False)
    claims = ("program",) if run.program is not None else ("seed",)
    return next((claim for claim in claims if begins_with(run, claim, recorded)), "given")


def begins_with(run: Any, claim: str, recorded: PastState) -> bool:
    """Whether a program, or seed and stored model, lead to the state that the first step found.

    Args:
        run: a `JournaledRun`.
        claim: `"program"` or `"seed"`.
        recorded: the state of the first checkpoint.
    """
    seed = run.header.get("seed")
    if claim == "seed" and (type(seed) is not int or run.program is not None):
        return False
    program = run.program if claim == "program" else _from_seed(run, seed)
    if program is None:
        return False
    replay = run.replay(None, 0, target=1)
    with process_unchanged():
        try:
            replayed(program, replay)
        except FailedPreconditionError:
            return False
        owner, batches, _ = replay.reached
        state = PastState(1, owner, batches, global_generator().state.value())
    return list(state.leaves().values()) == list(recorded.leaves().values())


def _from_seed(run: Any, seed: int) -> Any:
    train = stored_program(run)

    def program() -> None:
        rng._SEEDS.derived = 0
        set_seed(seed)
        train()

    return program
