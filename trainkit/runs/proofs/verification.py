"""`tk.runs.verify`: some segments of a run, drawn by whoever verifies, are done again."""

from __future__ import annotations

import dataclasses
import math
import os
import random
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.core.errors import CheckpointError, NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.journal.journal_reader import Journal
from trainkit.journal.lines import number_of, number_text
from trainkit.journal.run_header import environment
from trainkit.journal.run_log import file_sha256
from trainkit.runs.journaled_run import JournaledRun
from trainkit.runs.proofs import run_proof
from trainkit.runs.proofs.initial_state import begins_with
from trainkit.runs.proofs.run_proof import RunProof, weights_sha256
from trainkit.runs.proofs.segment_replay import segment_differences

_BEGINNINGS = {"seed": "the seed and the stored model", "program": "the program"}


@dataclasses.dataclass
class Verification:
    """What a verification has seen.

    Attributes:
        proof: what was verified.
        seed: by which the segments were drawn.
        segments: the segments that were done again, as (steps before, steps after).
        drawn: how many of them were drawn; the last segment of the run is looked at in any case.
        problems: what is not as the proof or the journal says; empty if the run passes.
        notes: what could not be verified, or is other on this machine.
    """

    proof: RunProof
    seed: int
    segments: list[tuple[int, int]]
    drawn: int
    problems: list[str]
    notes: list[str]

    @property
    def passed(self) -> bool:
        """Whether everything that was looked at is as the proof says."""
        return not self.problems

    def caught(self, touched: int) -> float:
        """The probability that a forgery of so many segments, chosen beforehand, is caught.

        1 - C(n - touched, k) / C(n, k) for k of n segments drawn without putting back, which is at
        least 1 - (1 - touched / n)**k. One that touches the last segment always is.
        """
        count = len(self.proof.segments)
        if not 0 <= touched <= count:
            raise ValueError(f"caught: there are {count} segments, got {touched!r}")
        return 1 - math.comb(count - touched, self.drawn) / math.comb(count, self.drawn)

    def __str__(self) -> str:
        count = len(self.proof.segments)
        head = "passed" if self.passed else "FAILED"
        lines = [
            f"{head}: {self.drawn} of {count} segments drawn by seed {self.seed}, and the last",
            *(f"  {problem}" for problem in self.problems),
            *(f"  note: {note}" for note in self.notes),
            "  a forgery is caught with probability",
        ]
        for touched in sorted({1, -(-count // 10), -(-count // 2)}):
            share = f"{touched} of {count} segments"
            lines.append(f"    {self.caught(touched):.3f} where it touches {share}")
        return "\n".join([*lines, "    1.000 where it touches the final weights alone"])

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        count = len(self.proof.segments)
        return {
            "passed": self.passed,
            "run": self.proof.run,
            "steps": self.proof.steps,
            "segments": count,
            "drawn": self.drawn,
            "replayed": [list(segment) for segment in self.segments],
            "seed": self.seed,
            "problems": self.problems,
            "notes": self.notes,
            "caught": {str(touched): self.caught(touched) for touched in range(1, count + 1)},
        }


def verify(
    proof: RunProof | str | os.PathLike[str],
    run: JournaledRun | str | os.PathLike[str] | None = None,
    sample: int = 5,
    seed: int | None = None,
    model: Any = None,
) -> Verification:
    """Verify a proof: draw segments of the run, do their steps again, and compare all bits.

    Args:
        proof: a proof, or the file of one.
        run: the run, or its folder; by default where the proof says, from its own folder.
        sample: how many segments are drawn; all if there are fewer.
        seed: by which they are drawn; by default one that nobody can foresee.
        model: a model that is said to be the result of the run.

    Raises:
        ValueError: `sample` is below 1.
        NotFoundError: the run is not there.
        CheckpointError: a file is no proof or no journal.
        FailedPreconditionError: the steps can't be done again: the model or the data are missing.
    """
    if type(sample) is not int or sample < 1:
        raise ValueError(f"verify: sample must be a number of segments above 0, got {sample!r}")
    beside = Path()
    if not isinstance(proof, RunProof):
        beside = Path(local_path(proof)).parent
        proof = RunProof.load(proof)
    opened = _open(run, beside / proof.folder)
    seed = secrets.randbits(64) if seed is None else seed
    drawn = random.Random(seed).sample(proof.segments, min(sample, len(proof.segments)))
    segments = sorted({*drawn, proof.segments[-1]})
    problems = _commitment_problems(opened, proof)
    result = Verification(proof, seed, segments, len(drawn), problems, [])
    if problems:  # it is another run, or one that was changed: its steps say nothing
        return result
    problems += _beginning_problems(opened, proof, result.notes)
    result.notes += _rate_notes(opened)
    for start, end in segments:
        problems += _segment_problems(opened, start, end)
    problems += _weight_problems(opened, proof, model)
    if problems:
        result.notes += _changed_environment(opened)
    return result


def _open(run: Any, folder: Path) -> JournaledRun:
    if isinstance(run, JournaledRun):
        return run
    try:
        return JournaledRun(folder if run is None else run)
    except NotFoundError as error:
        if run is not None:
            raise
        raise NotFoundError(f"{error}, where the proof says it is: say where the run is") from None


def _commitment_problems(run: JournaledRun, proof: RunProof) -> list[str]:
    """What does not need any steps: whether these are the run, the config and the data proven."""
    journal = Journal(run.folder, most_lines=proof.lines)
    if journal.count != proof.lines or journal.head.hex() != proof.head:
        return [
            f"the journal is another: line {journal.count} has the hash {journal.head.hex()[:16]}, "
            f"the proof has {proof.head[:16]} for line {proof.lines}"
        ]
    run.journal = journal
    problems = []
    if run.id != proof.run:
        problems.append(f"the proof is of run {proof.run}, the journal of {run.id}")
    if run_proof.config_of(run) != proof.config:
        problems.append("the proof's config is not that of the journal")
    for name, now, then in (
        ("data", run_proof.data_sum(run), proof.data),
        ("stored model", run_proof.model_sum(run), proof.model),
    ):
        if then is not None and now != then:
            problems.append(f"the {name} is another: SHA-256 {str(now)[:16]}, proven {then[:16]}")
    return problems


def _beginning_problems(run: JournaledRun, proof: RunProof, notes: list[str]) -> list[str]:
    """Whether the first state comes from where the proof says."""
    if proof.checkpoints[0]:
        notes.append(f"steps 1 to {proof.checkpoints[0]} are not covered: no checkpoint before")
        return []
    if proof.beginning == "given":
        notes.append("the initial state is given: that it comes from the seed is not claimed")
        return []
    if proof.beginning == "program" and run.program is None:
        notes.append("the initial state is that of a program, which was not given to compare")
        return []
    if problem := _file_problem(run, 0):
        return [problem]
    recorded = run.at(1, check=False)
    if begins_with(run, "seed" if run.program is None else "program", recorded):
        return []
    return [f"the initial state is not that of {_BEGINNINGS[proof.beginning]}"]


def _file_problem(run: JournaledRun, step: int) -> str | None:
    path = run.checkpoints.get(step)
    if path is None:
        return f"the checkpoint after step {step} is gone"
    if file_sha256(path) != run_proof.checkpoint_sums(run.journal).get(step):
        return f"the checkpoint after step {step} is not the file that the journal tells of"
    return None


def _segment_problems(run: JournaledRun, start: int, end: int) -> list[str]:
    problems = [problem for step in (start, end) if (problem := _file_problem(run, step))]
    if not problems:
        try:
            problems = segment_differences(run, start, end)
        except CheckpointError as error:
            problems = [str(error).splitlines()[0]]
    return [f"steps {start + 1} to {end}: {problem}" for problem in problems[:3]]


def _weight_problems(run: JournaledRun, proof: RunProof, model: Any) -> list[str]:
    problems = []
    if model is not None and weights_sha256(model) != proof.weights:
        problems.append("the model has other weights than those proven")
    if _file_problem(run, proof.steps) is None:
        try:
            final = run.at(proof.steps + 1, check=False)
        except CheckpointError as error:
            return [*problems, str(error).splitlines()[0]]
        if weights_sha256(final.parts) != proof.weights:
            problems.append("the last checkpoint has other weights than those proven")
    return problems


def _rate_notes(run: JournaledRun) -> list[str]:
    """Learning rates that neither the optimizer's config nor a callback accounts for."""
    optimizer = run.header.get("optimizer")
    config = optimizer.get("config") if isinstance(optimizer, dict) else None
    rate = number_of(config.get("learning_rate")) if isinstance(config, dict) else None
    if rate is None or run.header.get("callbacks"):
        return []
    expected = number_text(float(np.float32(rate)))
    other = [s for s in run.steps if s.rate is not None and number_text(s.rate) != expected]
    return [
        f"the learning rate is {step.rate:.9g} from step {step.step}, with {rate:.9g} in the "
        "config, and no callback that would set it"
        for step in other[:1]
    ]


def _changed_environment(run: JournaledRun) -> list[str]:
    """What is other on this machine than then, which may change bits of honest runs."""
    now = environment()
    names = [name for name in now if name not in ("seed", "seeds_derived")]
    return [
        f"{name} was {run.header.get(name)!s:.120}, is {now[name]!s:.120} here"
        for name in names
        if run.header.get(name) != now[name]
    ]
