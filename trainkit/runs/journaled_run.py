"""`tk.runs.open`: the folder of a run, to be asked."""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path
from typing import Any

from trainkit import optimizers
from trainkit.callbacks.run_journal import checkpoint_of, code_digest
from trainkit.core.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.journal.journal_reader import Journal
from trainkit.journal.lines import FILE, Step
from trainkit.journal.replays import ProgramReplay, Reached
from trainkit.journal.run_header import environment
from trainkit.journal.run_log import checkpoints_of
from trainkit.journal.state_digests import PARTS
from trainkit.ops.sampling.generators import global_generator
from trainkit.runs.diagnosis.findings import RunDiagnosis
from trainkit.runs.diagnosis.why import why
from trainkit.runs.live_names import take_names
from trainkit.runs.past_state import PastState
from trainkit.runs.run_programs import ReplayError, process_unchanged, replayed, stored_program

_PYTHON = list(platform.python_version_tuple()[:2])


class JournaledRun:
    """A run: what its journal says, and its steps done again.

    Args:
        folder: of the run.
        program: a function without arguments that trains as the run did, with `fit(run=folder)` or
            a `Recorder(folder)`; needed to go back where the model or the data are not stored.
        model: a function that gives the compiled model, where only that is not stored.
        data: what `fit` was given as `x`, where only that is not stored; (x, y) for arrays.
        changed: go back though the code of the model's own classes is not what it was.

    Raises:
        NotFoundError: there is no run in the folder.
        JournalError: its journal can't be read at all.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        program: Any = None,
        model: Any = None,
        data: Any = None,
        changed: bool = False,
    ) -> None:
        self.changed = changed
        self.folder = Path(local_path(folder))
        self.journal = Journal(self.folder)
        self.program, self.model_function, self.data = program, model, data
        self.program_folder = self.folder  # which a program names; a fork's names its parent's

    def __repr__(self) -> str:
        return f"<JournaledRun {str(self.folder)!r}: {self.last_step} steps, {self.status}>"

    # ------------------------------------------------------------------ what the journal says

    def update(self) -> int:
        """Read what a run under way has written since; how many lines."""
        return self.journal.update()

    @property
    def header(self) -> dict[str, Any]:
        """What the journal says of the machine, the code, the model and the data."""
        return self.journal.header

    @property
    def id(self) -> str:
        """The number of the run."""
        return str(self.header.get("id", ""))

    @property
    def steps(self) -> list[Step]:
        """What was written of each step."""
        return self.journal.steps

    @property
    def last_step(self) -> int:
        """The number of the last step that was written."""
        return self.journal.last_step

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """What was written at the end of each epoch: `epoch`, `logs`, `seconds`, `waited`."""
        return self.journal.records_of("epoch")

    @property
    def checkpoints(self) -> dict[int, Path]:
        """The checkpoints that are still there, by the number of steps that were done."""
        return checkpoints_of(self.journal)

    @property
    def status(self) -> str:
        """How it ended: `"finished"`, `"stopped"`, `"interrupted"`, `"failed"`, or `"open"`.

        An open one is still under way, or was killed: `is_alive` tells.
        """
        last = self.journal.records[-1:] or [{}]
        return str(last[0].get("how", "open")) if last[0].get("kind") == "end" else "open"

    @property
    def is_alive(self) -> bool:
        """Whether the process that writes it runs, as far as this machine can tell."""
        if self.status != "open":
            return False
        resumed = self.journal.records_of("resume")
        process = (resumed[-1] if resumed else self.header).get("process")
        if type(process) is not int or process <= 0:
            return False
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):
            return True
        return True

    def why(self, seconds: float = 60.0) -> RunDiagnosis:
        """Say what happened, in sentences with numbers; see `tk.runs.why`.

        Args:
            seconds: how long steps may be done again; 0 for none.
        """
        return why(self, seconds)

    # ------------------------------------------------------------------ going back

    def at(self, step: int, check: bool = True) -> PastState:
        """The run as a step found it, to the bit: the nearest checkpoint, and steps done again.

        Args:
            step: its number, from 1.
            check: compare with the digests of the journal, where it has them.

        Returns:
            The state just before the step, and its batch.

        Raises:
            InvalidArgumentError: the run has no such step.
            FailedPreconditionError: the model, the data or the checkpoints are missing; or the step
                is within an execution of several.
            ReplayError: the bits are others than those that the journal tells of.
        """
        self._require_step(step)
        start_step, start = self._nearest(step - 1)
        replay = self.replay(start, start_step, target=step)
        if step > self.last_step:  # there is no batch to stop before
            _stop_after(replay, step - 1)
        with process_unchanged():
            replayed(self.steps_program(), replay)
            owner, batches, steps_done = replay.reached
            if check and steps_done != step - 1:
                raise FailedPreconditionError(
                    f"step {step} of {self.folder} is within an execution of several "
                    f"(steps_per_execution), which ended with step {steps_done}: a state can be "
                    f"had before the first step of each, such as {steps_done + 1}"
                )
            state = PastState(step, owner, batches, global_generator().state.value())
        differences = self._differences(state)
        if differences and check:
            raise ReplayError(self._mismatch(step, start_step, differences))
        return state

    def fork(
        self,
        at: int,
        folder: str | os.PathLike[str],
        *,
        optimizer: Any = None,
        learning_rate: float | None = None,
        epochs: int | None = None,
    ) -> JournaledRun:
        """Go on from a step as a new run, which knows its parent.

        Args:
            at: the step that the new run does first.
            folder: of the new run.
            optimizer: another one, with new slots.
            learning_rate: another one from there on.
            epochs: the epoch to end with, for what is stored with the run; by default the same.

        Returns:
            The new run. With nothing changed it ends in the same bits.

        Raises:
            AlreadyExistsError: there is a run in the folder.
            InvalidArgumentError: the run has no such step, or is of a loop of one's own and the
                optimizer or the rate is to change.
            FailedPreconditionError: see `at`.
        """
        self._require_step(at)
        changed = optimizer is not None or learning_rate is not None
        if changed and self.header.get("loop") != "fit":
            raise InvalidArgumentError(
                "fork: optimizer and learning_rate are for runs of fit; change the program instead"
            )
        target = Path(local_path(folder))
        if (target / FILE).exists():
            raise AlreadyExistsError(f"fork: there is a run in {target}")

        def prepare(owner: Any) -> None:
            if optimizer is not None:
                owner.optimizer = optimizers.get(optimizer)
                owner.optimizer.build(owner.trainable_variables)
            if learning_rate is not None:
                owner.optimizer.learning_rate = learning_rate

        parent = {"parent": {"id": self.id, "folder": str(self.folder), "step": at}}
        with process_unchanged(), tempfile.TemporaryDirectory() as scratch:
            start = self._checkpoint_before(at, scratch)
            replay = self.replay(
                start,
                at - 1,
                output=str(target),
                more=parent,
                prepare=prepare if changed else None,
                rates={} if changed else self._rates(),
            )
            replayed(self.steps_program(epochs), replay)
        forked = JournaledRun(target, self.program, self.model_function, self.data, self.changed)
        if self.program is not None:
            forked.program_folder = self.program_folder
        return forked

    def replay(self, start: str | None, start_step: int, **more: Any) -> ProgramReplay:
        """What lets the program do steps again; see `ProgramReplay`.

        Args:
            start: a checkpoint; `None` for the beginning of the program.
            start_step: how many steps were done there.
            **more: further arguments of `ProgramReplay`.
        """
        described = self.header.get("model")
        arguments = {"rates": self._rates(), **more}

        def adjust(model: Any) -> None:
            if not self.changed:
                self._require_same_code(model)
            take_names(model, described)

        return ProgramReplay(self.program_folder, start, start_step, adjust=adjust, **arguments)

    def _require_same_code(self, model: Any) -> None:
        described, versions = self.header.get("model"), self.header.get("versions")
        then = described.get("code") if isinstance(described, dict) else None
        python = str(versions.get("python")) if isinstance(versions, dict) else ""
        now = code_digest(model)
        if then is None or then == now or python.split(".")[:2] != _PYTHON:
            return  # other Pythons have other code for the same lines
        raise FailedPreconditionError(
            f"the code of the model's own classes has changed since {self.folder} was made: its "
            f"digest was {then!s:.40}, it is {now}. What the journal says can still be read and "
            "compared; tk.runs.open(folder, changed=True), or --changed, goes back all the same"
        )

    def steps_program(self, epochs: int | None = None) -> Any:
        """The program that does the steps: the one that was given, or one of what is stored.

        Raises:
            FailedPreconditionError: something is not stored.
        """
        return stored_program(self, epochs) if self.program is None else self.program

    def batch_digests(self, step: int, max_steps: int) -> dict[int, str]:
        """The digests of the batches in the epoch of a step: of the journal, or done again.

        Args:
            step: its number.
            max_steps: how many steps to do again at most, for those of which the journal has none.

        Returns:
            Digests by step, as far as they are known.
        """
        line = self.journal.at(step)
        epoch = [s for s in self.steps if line is not None and s.epoch == line.epoch]
        digests = {s.step: s.batch for s in epoch if s.batch is not None}
        if len(digests) == len(epoch) or len(epoch) > max_steps:
            return digests
        start_step, start = self._nearest(epoch[0].step - 1)

        def note(again: Step) -> None:
            if again.batch is not None and again.step >= epoch[0].step:
                digests[again.step] = again.batch

        replay = self.replay(start, start_step, lines=note)
        _stop_after(replay, epoch[-1].step)
        with process_unchanged():
            replayed(self.steps_program(), replay)
        return dict(sorted(digests.items()))

    def _require_step(self, step: int) -> None:
        if type(step) is not int or not 1 <= step <= self.last_step + 1:
            raise InvalidArgumentError(
                f"{self.folder} has steps 1 to {self.last_step}, so a state can be had before each "
                f"of these, and after the last as that of step {self.last_step + 1}; got {step!r}"
            )

    def _nearest(self, steps_done: int) -> tuple[int, str | None]:
        """The last checkpoint with at most so many steps done; the program's own beginning."""
        checkpoints = self.checkpoints
        steps = [number for number in checkpoints if number <= steps_done]
        if steps:
            return steps[-1], str(checkpoints[steps[-1]])
        if self.program is not None:
            return 0, None
        first = f"the first is after step {min(checkpoints)}" if checkpoints else "all are gone"
        raise FailedPreconditionError(
            f"{self.folder} has no checkpoint before step {steps_done + 1}: {first}. What the "
            "journal says of the step can still be read: run.journal.at(step)"
        )

    def _checkpoint_before(self, step: int, scratch: str) -> str | None:
        """A checkpoint of just before a step; one is made where there is none."""
        start_step, start = self._nearest(step - 1)
        if start_step == step - 1:
            return start
        path = os.path.join(scratch, "state")

        def save(owner: Any, steps_done: int) -> None:
            if steps_done == step - 1:
                checkpoint_of(owner).write(path)
                raise Reached

        replay = self.replay(start, start_step, watch=save)
        replayed(self.steps_program(), replay)
        return path

    def _rates(self) -> dict[int, float]:
        """The learning rates that a program without the run's callbacks has to be given."""
        if self.program is not None:
            return {}
        return {step.step: step.rate for step in self.steps if step.rate is not None}

    def _differences(self, state: PastState) -> list[str]:
        """What the journal says otherwise; sets whether anything could be compared."""
        before, line = self.journal.at(state.step - 1), self.journal.at(state.step)
        expected = {"batch": None if line is None else line.batch}
        if before is not None:
            expected |= {part: getattr(before, part) for part in PARTS}
        elif state.step - 1 in self._leaves():
            expected |= self._leaves()[state.step - 1]
        digests = state.digests()
        compared = [part for part, digest in expected.items() if digest is not None]
        different = [part for part in compared if expected[part] != digests[part]]
        state.verified = bool(compared) and not different
        return different

    def _leaves(self) -> dict[int, dict[str, Any]]:
        records = self.journal.records_of("leaves")
        return {
            record["n"]: {part: record["parts"].get(part) for part in PARTS}
            for record in records
            if type(record.get("n")) is int and isinstance(record.get("parts"), dict)
        }

    def _mismatch(self, step: int, start_step: int, different: list[str]) -> str:
        now = environment()
        changed = [name for name, value in now.items() if self.header.get(name) != value]
        changed = [name for name in changed if name not in ("seed", "seeds_derived")]
        lines = [
            f"step {step} of {self.folder}, done again from the checkpoint of step {start_step}, "
            f"finds other bits than the journal tells of, in: {', '.join(different)}."
        ]
        for name in changed:
            lines.append(f"  {name}: {self.header.get(name)!s:.200} then, {now[name]!s:.200} now")
        callbacks = self.header.get("callbacks")
        if callbacks and self.program is None:
            lines.append(
                f"  the run had callbacks, which only a program calls: {callbacks!s:.200}; give "
                "tk.runs.open(folder, program=train)"
            )
        lines.append("at(step, check=False) gives the state as it comes.")
        return "\n".join(lines)


def _stop_after(replay: ProgramReplay, last: int) -> None:
    """Break a replay off as soon as so many steps are done."""

    def watch(owner: Any, steps_done: int) -> None:
        if steps_done == last:
            replay.break_off(owner, [], steps_done)

    replay.target = None
    if replay.start_step == last and replay.start is not None:
        replay.prepare = lambda owner: watch(owner, last)
    else:
        replay.watch = watch


def open(
    folder: str | os.PathLike[str],
    program: Any = None,
    model: Any = None,
    data: Any = None,
    changed: bool = False,
) -> JournaledRun:
    """Open a run that `fit(run=...)` or a `Recorder` has written.

    Args:
        folder: of the run.
        program: a function without arguments that trains as the run did.
        model: a function that gives the compiled model.
        data: what `fit` was given as `x`; (x, y) for arrays.
        changed: go back though the code of the model's own classes is not what it was.

    Returns:
        A `JournaledRun`; see there for when the last three are needed.

    Raises:
        NotFoundError: there is no run in the folder.
        JournalError: its journal can't be read at all.
    """
    return JournaledRun(folder, program, model, data, changed)
