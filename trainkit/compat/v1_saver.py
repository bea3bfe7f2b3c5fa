"""Version 1's `Saver`: the variables of a graph in checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.compat.v1_graphs import global_variables
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.files.local_paths import local_path
from trainkit.core.variable import Variable


class Saver:
    """Writes variables to checkpoints by their names, and reads them back.

    A file is a checkpoint of `tk.train.Checkpoint`, so `tk.train.latest_checkpoint` finds
    those with a number, and `tk.train.list_variables` shows what is in one.

    Args:
        var_list: variables, or a dict from names to variables; by default all of the graph that is
            being built.
        max_to_keep: how many of the last files stay; 0 or `None` keep all.

    Raises:
        ValueError: there are no variables, or two of one name.

    Example:
        >>> v1 = tk.compat.v1
        >>> with v1.Graph().as_default():
        ...     w = tk.Variable(1.0, name="w")
        ...     saver = v1.train.Saver()
        ...     with v1.Session() as session:
        ...         path = saver.save(session, "run/model", global_step=3)
        ...         w.load(5.0, session)
        ...         saver.restore(session, path)
        ...         print(session.run(w))
        1.0
    """

    def __init__(self, var_list: Any = None, max_to_keep: int | None = 5) -> None:
        self._variables = _by_name(global_variables() if var_list is None else var_list)
        self._checkpoint = Checkpoint(variables=self._variables)
        self._max_to_keep = max_to_keep
        self._last_paths: list[str] = []

    @property
    def last_checkpoints(self) -> list[str]:
        """The paths of the files that stay, the oldest first."""
        return list(self._last_paths)

    def save(self, sess: Any, save_path: str | os.PathLike[str], global_step: Any = None) -> str:
        """Write the values that the variables have now.

        Args:
            sess: there is one value for all sessions, so it is not asked.
            save_path: of the file.
            global_step: a number, or variable of one, that is put behind the path.

        Returns:
            The path of the file.
        """
        path = local_path(save_path)
        if global_step is not None:
            step = global_step.numpy() if isinstance(global_step, Variable) else global_step
            path = f"{path}-{int(step)}"
        with eagerly():
            self._checkpoint.write(path)
        self._last_paths = [*(p for p in self._last_paths if p != path), path]
        while self._max_to_keep and len(self._last_paths) > self._max_to_keep:
            oldest = self._last_paths.pop(0)
            if os.path.exists(oldest):
                os.remove(oldest)
        return path

    def restore(self, sess: Any, save_path: str | os.PathLike[str]) -> None:
        """Give the variables the values of a file.

        Args:
            sess: there is one value for all sessions, so it is not asked.
            save_path: what `save` gave.

        Raises:
            CheckpointError: there is no such file, or it is damaged.
            AssertionError: a variable is not in the file.
        """
        with eagerly():
            status = self._checkpoint.read(save_path)
            status.expect_partial()  # what the file has beside the variables may stay there
            status.assert_existing_objects_matched()


def _by_name(variables: Mapping[str, Variable] | Iterable[Variable]) -> dict[str, Variable]:
    """Variables by their names.

    Raises:
        ValueError: there are none, or two of one name.
    """
    if isinstance(variables, Mapping):
        named = dict(variables)
    else:
        named = {}
        for variable in variables:
            name = variable.name.removesuffix(":0")
            if named.setdefault(name, variable) is not variable:
                raise ValueError(
                    f"Saver: two variables are called {name!r}; name them, or give a dict from "
                    "names to variables"
                )
    if not named:
        raise ValueError("Saver: there are no variables to save")
    return named
