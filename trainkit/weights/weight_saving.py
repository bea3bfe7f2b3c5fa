"""`save`: arrays, or the weights of a model, in the formats of others."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.checkpoints.format.positioned_io import write_at
from trainkit.checkpoints.interop.safetensors import CHECKSUM, value_bytes, write_arrays, write_npz
from trainkit.checkpoints.restore.object_graph import weight_paths
from trainkit.checkpoints.weights import save_weights
from trainkit.core.errors import InvalidArgumentError, NotBuiltError, UnimplementedError
from trainkit.core.files.local_paths import local_path
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable
from trainkit.weights.layer_recipes import Recipe, RecipeBook, joined_parts
from trainkit.weights.weight_mapping import filled_pattern, fits_pattern

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB|KIB|MIB|GIB|TIB)")
_UNITS = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}  # fmt: skip
_LAYOUTS = (None, "torch")
_KERAS = (".h5", ".hdf5")


def save(
    source: Trackable | Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    names: Mapping[str, str] | None = None,
    max_shard_size: int | str | None = None,
    metadata: Mapping[str, str] | None = None,
    flattened: Mapping[str, Sequence[int] | None] | None = None,
) -> None:
    """Write arrays, or the weights of a model, as `.safetensors`, `.npz` or `.weights.h5`.

    A safetensors file gets the SHA-256 of its values, which `open` compares. Files appear whole or
    not at all; those of an earlier save in several files are replaced once all new ones are on the
    disk.

    Args:
        source: a model or layer that is built; or arrays, tensors or variables by name.
        path: its ending says the format.
        layout: `"torch"` for the names and layouts that PyTorch's modules have, so that
            `module.load_state_dict(safetensors.torch.load_file(path))` takes them; by default the
            variables as they are, by their paths.
        names: with `layout="torch"`, names of modules and for each the path or name of the layer,
            as for `load_into`: `{"features.0": "layers/0"}`. Others are called by their paths.
        max_shard_size: bytes of values in one file, or a text such as `"5GB"`: what is more goes
            into several `NAME-00001-of-00002.safetensors` and `NAME.safetensors.index.json`, which
            says what is where. A larger array has a file for itself.
        metadata: texts for the header of a safetensors file.
        flattened: as for `load_into`, with `layout="torch"`.

    Raises:
        NotBuiltError: the model has no weights yet.
        InvalidArgumentError: the ending is none of these, or does not go with an argument.
        UnimplementedError: a dtype that the format does not have, or a layer that PyTorch does not.
        OSError: a file can't be written; older ones are untouched.

    Example:
        >>> model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
        >>> tk.weights.save(model, "w.safetensors", layout="torch", names={"fc": "layers/1"})
        >>> with tk.weights.open("w.safetensors") as table:
        ...     table.shapes()
        {'fc.weight': ((2, 3), 'float32'), 'fc.bias': ((2,), 'float32')}
    """
    name = local_path(path)
    _check_arguments(name, source, layout, names, max_shard_size, metadata, flattened)
    _check_texts(names, metadata)
    if name.endswith(_KERAS) and isinstance(source, Trackable):
        save_weights(source, name)
        return
    arrays = _arrays_of(source, layout, names or {}, flattened)
    if name.endswith(".npz"):
        write_npz(name, arrays)
        return
    # those of wide elements first, so that each begins at a multiple of its width
    ordered = dict(sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize))
    notes = {"format": "pt" if layout == "torch" else "trainkit", **(metadata or {})}
    limit = None if max_shard_size is None else _bytes(max_shard_size)
    shards = _shards(ordered, limit)
    if len(shards) == 1:
        _write_one(name, ordered, notes)
    else:
        _write_shards(name, shards, notes)


def _check_arguments(
    name: str, source: Any, layout: Any, names: Any, max_shard_size: Any, metadata: Any, flat: Any
) -> None:
    if layout not in _LAYOUTS:
        raise InvalidArgumentError(f"weights.save: layout must be None or 'torch', got {layout!r}")
    if not isinstance(source, (Trackable, Mapping)):
        raise InvalidArgumentError(
            f"weights.save: source must be a model, a layer or a dict of arrays, got {source!r}"
        )
    is_model = isinstance(source, Trackable) and not isinstance(source, Mapping)
    if layout is not None and not is_model:
        raise InvalidArgumentError("weights.save: layout='torch' is for models and layers")
    if layout is None and (names is not None or flat is not None):
        raise InvalidArgumentError("weights.save: names= and flattened= go with layout='torch'")
    if name.endswith(".safetensors"):
        return
    if not name.endswith((".npz", *_KERAS)) or (name.endswith(_KERAS) and not is_model):
        endings = ".safetensors, .npz" + (" or .weights.h5" if is_model else "")
        advice = "; write a whole model with model.save" if name.endswith(".keras") else ""
        raise InvalidArgumentError(
            f"weights.save: {name!r} must end in {endings}{advice}. Files of torch.save are read "
            "only: PyTorch reads .safetensors"
        )
    if max_shard_size is not None or metadata is not None:
        raise InvalidArgumentError(
            f"weights.save: max_shard_size and metadata are for .safetensors, got {name!r}"
        )
    if name.endswith(_KERAS) and layout is not None:
        raise InvalidArgumentError(
            "weights.save: .weights.h5 has Keras's layout; layout='torch' goes with .safetensors "
            "and .npz"
        )


def _check_texts(names: Any, metadata: Any) -> None:
    for argument, table in (("names", names), ("metadata", metadata)):
        pairs = table.items() if isinstance(table, Mapping) else ()
        is_table = table is None or isinstance(table, Mapping)
        if not is_table or not all(type(text) is str for pair in pairs for text in pair):
            raise InvalidArgumentError(
                f"weights.save: {argument}= is a dict of texts, got {table!r}"
            )
    if metadata is not None and CHECKSUM in metadata:
        raise InvalidArgumentError(
            f"weights.save: metadata has {CHECKSUM!r}, which the file gets from its values"
        )


def _bytes(size: int | str) -> int:
    """A number of bytes out of an int or a text such as `5GB`."""
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip().upper())
        count = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    else:
        count = size if type(size) is int else 0
    if count < 1:
        raise InvalidArgumentError(
            f"weights.save: max_shard_size must be a number of bytes or a text such as '5GB', got "
            f"{size!r}"
        )
    return count


# ---------------------------------------------------------------------- arrays


def _arrays_of(
    source: Any, layout: str | None, names: Mapping[str, str], flattened: Any
) -> dict[str, Any]:
    if isinstance(source, Mapping):
        arrays = {}
        for key, value in source.items():
            if type(key) is not str or key == "__metadata__":
                raise InvalidArgumentError(f"weights.save: {key!r} is no name of an array")
            arrays[key] = _host_array(value)
            if arrays[key].dtype.kind in "OUSM":
                raise InvalidArgumentError(
                    f"weights.save: {key!r} is no array of numbers, got {type(value).__name__}"
                )
        return arrays
    paths = weight_paths(source)
    if not paths:
        raise NotBuiltError(
            f"weights.save: {getattr(source, 'name', type(source).__name__)!r} has no weights yet. "
            "Call it on a batch, or model.build(input_shape), first"
        )
    if layout is None:
        return {path: variable._host_view() for path, variable in paths}
    return _torch_arrays(source, dict(paths), names, flattened)


def _host_array(value: Any) -> Any:
    view = getattr(value, "_host_view", None) or getattr(value, "numpy", None)
    return np.asarray(value if view is None else view())


def _torch_arrays(
    model: Trackable, paths: Mapping[str, Variable], names: Mapping[str, str], flattened: Any
) -> dict[str, Any]:
    """The arrays of PyTorch's modules for the layers of a model."""
    book = RecipeBook(model, flattened)
    covered = {id(v) for recipe in book.recipes for v in recipe.variables()}
    missing = [path for path, variable in paths.items() if id(variable) not in covered]
    if missing:
        raise UnimplementedError(
            f"weights.save: PyTorch has no module for the layers of {', '.join(missing[:8])}; save "
            "without layout='torch', or its parts one by one"
        )
    modules = _module_names(book.recipes, names)
    arrays: dict[str, Any] = {}
    for recipe, module in zip(book.recipes, modules, strict=True):
        parts: dict[str, list[Any]] = {}
        for slot in recipe.forms[0]:
            array = slot.variable._host_view()
            for param, value in zip(slot.params, slot.backward(array), strict=True):
                parts.setdefault(param, []).append(value)
        for param, values in parts.items():
            _add(arrays, module, f"{param}{recipe.suffix}", joined_parts(values))
        for param, value in recipe.extras.items():
            _add(arrays, module, param, value)
    return arrays


