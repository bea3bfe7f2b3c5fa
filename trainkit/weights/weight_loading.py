"""`load_into`: the weights of a file, whoever wrote it, into a model."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainkit.checkpoints.restore.object_graph import weight_paths
from trainkit.checkpoints.weights import load_weights
from trainkit.core.errors import CheckpointMismatchError, InvalidArgumentError, NotBuiltError
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable
from trainkit.weights import weight_files
from trainkit.weights.flax_recipes import flax_form
from trainkit.weights.layer_recipes import RecipeBook
from trainkit.weights.load_report import LoadReport, Transfer
from trainkit.weights.source_modules import modules_of
from trainkit.weights.weight_mapping import WeightMapping, expected
from trainkit.weights.weight_tables import WeightTable

_MOST_SHOWN = 30
_OWN_FORMATS = ("keras weights", "checkpoint")


def load_into(
    model: Trackable,
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    names: Mapping[str, str | None] | None = None,
    partial: bool = False,
    flattened: Mapping[str, Sequence[int] | None] | None = None,
    part: str | None = None,
    verify: bool = True,
) -> LoadReport:
    """Take the weights of a file into a model, by kind of layer, shape and order.

    Modules of PyTorch are found for layers, and their arrays brought into the layout that layers
    have: `Linear` and convolutions transposed, gates of recurrent layers reordered, the joined
    projections of attention taken apart, the rows behind a `Flatten` of images put from channels
    first to channels last. Modules of Flax are known too. A file of `tk.weights.save` or
    `model.save_weights` is taken by its own names. Nothing changes unless all fits.

    Args:
        model: a model or layer that is built.
        source: a file or folder, as for `tk.weights.open`; a table that it gave; or arrays by name,
            in the order of modules.
        names: what the rules can't tell: names of modules or arrays in the file, and for each the
            path or name of the layer or variable, or None to leave it out. A `*` stands for the
            same text on both sides: `{"encoder.layers.*.linear1": "blocks/*/up"}`.
        partial: whether the model and the file may have weights that the other has not, such as
            another head. What fits several ways is refused all the same.
        flattened: sizes (height, width, channels) of images that a `Dense` takes flattened, by its
            path or name, or None for one whose rows stay in order. Functional and sequential models
            show it themselves; for others `{}` says that there are none.
        part: the key of the weights in a training checkpoint, as for `open`.
        verify: whether checksums are compared first, as for `open`.

    Returns:
        What went where. `print` shows it.

    Raises:
        NotBuiltError: the model has no weights yet.
        NotFoundError: there is no such file.
        CheckpointMismatchError: a weight of the model is missing, or one of the file is not used.
        InvalidArgumentError: it is not clear what belongs to what, and the text names the
            candidates; or an argument does not fit.
        CheckpointError: the file is damaged or hostile.
        UnimplementedError: it is of a format that is not supported.

    Example:
        >>> linear = {"fc.weight": np.ones((2, 3), "float32"), "fc.bias": np.zeros(2, "float32")}
        >>> model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
        >>> print(tk.weights.load_into(model, linear))
        the dict of arrays: 2 variables set
          fc.weight -> layers/1/kernel (3, 2): transposed; the only one of its shapes
          fc.bias   -> layers/1/bias (2,): as it is; the only one of its shapes
        >>> model(tk.ones((1, 3))).numpy()
        array([[3., 3.]], dtype=float32)
    """
    check_names(names, "load_into")
    paths = dict(weight_paths(model))
    if not paths:
        raise NotBuiltError(
            f"weights.load_into: {getattr(model, 'name', type(model).__name__)!r} has no weights "
            "yet. Call it on a batch, or model.build(input_shape), first"
        )
    if isinstance(source, Mapping):
        if part is not None:
            raise InvalidArgumentError("weights.load_into: part= is for files of torch.save")
        return _WeightTransfer(model, paths, source, names, partial, flattened).run()
    with weight_files.open(source, part=part, verify=verify) as table:
        if table.format not in _OWN_FORMATS:
            return _WeightTransfer(model, paths, table, names, partial, flattened).run()
        file = table.name
    passed = {"names": names is not None, "flattened": flattened is not None, "partial": partial}
    for argument in [name for name, is_given in passed.items() if is_given]:
        raise InvalidArgumentError(
            f"weights.load_into: {argument}= is for weights of PyTorch, and {file} has the layout "
            "of Keras or of a checkpoint, which says itself what is what; "
            "model.load_weights(path, skip_mismatch=True) takes a part of it"
        )
    load_weights(model, file)
    report = LoadReport(file)
    report.transfers = [
        Transfer(path, (path,), tuple(variable.shape), "as it is", "the file's own layout")
        for path, variable in paths.items()
    ]
    return report


class _WeightTransfer:
    def __init__(
        self,
        model: Trackable,
        paths: Mapping[str, Variable],
        source: Mapping[str, Any],
        names: Mapping[str, str | None] | None,
        partial: bool,
        flattened: Mapping[str, Sequence[int] | None] | None,
    ) -> None:
        self._paths, self._source, self._partial = paths, source, partial
        self._report = LoadReport(
            source.name if isinstance(source, WeightTable) else "the dict of arrays"
        )
        self._shapes = (
            {name: shape for name, (shape, _) in source.shapes().items()}
            if isinstance(source, WeightTable)
            else {name: tuple(np.shape(array)) for name, array in source.items()}
        )
        self._digests: dict[str, bytes] = {}
        modules = modules_of(self._shapes).values()
        is_joined = any(
            param in module.names for module in modules for param in _JOINED_ATTENTION
        )  # fmt: skip
        is_flax = isinstance(source, WeightTable) and source.format == "flax"
        if is_flax and flattened is not None:
            raise InvalidArgumentError(
                f"weights.load_into: flattened= is for weights of PyTorch, and {source.name} is of "  # type: ignore[attr-defined]
                "Flax, whose images are flattened with their channels last, as here"
            )
        # rows of a `Dense` stand as here in files of our own and of Flax
        is_asked = not is_flax and not set(self._shapes) >= set(paths)
        book = RecipeBook(
            model,
            flattened if is_asked or flattened is not None else {},
            not is_joined,
            flax_form if is_flax else None,
        )
        is_ordered = source.is_ordered if isinstance(source, WeightTable) else True
        self._mapping = WeightMapping(
            book, paths, self._shapes, is_ordered, names or {}, self._report, self._are_equal
        )
        self._path_of = {id(variable): path for path, variable in paths.items()}
        self._values: dict[int, tuple[Variable, Any, str]] = {}

    def run(self) -> LoadReport:
        for path, name in self._mapping.direct.items():
            array = np.asarray(self._source[name])
            reason = "the same name" if path == name else "by the table of names"
            self._put(self._paths[path], array, (name,), "as it is", reason)
        for _, form, module, reason in self._mapping.matches:
            read: dict[str, Any] = {}
            for slot in form:
                names = tuple(module.names[param] for param in slot.params)
                for name in names:
                    if name not in read:
                        read[name] = np.asarray(self._source[name])
                array = slot.forward([read[name] for name in names])
                self._put(slot.variable, array, names, slot.text, reason)
        order = {path: number for number, path in enumerate(self._paths)}
        self._report.transfers.sort(key=lambda transfer: order[transfer.path])
        self._report_unmatched()
        if self._report.problems or not self._partial:
            self._settle()
        self._store()
        return self._report

    def _put(
        self, variable: Variable, array: Any, names: tuple[str, ...], text: str, reason: str
    ) -> None:
        path = self._path_of.get(id(variable))
        if path is None:  # a variable that the model does not count among its weights
            return
        stored, own = _sort(array.dtype), _sort(variable.dtype.dtype)
        if stored != own:
            self._report.problems.append(
                f"{', '.join(names)} holds {array.dtype.name}, and {path} {variable.dtype.name}"
            )
            return
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.array(array, variable.dtype.dtype, order="C", copy=True)
        if _overflows(array, value):
            self._report.problems.append(
                f"{', '.join(names)} has values too large for {path}, which is {value.dtype.name}"
            )
            return
        earlier = self._values.get(id(variable))
        if earlier is not None and earlier[1].tobytes() != value.tobytes():
            self._report.problems.append(
                f"{path} is shared by layers, and {earlier[2]} and {', '.join(names)} differ"
            )
            return
        if earlier is None:
            self._values[id(variable)] = (variable, value, ", ".join(names))
            shape = tuple(variable.shape)
            self._report.transfers.append(Transfer(path, names, shape, text, reason))

    def _report_unmatched(self) -> None:
        """Report variables that got no array, and arrays that no variable got.

        An array that equals one in use is only ignored: files hold tied weights under each name.
        """
        report = self._report
        set_paths = {transfer.path for transfer in report.transfers}
        report.missing = {
            path: tuple(variable.shape)
            for path, variable in self._paths.items()
            if path not in set_paths
        }
        used: dict[tuple[int, ...], list[str]] = {}
        for transfer in report.transfers:
            for name in transfer.sources:
                used.setdefault(self._shapes[name], []).append(name)
        for name in self._mapping.left:
            twin = self._twin(name, used.get(self._shapes[name], ()))
            if twin is not None:
                report.ignored.append(f"{name}, which is the same as {twin}")
            else:
                report.unused[name] = self._shapes[name]

    def _are_equal(self, names: Sequence[str]) -> bool:
        """Whether arrays of one shape have the same values."""
        return len({self._digest(name) for name in names}) == 1

    def _digest(self, name: str) -> bytes:
        """A checksum of the values of an array, which is read once for all comparisons."""
        if name not in self._digests:
            values: Any = np.ascontiguousarray(self._source[name]).reshape(-1).view(np.uint8)
            self._digests[name] = hashlib.sha256(values).digest()
        return self._digests[name]

    def _twin(self, name: str, others: Sequence[str]) -> str | None:
        """An array that is used and has the same values, as tied weights have."""
        if not others:
            return None
        return next((x for x in dict.fromkeys(others) if self._are_equal([name, x])), None)

    def _settle(self) -> None:
        """Raise if anything is left over, or does not fit."""
        report = self._report
        if not (report.problems or report.missing or report.unused):
            return
        lines = [*report.problems]
        if not self._partial:
            for recipe in self._mapping.left_recipes:
                lines.append(f"missing: {recipe.path} ({recipe.kind}), {expected(recipe)}")
            ids = {id(v) for recipe in self._mapping.left_recipes for v in recipe.variables()}
            lines += [
                f"missing: {path} {shape}"
                for path, shape in report.missing.items()
                if id(self._paths[path]) not in ids
            ]
            lines += [f"unused: {name} {shape}" for name, shape in report.unused.items()]
        more = len(lines) - _MOST_SHOWN
        text = "\n  ".join(lines[:_MOST_SHOWN])
        error = CheckpointMismatchError(
            f"{report.name} does not fit the model, which is unchanged ({len(report.missing)} "
            f"weights missing, {len(report.unused)} arrays unused):\n  {text}"
            + (f"\n  and {more} more" if more > 0 else "")
            + "\nSay by names= what belongs to what, or take what fits with partial=True"
        )
        error.report = report
        raise error

    def _store(self) -> None:
        replaced: list[tuple[Variable, Any]] = []
        try:
            for variable, value, _ in self._values.values():
                replaced.append((variable, variable.value()))
                variable._store(value)
        except BaseException:
            for variable, before in reversed(replaced):
                variable._store(before._array)
            raise


def check_names(names: Any, what: str) -> None:
    """Check that a table of names is one.

    Raises:
        InvalidArgumentError: it is none.
    """
    is_table = names is None or isinstance(names, Mapping)
    if not is_table or not all(
        isinstance(key, str) and (target is None or isinstance(target, str))
        for key, target in (names or {}).items()
    ):
        raise InvalidArgumentError(
            f"weights.{what}: names= is a dict of texts, modules of the file and layers of the "
            f"model, got {names!r}"
        )


_JOINED_ATTENTION = ("in_proj_weight", "q_proj_weight")


def _overflows(array: Any, value: Any) -> bool:
    """Whether a cast to a narrower type has lost values."""
    if array.dtype == value.dtype or not array.size:
        return False
    if value.dtype.kind in "iu":
        return bool((value != array).any())
    # As many bytes hold as large numbers, but for float16, whose range is less than bfloat16's.
    if value.dtype.itemsize >= array.dtype.itemsize and value.dtype.name != "float16":
        return False
    return bool((np.isinf(value) & ~np.isinf(array)).any())


def _sort(dtype: np.dtype[Any]) -> str:
    """The kind of numbers: those of one kind are cast into one another."""
    if dtype.kind in "iu":
        return "integer"
    is_float = dtype.kind == "f" or dtype.name == "bfloat16" or dtype.name.startswith("float8")
    return "float" if is_float else dtype.name
