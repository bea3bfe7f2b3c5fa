"""`RunProof`: a few kilobytes that commit to a run: what it was, and all that it wrote."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.callbacks.run_journal import MODEL_FILE
from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.checkpoints.format.regular_files import opened_regular
from trainkit.core import nest
from trainkit.core.errors import CheckpointError, FailedPreconditionError
from trainkit.core.files.local_paths import local_path
from trainkit.journal.run_log import file_sha256
from trainkit.journal.state_digests import StateDigests, array_of
from trainkit.runs.proofs.initial_state import BEGINNINGS, beginning_of
from trainkit.runs.run_programs import data_of

FORMAT = 1
_MOST_BYTES = 1 << 18
_MOST_CHECKPOINTS = 512
_MOST_FIELD = 2048
_HEX = set("0123456789abcdef")


@dataclasses.dataclass(frozen=True)
class RunProof:
    """What a run commits to.

    Attributes:
        run: the number of the run.
        folder: where it lay; in a file, from the folder of the proof.
        made: when the proof was made, in UTC.
        lines: how many lines of the journal it is about.
        head: hash of the last of these, which stands for all before it, 64 hexadecimal digits.
        steps: how many steps were done at the last checkpoint.
        checkpoints: the steps of the checkpoints between which segments lie, ascending; the journal
            has the SHA-256 of each file.
        weights: SHA-256 of the model's weights at the last of them, see `weights_sha256`.
        model: SHA-256 of the stored config of the model; `None` where there is none.
        data: SHA-256 of the arrays that `fit` was given; `None` where it was none.
        beginning: where the first state comes from: `"seed"`, `"program"`, or `"given"`.
        config: what the header says: seed, optimizer, arguments, data, code, versions.
    """

    run: str
    folder: str
    made: str
    lines: int
    head: str
    steps: int
    checkpoints: tuple[int, ...]
    weights: str
    model: str | None
    data: str | None
    beginning: str
    config: dict[str, Any]

    @property
    def segments(self) -> list[tuple[int, int]]:
        """Pairs of checkpoints that follow one another, by the steps that were done."""
        return list(itertools.pairwise(self.checkpoints))

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        fields = dataclasses.asdict(self)
        return {"trainkit_proof": FORMAT, **fields, "checkpoints": list(self.checkpoints)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the proof as JSON; a file that is there is replaced whole."""
        target = Path(local_path(path))
        fields = self.as_dict()
        with contextlib.suppress(ValueError):  # on Windows, another drive has no relative path
            fields["folder"] = os.path.relpath(self.folder, target.parent)
        text = json.dumps(fields, indent=1, allow_nan=False).encode() + b"\n"
        with AtomicFile(target) as file:
            os.write(file.fd, text)
            file.commit()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RunProof:
        """Read a proof.

        Raises:
            NotFoundError: there is no such file.
            CheckpointError: it is no proof, or of a version that is not known.
        """
        with opened_regular(path, "proof") as file:
            text = file.read(_MOST_BYTES + 1)
        name = os.fsdecode(path)
        if len(text) > _MOST_BYTES:
            raise CheckpointError(f"{name} is no proof: it has more than {_MOST_BYTES} bytes")
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{name} is no proof: {error}") from None
        version = fields.get("trainkit_proof") if isinstance(fields, dict) else None
        if type(version) is not int:
            raise CheckpointError(f"{name} is no proof: it has no 'trainkit_proof'")
        if version != FORMAT:
            raise CheckpointError(
                f"{name} is of version {version}; this trainkit reads version {FORMAT}"
            )
        try:
            return cls(**_check(fields))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{name} is no proof that can be read: {error}") from None


