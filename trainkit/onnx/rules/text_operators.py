"""Text: `StringConcat`, `StringSplit` and `StringNormalizer`, each on the bytes of UTF-8."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np

from trainkit.core.dtypes import int64
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.onnx.imported_values import dtype_of, rank, tensor
from trainkit.onnx.operator_rules import NodeCall, check_count, onnx_rule
from trainkit.ops.core.dynamic_shapes import needs_values

_CASES = ("NONE", "LOWER", "UPPER")


def _text(x: Any) -> Tensor:
    if dtype_of(x) != "string":
        raise InvalidArgumentError(f"an input is of {dtype_of(x)}, and has to be text")
    return tensor(x)


def _objects(items: list[bytes], shape: tuple[int, ...]) -> Tensor:
    array = np.empty(len(items), object)
    array[:] = items
    return string_results(array.reshape(shape))


# ---------------------------------------------------------------------- one behind the other


@onnx_rule("StringConcat")
def _string_concat(call: NodeCall, a: Any, b: Any) -> Any:
    return _join(_text(a), _text(b))


def _join_spec(bound: dict[str, Any]) -> Spec:
    shapes = [tuple(bound[name].shape)[::-1] for name in ("a", "b")]
    pairs = zip_longest(*shapes, fillvalue=1)
    sizes = [n if m == 1 or m == n else m if n == 1 else None for n, m in pairs]
    return Spec(tuple(sizes[::-1]), "string")


@needs_values("a", "b", gives=_join_spec)
def _join(a: Any, b: Any) -> Tensor:
    first, second = (np.asarray(x.numpy(), object) for x in (a, b))
    shape = check_count(np.broadcast_shapes(first.shape, second.shape))
    pairs = zip(
        np.broadcast_to(first, shape).ravel(), np.broadcast_to(second, shape).ravel(), strict=True
    )
    return _objects([bytes(x) + bytes(y) for x, y in pairs], tuple(shape))


# ---------------------------------------------------------------------- parts of text


@onnx_rule("StringSplit")
def _string_split(call: NodeCall, x: Any) -> tuple[Tensor, ...]:
    delimiter, limit = call.text("delimiter", ""), call.int("maxsplit", -1)
    return tuple(_split(_text(x), delimiter or None, limit))


def _split_specs(bound: dict[str, Any]) -> list[Spec]:
    shape = tuple(bound["x"].shape)
    return [Spec((*shape, None), "string"), Spec(shape, int64)]


@needs_values("x", gives=_split_specs)
def _split(x: Any, delimiter: str | None, limit: int) -> list[Tensor]:
    """Parts (..., most parts), empty ones behind, and how many each text has."""
    array = np.asarray(x.numpy(), object)
    mark = None if delimiter is None else delimiter.encode()
    rows = [bytes(item).split(mark, limit) for item in array.ravel()]
    width = max(map(len, rows), default=0)
    check_count((*array.shape, width))
    items = [part for row in rows for part in (*row, *[b""] * (width - len(row)))]
    counts = np.array([len(row) for row in rows], np.int64).reshape(array.shape)
    return [_objects(items, (*array.shape, width)), convert_to_tensor(counts)]


# ---------------------------------------------------------------------- upper and lower case


@onnx_rule("StringNormalizer")
def _string_normalizer(call: NodeCall, x: Any) -> Tensor:
    y = _text(x)
    if rank(y) not in (1, 2) or (rank(y) == 2 and y.shape[0] not in (None, 1)):
        raise InvalidArgumentError(f"text of shape {tuple(y.shape)} is neither (n,) nor (1, n)")
    case = call.one_of("case_change_action", "NONE", _CASES)
    words = tuple(call.list("stopwords", None) or ())
    return _normalize(y, words, call.flag("is_case_sensitive"), case)


@needs_values(
    "x", gives=lambda a: Spec((*tuple(a["x"].shape)[:-1], None), "string")
)  # the words that are dropped are known when it runs
def _normalize(x: Any, words: tuple[str, ...], is_sensitive: bool, case: str) -> Tensor:
    """Words in another case, without those of a list; one empty word where none is left."""
    array = np.asarray(x.numpy(), object)
    dropped = set(words) if is_sensitive else {word.lower() for word in words}
    texts = [bytes(item).decode("utf-8", "surrogateescape") for item in array.ravel()]
    remaining = [t for t in texts if (t if is_sensitive else t.lower()) not in dropped]
    if case != "NONE":
        remaining = [t.lower() if case == "LOWER" else t.upper() for t in remaining]
    items = [t.encode("utf-8", "surrogateescape") for t in remaining] or [b""]
    return _objects(items, (*array.shape[:-1], len(items)))
