"""`KerasFileEditor`: what is in a file of weights, compared with a model, and changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from trainkit.checkpoints.format.reader import SavedFile
from trainkit.checkpoints.format.validation import ArrayNode, GroupNode
from trainkit.checkpoints.format.writer import Entry, Group, Values, write_file
from trainkit.checkpoints.interop.keras_archive import CONFIG, LARGEST_CONFIG, opened
from trainkit.checkpoints.interop.keras_weights import layout
from trainkit.core.errors import CheckpointError, InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.printable import printable

_ENDING = ".weights.h5"
Tree = dict[str, Any]
"""Arrays by name, and further trees."""


class KerasFileEditor:
    """An open file of weights; nothing is written before `save`.

    Objects are named by their path, such as `"layers/dense_2"`, or by the last part of it where
    that is there only once.

    Args:
        filepath: a `.weights.h5` file, or the `.keras` file of a whole model.

    Attributes:
        weights_dict: the arrays, nested by path; those of one object by `"0"`, `"1"` ...
        object_metadata: the attributes of groups by path.
        config, metadata: what a `.keras` file says about the model and itself, else `None`.

    Raises:
        ValueError: the name ends otherwise.
        NotFoundError: there is no such file.
        CheckpointError: the file is damaged or hostile.

    Example:
        >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2, name="head")])
        >>> model.save_weights("model.weights.h5")
        >>> editor = tk.saving.KerasFileEditor("model.weights.h5")
    """

    def __init__(self, filepath: str | os.PathLike[str]) -> None:
        self.filepath = local_path(filepath)
        self.config: dict[str, Any] | None = None
        self.metadata: dict[str, Any] | None = None
        self.object_metadata: dict[str, dict[str, str]] = {}
        if self.filepath.endswith(".keras"):
            with opened(self.filepath) as archive, archive.weights() as fd:
                self.config = archive.json(CONFIG, LARGEST_CONFIG)
                self.metadata = dict(archive.metadata)
                if fd is None:
                    raise CheckpointError(f"{self.filepath} has no weights")
                self.weights_dict = self._read(fd)
        elif self.filepath.endswith(_ENDING):
            self.weights_dict = self._read(None)
        else:
            raise InvalidArgumentError(
                f"KerasFileEditor reads .keras and {_ENDING} files, got {self.filepath!r}"
            )

    def _read(self, fd: int | None) -> Tree:
        saved = SavedFile(self.filepath, foreign=True, fd=fd)
        try:
            saved.verify()
            return self._tree(saved, saved.root)
        finally:
            saved.close()

    def _tree(self, saved: SavedFile, group: GroupNode) -> Tree:
        """What is in a group; an object's `vars` stand for it, empty groups are left out."""
        if group.attributes and group is not saved.root:
            self.object_metadata[group.path.removesuffix("/vars")] = dict(group.attributes)
        tree: Tree = {}
        for name, node in group.children.items():
            if isinstance(node, ArrayNode):
                tree[name] = saved.value(node)
                continue
            below = self._tree(saved, node)
            if name == "vars":
                tree.update(below)
            elif below:
                tree[name] = below
        return tree

    # ------------------------------------------------------------------ looking

    def summary(self) -> None:
        """Print what is in the file, as a tree."""
        print(f"Weights in {self.filepath!r}")
        for line in self._lines(self.weights_dict, "", "  "):
            print(printable(line))

    def _lines(self, tree: Tree, path: str, indent: str) -> Iterator[str]:
        for name, value in tree.items():
            where = f"{path}/{name}".lstrip("/")
            if isinstance(value, dict):
                called = self.object_metadata.get(where, {}).get("name")
                yield f"{indent}{name}" + (f" ({called!r})" if called else "")
                yield from self._lines(value, where, indent + "  ")
            else:
                yield f"{indent}{name}: shape {value.shape}, dtype {value.dtype}"

    def compare(self, reference_model: Any) -> dict[str, Any]:
        """Print how the file and a model differ.

        Args:
            reference_model: built.

        Returns:
            `status`, which is `"success"` or `"error"`, `error_count` and `match_count`: the
            numbers of objects and weights that differ, and of weights that fit.
        """
        model_shapes: Tree = {}
        for item in layout(reference_model):
            for path, variable in item.items():
                _put(model_shapes, path.replace("vars/", ""), tuple(variable.shape))
        faults = list(_faults(self.weights_dict, model_shapes, ""))
        for path, text in faults:
            print(printable(f"  {path}: {text}"))
        matches = sum(1 for _ in _matches(self.weights_dict, model_shapes))
        verdict = "do not fit" if faults else "fit"
        print(f"{self.filepath!r} and {reference_model.name!r} {verdict}: {matches} weights agree")
        return {
            "status": "error" if faults else "success",
            "error_count": len(faults),
            "match_count": matches,
        }

    # ------------------------------------------------------------------ changing

    def rename_object(self, object_name: str, new_name: str) -> None:
        """Call an object otherwise.

        Args:
            object_name: its name or path.
            new_name: the new last part of its path.

        Raises:
            ValueError: there is no such object, or several; or the new name is a path, or taken.
        """
        if "/" in new_name:
            raise InvalidArgumentError(f"rename_object: {new_name!r} is a path; give a name")
        owner, name = self._split_name(object_name)
        if new_name in owner:
            raise InvalidArgumentError(f"rename_object: there is an object {new_name!r} already")
        owner[new_name] = owner.pop(name)

    def delete_object(self, object_name: str) -> None:
        """Take an object out, with all below it.

        Args:
            object_name: its name or path.

        Raises:
            ValueError: there is no such object, or several.
        """
        owner, name = self._split_name(object_name)
        del owner[name]

    def add_object(self, object_path: str, weights: dict[str, Any]) -> None:
        """Put an object in.

        Args:
            object_path: its path; what is above it must be there.
            weights: arrays by name, `"0"`, `"1"` ...

        Raises:
            ValueError: what is above it is not there, or `weights` is no dict.
        """
        *above, name = object_path.split("/")
        tree = self.weights_dict
        for part in above:
            if not isinstance(tree.get(part), dict):
                raise InvalidArgumentError(
                    f"add_object: there is no object {'/'.join(above)!r} to put {name!r} into"
                )
            tree = tree[part]
        tree[name] = _arrays("add_object", weights)

    def delete_weight(self, object_name: str, weight_name: str) -> None:
        """Take one array of an object out.

        Args:
            object_name: name or path of the object.
            weight_name: of the array, such as `"0"`.

        Raises:
            ValueError: there is no such object or array.
        """
        owner, name = self._split_name(object_name)
        if weight_name not in owner[name]:
            raise InvalidArgumentError(
                f"delete_weight: {object_name!r} has no weight {weight_name!r}, it has "
                f"{', '.join(owner[name])}"
            )
        del owner[name][weight_name]

    def add_weights(self, object_name: str, weights: dict[str, Any]) -> None:
        """Put arrays into an object, in place of those of the same names.

        Args:
            object_name: name or path of the object.
            weights: arrays by name.

        Raises:
            ValueError: there is no such object, or `weights` is no dict.
        """
        owner, name = self._split_name(object_name)
        owner[name].update(_arrays("add_weights", weights))

    def _split_name(self, object_name: str) -> tuple[Tree, str]:
        """The tree that an object stands in, and its name there."""
        matches = [
            (owner, path.rpartition("/")[2])
            for path, owner in _objects(self.weights_dict, "")
            if object_name == path or ("/" not in object_name and path.endswith(f"/{object_name}"))
        ]
        if len(matches) != 1:
            count_text = (
                "no object" if not matches else f"{len(matches)} objects, so give the path of one:"
            )
            raise InvalidArgumentError(f"{self.filepath!r} has {count_text} {object_name!r}")
        return matches[0]

    # ------------------------------------------------------------------ writing

    def save(self, filepath: str | os.PathLike[str]) -> None:
        """Write what there is now.

        Args:
            filepath: ends in `.weights.h5`.

        Raises:
            ValueError: it ends otherwise.
        """
        path = local_path(filepath)
        if not path.endswith(_ENDING):
            raise InvalidArgumentError(f"the path must end in {_ENDING}, got {path!r}")
        write_file(path, list(self._entries(self.weights_dict, "")), {"format": "keras"})

    resave_weights = save

    def _entries(self, tree: Tree, path: str) -> Iterator[Entry]:
        own = {name: value for name, value in tree.items() if not isinstance(value, dict)}
        base = f"{path}/vars".lstrip("/")
        if own:
            name = self.object_metadata.get(path, {}).get("name")
            yield Group(base, {} if name is None else {"name": name})
        for name, value in own.items():
            yield Values(f"{base}/{name}", partial(np.asarray, value))
        for name, value in tree.items():
            if isinstance(value, dict):
                yield from self._entries(value, f"{path}/{name}".lstrip("/"))