def _add(arrays: dict[str, Any], module: str, param: str, value: Any) -> None:
    name = f"{module}.{param}" if module else param
    if name in arrays:
        raise InvalidArgumentError(f"weights.save: two layers have the name {name!r}")
    arrays[name] = np.ascontiguousarray(value).reshape(np.shape(value))


def _module_names(recipes: Sequence[Recipe], names: Mapping[str, str]) -> list[str]:
    unused = set(names)
    result = []
    for recipe in recipes:
        path = recipe.module_path or recipe.path
        module = path.replace("/", ".")
        for own, target in names.items():
            match = next((x for x in (path, recipe.layer.name) if fits_pattern(target, x)), None)
            if match is not None:
                module = filled_pattern(target, own, match, ".")
                unused.discard(own)
                break
        result.append(module)
    for own in sorted(unused):
        raise InvalidArgumentError(
            f"weights.save: names= says {own!r}: {names[own]!r}, and there is no such layer; there "
            f"are {', '.join(recipe.path for recipe in recipes[:12])}"
        )
    return result


# ---------------------------------------------------------------------- files


def _shards(arrays: Mapping[str, Any], limit: int | None) -> list[dict[str, Any]]:
    shards: list[dict[str, Any]] = [{}]
    size = 0
    for name, array in arrays.items():
        if limit is not None and shards[-1] and size + array.nbytes > limit:
            shards.append({})
            size = 0
        shards[-1][name] = array
        size += array.nbytes
    return shards