def _check(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a proof from a stranger.

    Raises:
        KeyError: one is missing.
        ValueError: one is not what it should be.
    """
    names = [field.name for field in dataclasses.fields(RunProof)]
    values = {name: fields[name] for name in names}
    for name in ("run", "folder", "made"):
        if not isinstance(values[name], str) or len(values[name]) > _MOST_FIELD:
            raise ValueError(f"{name!r} must be a short text")
    for name in ("head", "weights", "model", "data"):
        value = values[name]
        if value is None and name in ("model", "data"):
            continue
        if not isinstance(value, str) or len(value) != 64 or not _HEX.issuperset(value):
            raise ValueError(f"{name!r} must be 64 hexadecimal digits")
    steps = values["checkpoints"]
    if not isinstance(steps, list) or not 2 <= len(steps) <= _MOST_CHECKPOINTS:
        raise ValueError(f"'checkpoints' must list 2 to {_MOST_CHECKPOINTS} steps")
    numbers = [values["lines"], values["steps"], *steps]
    if not all(type(number) is int and 0 <= number < 1 << 53 for number in numbers):
        raise ValueError("'lines', 'steps' and 'checkpoints' must be whole numbers from 0")
    if any(b <= a for a, b in itertools.pairwise(steps)):
        raise ValueError("'checkpoints' must ascend")
    if steps[-1] != values["steps"]:
        raise ValueError(f"the last checkpoint is of step {steps[-1]} of {values['steps']}")
    if values["beginning"] not in BEGINNINGS or not isinstance(values["config"], dict):
        raise ValueError("'beginning' or 'config' is none")
    return {**values, "checkpoints": tuple(steps)}


def prove(run: Any) -> RunProof:
    """Commit to a run: whoever has the proof can later verify by samples that it took place.

    Args:
        run: a `JournaledRun`; with its program where the model or the data are not stored.

    Raises:
        FailedPreconditionError: the journal or its checkpoints do not allow it; the text says why.
        ReplayError: the final state is not that of the journal.
    """
    journal = run.journal
    if journal.broken:
        raise FailedPreconditionError(
            f"{run.folder} can't be proven: {journal.problems()}. Steps 1 to {run.last_step} can "
            "still be read and gone back into"
        )
    checkpoints = run.checkpoints
    if len(checkpoints) < 2:
        raise FailedPreconditionError(
            f"{run.folder} can't be proven: it has {len(checkpoints)} of its checkpoints, and a "
            "proof is about the steps between two. Its journal can still be read and compared"
        )
    steps = _thin(list(checkpoints))
    sums = checkpoint_sums(journal)
    for step in steps:
        if file_sha256(checkpoints[step]) != sums.get(step):
            raise FailedPreconditionError(
                f"{run.folder} can't be proven: {checkpoints[step].name} is not the file that the "
                "journal tells of"
            )
    final = run.at(steps[-1] + 1)
    return RunProof(
        run=run.id,
        folder=os.fspath(run.folder),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        lines=journal.count,
        head=journal.head.hex(),
        steps=steps[-1],
        checkpoints=tuple(steps),
        weights=weights_sha256(final.parts),
        model=model_sum(run),
        data=data_sum(run),
        beginning=beginning_of(run) if steps[0] == 0 else "given",
        config=config_of(run),
    )


def _thin(steps: list[int]) -> list[int]:
    """At most so many steps as a proof may list, evenly, the first and the last among them."""
    if len(steps) <= _MOST_CHECKPOINTS:
        return steps
    indices = np.linspace(0, len(steps) - 1, _MOST_CHECKPOINTS).round().astype(int)
    return [steps[i] for i in indices]


def checkpoint_sums(journal: Any) -> dict[int, str]:
    """The SHA-256 of each checkpoint's file, by its step, as a journal has it."""
    return {
        record["n"]: record["sha256"]
        for record in journal.records_of("checkpoint")
        if type(record.get("n")) is int and isinstance(record.get("sha256"), str)
    }


def config_of(run: Any) -> dict[str, Any]:
    """What a proof says of the run beside its sums; long parts by their SHA-256."""
    header = run.header
    names = ("seed", "loop", "optimizer", "fit", "config", "callbacks", "code", "versions")
    fields = {name: header[name] for name in names if name in header}
    described = header.get("model")
    if isinstance(described, dict):
        fields["model"] = {name: described.get(name) for name in ("class", "name", "code")}
    compiled = header.get("compile")
    if isinstance(compiled, dict):  # which holds the optimizer once more
        fields["compile"] = {key: x for key, x in compiled.items() if key != "optimizer"}
    data = header.get("data")
    if isinstance(data, dict):
        fields["data"] = {key: x for key, x in data.items() if key != "structure"}
    return {name: _short(value) for name, value in fields.items()}


def _short(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    if len(text) <= _MOST_FIELD:
        return value
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text)}


# ------------------------------------------------------------------ sums


def weights_sha256(parts: Any) -> str:
    """SHA-256 of weights: the types, shapes and bits of all variables, in their order.

    Args:
        parts: a model, whose `.keras` file may be compared so with a proof; or the objects of a
            loop of one's own, by name. Variables of optimizers and generators do not count.

    >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
    >>> len(tk.runs.weights_sha256(model))
    64
    """
    roots = parts if isinstance(parts, dict) else {"model": parts}
    below = {name: part for name, part in roots.items() if hasattr(part, "__dict__")}
    variables = StateDigests(below).variables["weights"]
    return _sum_of(variable for _, variable in variables)


def _sum_of(leaves: Any) -> str:
    digest = hashlib.sha256()
    for leaf in leaves:
        array = array_of(leaf)
        digest.update(f"{array.dtype.str}{array.shape};".encode())
        digest.update(array.tobytes() if array.ndim == 0 else memoryview(array).cast("B"))
    return digest.hexdigest()


def data_sum(run: Any) -> str | None:
    """SHA-256 of the arrays that `fit` was given; `None` where it was given no arrays."""
    if run.header.get("loop") != "fit":
        return None
    try:
        parts = data_of(run)
    except FailedPreconditionError:
        return None
    leaves = [leaf for leaf in nest.flatten(list(parts)) if leaf is not None]
    if not all(hasattr(leaf, "dtype") and hasattr(leaf, "shape") for leaf in leaves):
        return None
    return _sum_of(leaves)


def model_sum(run: Any) -> str | None:
    """SHA-256 of the stored config of the model; `None` where there is none."""
    path = run.folder / MODEL_FILE
    return file_sha256(path) if path.is_file() else None
