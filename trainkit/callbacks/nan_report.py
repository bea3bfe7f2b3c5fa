"""A step that gave NaN, done again to find out where, and kept in a folder that reproduces it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.core import devices, nest
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.readable_files import open_regular, read_text
from trainkit.core.tensor import is_tensor, wrap
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable
from trainkit.profiler.numerics import NumericsError, checking_numerics

_SCRIPT = '''"""Does the step again that gave NaN or infinity; see report.txt."""

import pathlib

import trainkit as tk

FOLDER = pathlib.Path(__file__).parent
{model}
tk.callbacks.TerminateOnNaN.reproduce(FOLDER, model)
'''
_LOADED = 'model = tk.models.load_model(FOLDER / "model.keras")'
_MADE_BY_HAND = (
    "# The model could not be saved whole ({reason}).\n# Make and compile it here:\nmodel = ..."
)


class Snapshot:
    """The values of all variables of a model and of its surroundings; holding them copies none.

    Args:
        *roots: what is looked through for variables.
        others: further variables, such as the slots of an optimizer, which stand in no tree.
    """

    def __init__(self, *roots: Trackable, others: Iterable[Variable] = ()) -> None:
        parts = {id(part): part for root in roots for _, part in traverse(root)}
        parts |= {id(variable): variable for variable in others}
        variables = [part for part in parts.values() if isinstance(part, Variable)]
        self.values = [(variable, variable.value()) for variable in variables]

    def again(self) -> Snapshot:
        """The values of the same variables now."""
        snapshot = Snapshot.__new__(Snapshot)
        snapshot.values = [(variable, variable.value()) for variable, _ in self.values]
        return snapshot

    def put_back(self) -> None:
        """Give the variables these values."""
        for variable, value in self.values:
            variable.assign(value)


def not_finite(variables: Any) -> list[str]:
    """The paths of variables that hold NaN or infinity."""
    bad = []
    for variable in variables:
        array = variable.value()._array
        if array.dtype.kind not in "fcV":
            continue
        values = array.astype(np.float32) if array.dtype.kind == "V" else array
        with np.errstate(all="ignore"):
            total = abs(values.sum())  # NaN and infinity go through a sum
        if not bool(total < np.inf) and not bool(devices.XP_OF[type(array)].isfinite(values).all()):
            bad.append(variable.path)
    return bad


class Replay:
    """Steps done again from a snapshot, operation by operation, up to the one that fails.

    Attributes:
        before: the state before the step at fault.
        batch: its batch.
        error: what explains it, `None` if no operation gave NaN or infinity.
        weights: paths of weights that are not finite after the step.
    """

    def __init__(self, model: Any, start: Snapshot, batches: list[Any]) -> None:
        self.before, self.batch = start, batches[-1] if batches else None
        self.error: NumericsError | None = None
        self.weights: list[str] = []
        start.put_back()
        for batch in batches:
            self.before, self.batch = start.again(), batch
            try:
                with checking_numerics():
                    model.train_step(batch)
            except NumericsError as error:
                self.error = error
                break
            self.weights = not_finite(model.trainable_variables)
            if self.weights:
                break
        self.before.put_back()

    def report(self, step: int) -> str:
        """What was found, in words.

        Args:
            step: of the optimizer, before the step at fault.
        """
        head = f"The step after {step} steps gave NaN or infinity."
        if self.error is not None:
            return f"{head}\n{self.error.args[0]}"
        if self.weights:
            return (
                f"{head}\nNo operation and no gradient did; the optimizer's update made these "
                f"weights so: {', '.join(self.weights)}. The learning rate may be too large."
            )
        return (
            f"{head}\nDone again operation by operation it gives none: look for state that is no "
            "variable, or for results that depend on what else runs"
        )


def write_bundle(folder: Any, model: Any, generator: Any, batch: Any, text: str) -> str:
    """Write all that a step depends on, as it was before the step.

    Args:
        folder: made anew; if there is one of this name, a number is put behind it.
        model: in that state.
        generator: the random numbers of operations without a seed.
        batch: what the step was given.
        text: the report.

    Returns:
        The path of the folder.
    """
    path = _new_folder(pathlib.Path(local_path(folder)))
    (path / "report.txt").write_text(text + "\n", encoding="utf-8")
    Checkpoint(model=model, random=generator).write(path / "state")
    tensors = [x for x in nest.flatten(batch) if x is not None]
    leaves: list[Any] = [np.asarray(x.numpy() if is_tensor(x) else x) for x in tensors]
    names = [leaf.dtype.name for leaf in leaves]
    raw = [leaf.view(np.uint16) if leaf.dtype.kind == "V" else leaf for leaf in leaves]
    named: dict[str, Any] = {f"leaf_{i}": leaf for i, leaf in enumerate(raw)}
    np.savez(path / "batch.npz", **named)
    described = {"structure": _describe(batch, iter(range(len(leaves)))), "dtypes": names}
    (path / "batch.json").write_text(json.dumps(described), encoding="utf-8")
    model_code = _LOADED
    try:
        model.save(path / "model.keras")
    except Exception as error:  # layers without a config
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        model_code = _MADE_BY_HAND.format(reason=reason)
    (path / "reproduce.py").write_text(_SCRIPT.format(model=model_code), encoding="utf-8")
    return str(path)


def _new_folder(path: pathlib.Path) -> pathlib.Path:
    for number in range(1, 1000):
        folder = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"TerminateOnNaN: there are a thousand folders called {path} already")


def _describe(value: Any, numbers: Any) -> Any:
    """A nest as JSON, with numbers in place of its leaves."""
    if isinstance(value, dict):
        return {"dict": {key: _describe(value[key], numbers) for key in sorted(value)}}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_describe(item, numbers) for item in value]}
    return None if value is None else next(numbers)


def _nest(described: Any, leaves: list[Any]) -> Any:
    if described is None:
        return None
    if isinstance(described, int):
        return leaves[described]
    ((kind, content),) = described.items()
    if kind == "dict":
        return {key: _nest(item, leaves) for key, item in content.items()}
    items = [_nest(item, leaves) for item in content]
    return tuple(items) if kind == "tuple" else items


def read_bundle(folder: Any, model: Any, generator: Any) -> Any:
    """Bring a model into the state of a bundle; the batch."""
    path = pathlib.Path(local_path(folder))
    described = json.loads(read_text(path / "batch.json"))
    leaves = []
    with open_regular(path / "batch.npz") as stored, np.load(stored, allow_pickle=False) as file:
        for i, name in enumerate(described["dtypes"]):
            leaf = file[f"leaf_{i}"]
            leaf = leaf if leaf.dtype.name == name else leaf.view(np.dtype(name))
            leaves.append(wrap(devices.to_device(leaf, devices.current())))
    Checkpoint(model=model, random=generator).read(path / "state")
    return _nest(described["structure"], leaves)