def _digest(arrays: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays.values():
        digest.update(value_bytes(array))
    return digest.hexdigest()


def _write_one(name: str, arrays: Mapping[str, Any], notes: Mapping[str, str]) -> None:
    with AtomicFile(name) as target:
        write_arrays(target.fd, arrays, {**notes, CHECKSUM: _digest(arrays)})
        target.commit()


def _write_shards(name: str, shards: Sequence[Mapping[str, Any]], notes: Mapping[str, str]) -> None:
    stem, folder = os.path.basename(name).removesuffix(".safetensors"), os.path.dirname(name)
    count = len(shards)
    weight_map: dict[str, str] = {}
    checksums: dict[str, str] = {}
    with ExitStack() as stack:
        files = []
        for number, arrays in enumerate(shards, 1):
            base = f"{stem}-{number:05}-of-{count:05}.safetensors"
            checksums[base] = _digest(arrays)
            weight_map |= dict.fromkeys(arrays, base)
            file = stack.enter_context(AtomicFile(os.path.join(folder, base)))
            write_arrays(file.fd, arrays, {**notes, CHECKSUM: checksums[base]})
            files.append(file)
        total = sum(array.nbytes for arrays in shards for array in arrays.values())
        index = {"metadata": {"total_size": total, CHECKSUM: checksums}, "weight_map": weight_map}
        last = stack.enter_context(AtomicFile(f"{name}.index.json"))
        write_at(last.fd, json.dumps(index, indent=2).encode(), 0)
        for file in [*files, last]:
            file.commit()
    with suppress(FileNotFoundError):  # or a reader of the folder would take the older one
        os.unlink(name)
