"""`tk.runs.open`: the folder of a run, to be asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from trainkit.journal.journal_reader import Journal
from trainkit.journal.lines import Step
from trainkit.journal.run_log import checkpoints_of


class JournaledRun:
    """A run: what its journal says, and its steps done again.

    Args:
        folder: of the run.
        program: a function without arguments that trains as the run did, with `fit(run=folder)` or
            a `Recorder(folder)`; needed to go back where the model or the data are not stored.
        model: a function that gives the compiled model, where only that is not stored.
        data: what `fit` was given as `x`, where only that is not stored; (x, y) for arrays.

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
    ) -> None:
        self.folder = Path(os.fsdecode(folder))
        self.journal = Journal(self.folder)
        self.program, self.model_function, self.data = program, model, data

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


def open(
    folder: str | os.PathLike[str], program: Any = None, model: Any = None, data: Any = None
) -> JournaledRun:
    """Open a run that `fit(run=...)` or a `Recorder` has written.

    Args:
        folder: of the run.
        program: a function without arguments that trains as the run did.
        model: a function that gives the compiled model.
        data: what `fit` was given as `x`; (x, y) for arrays.

    Returns:
        A `JournaledRun`; see there for when the last three are needed.

    Raises:
        NotFoundError: there is no run in the folder.
        JournalError: its journal can't be read at all.
    """
    return JournaledRun(folder, program, model, data)