def _arrays(caller: str, weights: Any) -> Tree:
    if not isinstance(weights, dict):
        raise InvalidArgumentError(
            f"{caller}: weights must be a dict of arrays by name, got {weights!r}"
        )
    return {str(name): np.asarray(value) for name, value in weights.items()}


def _objects(tree: Tree, path: str) -> Iterator[tuple[str, Tree]]:
    """The path of each object, and the tree that it stands in."""
    for name, value in tree.items():
        if isinstance(value, dict):
            where = f"{path}/{name}".lstrip("/")
            yield where, tree
            yield from _objects(value, where)


def _put(tree: Tree, path: str, value: Any) -> None:
    *above, name = path.split("/")
    for part in above:
        tree = tree.setdefault(part, {})
    tree[name] = value


def _faults(file: Tree, model: Tree, path: str) -> Iterator[tuple[str, str]]:
    """What is only on one side, at the highest place, and arrays of another shape."""
    for name in [*model, *(name for name in file if name not in model)]:
        where = f"{path}/{name}".lstrip("/")
        stored, expected = file.get(name), model.get(name)
        if stored is None:
            yield where, f"the model has it, the file has not{_list(expected)}"
        elif expected is None:
            yield where, f"the file has it, the model has not{_list(stored)}"
        elif isinstance(stored, dict) and isinstance(expected, dict):
            yield from _faults(stored, expected, where)
        elif isinstance(stored, dict) or isinstance(expected, dict) or stored.shape != expected:
            shape = "an object" if isinstance(stored, dict) else stored.shape
            yield where, f"the file has {shape}, the model {expected}"


def _list(side: Any) -> str:
    return f": {', '.join(side)}" if isinstance(side, dict) else ""


def _matches(file: Tree, model: Tree) -> Iterator[str]:
    for name, expected in model.items():
        stored = file.get(name)
        if isinstance(stored, dict) and isinstance(expected, dict):
            yield from _matches(stored, expected)
        elif not isinstance(stored, dict | None) and stored.shape == expected:
            yield name
