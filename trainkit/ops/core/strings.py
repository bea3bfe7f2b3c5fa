"""Operations on tensors of text, on the CPU.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.shapes import Spec
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.number_texts import read_number
from trainkit.core.values.text_arrays import as_bytes
from trainkit.core.values.type_aliases import Axis, DTypeLike, TensorLike
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values, unknown
from trainkit.ops.core.value_text import array_text

_UNITS = ("BYTE", "UTF8_CHAR")


_CLASSES = {
    "punct": r"!-/:-@\[-`{-~", "alpha": "a-zA-Z", "alnum": "a-zA-Z0-9", "digit": "0-9",
    "space": r"\s", "upper": "A-Z", "lower": "a-z",
}  # fmt: skip


def texts_of(x: Any, what: str) -> Any:
    """A tensor of text, or what converts to one, as an array of bytes objects.

    Args:
        x: tensor of text, or what converts to one.
        what: what errors call the caller.

    Raises:
        InvalidArgumentError: it holds numbers.
    """
    tensor = convert_to_tensor(x)
    if tensor.dtype is not dtypes.string:
        raise InvalidArgumentError(f"{what}: takes text, got {tensor.dtype.name}")
    return tensor._array


def one_text(x: Any, what: str) -> bytes:
    """A text, or a tensor of one, as bytes.

    Args:
        x: text, or a tensor of one.
        what: what errors call the caller.
    """
    if isinstance(x, str | bytes):
        return as_bytes(x)
    array = texts_of(x, what)
    if array.shape != ():
        raise InvalidArgumentError(f"{what}: one text is needed, got shape {array.shape}")
    text: bytes = array[()]
    return text


def each(function: Callable[..., Any], dtype: Any, *arrays: Any) -> Tensor:
    """A function of the elements of arrays that broadcast, as a tensor."""
    operands = np.broadcast_arrays(*arrays)
    out = np.empty(operands[0].shape, as_dtype(dtype).dtype)
    flat, columns = out.reshape(-1), [a.reshape(-1) for a in operands]
    for i in range(flat.size):
        flat[i] = function(*(column[i] for column in columns))
    texts: Tensor = string_results(out)
    return texts


def text_like(name: str) -> Callable[[Bound], Spec]:
    """Gives the spec of text of the shape of the argument `name`."""
    return lambda a: like(a[name], "string")


def typed_like(name: str, dtype: str) -> Callable[[Bound], Spec]:
    """Gives the spec of a dtype, of the shape of the argument `name`."""
    return lambda a: like(a[name], dtype)


def _unit(unit: str, op: str) -> bool:
    """Whether positions count characters, not bytes."""
    if unit not in _UNITS:
        raise InvalidArgumentError(f"{op}: unit {unit!r}; use one of {_UNITS}")
    return unit == "UTF8_CHAR"


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")


# ------------------------------------------------------------------ one text each


@needs_values("input", gives=text_like("input"))
def lower(input: TensorLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Small letters: of ASCII, or of Unicode for `encoding="utf-8"`.

    Args:
        input: tensor of text.
        encoding: `""` or `"utf-8"`.

    Example:
        >>> tk.strings.lower("Cat").numpy()
        b'cat'
    """
    return _change_case(input, encoding, bytes.lower, str.lower)


@needs_values("input", gives=text_like("input"))
def upper(input: TensorLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Capital letters: of ASCII, or of Unicode for `encoding="utf-8"`.

    Args:
        input: tensor of text.
        encoding: `""` or `"utf-8"`.

    Example:
        >>> tk.strings.upper("Cat").numpy()
        b'CAT'
    """
    return _change_case(input, encoding, bytes.upper, str.upper)


def _change_case(x: Any, encoding: str, on_bytes: Any, on_text: Any) -> Tensor:
    if encoding not in ("", "utf-8"):
        raise InvalidArgumentError(f"strings: encoding {encoding!r}; use '' or 'utf-8'")
    change = (lambda t: on_text(_decode(t)).encode()) if encoding else on_bytes
    return each(change, "string", texts_of(x, "strings"))


@needs_values("input", gives=text_like("input"))
def strip(input: TensorLike, name: str | None = None) -> Tensor:
    """Without white space at both ends.

    Args:
        input: tensor of text.

    Example:
        >>> tk.strings.strip("  cat ").numpy()
        b'cat'
    """
    return each(bytes.strip, "string", texts_of(input, "strings.strip"))


@needs_values("input", gives=typed_like("input", "int32"))
def length(input: TensorLike, unit: str = "BYTE", name: str | None = None) -> Tensor:
    """How many bytes each text has, or characters for `unit="UTF8_CHAR"`; int32.

    Args:
        input: tensor of text.
        unit: `"BYTE"` or `"UTF8_CHAR"`.

    Example:
        >>> tk.strings.length(["a", "bcd"]).numpy()
        array([1, 3], dtype=int32)
    """
    characters = _unit(unit, "strings.length")
    return each(
        (lambda t: len(_decode(t))) if characters else len,
        "int32",
        texts_of(input, "strings.length"),
    )


@needs_values("input", "pos", "len", gives=lambda a: like(a["input"], "string"))
def substr(
    input: TensorLike, pos: Any, len: Any, unit: str = "BYTE", name: str | None = None
) -> Tensor:
    """`len` bytes, or characters, of each text from `pos` on; negative ones count from the end.

    Args:
        input: tensor of text.
        pos: ints that broadcast with the texts.
        len: ints that broadcast with the texts.
        unit: `"BYTE"` or `"UTF8_CHAR"`.

    Raises:
        InvalidArgumentError: a position is outside of its text.

    Example:
        >>> tk.strings.substr("training", 0, 5).numpy()
        b'train'
    """
    characters = _unit(unit, "strings.substr")
    size = builtins.len  # `len` is the argument

    def part(text: bytes, start: int, count: int) -> bytes:
        sequence: Any = _decode(text) if characters else text
        if not -size(sequence) <= start <= size(sequence):
            raise InvalidArgumentError(
                f"strings.substr: position {start} is outside of {text!r}, of length "
                f"{size(sequence)}"
            )
        start = start % (size(sequence) + 1) if start >= 0 else start + size(sequence)
        cut = sequence[start : start + max(0, count)]
        return bytes(cut.encode() if characters else cut)

    starts, counts = (np.asarray(convert_to_tensor(x).numpy()) for x in (pos, len))
    return each(part, "string", texts_of(input, "strings.substr"), starts, counts)


@needs_values("input", gives=text_like("input"))
def regex_replace(
    input: TensorLike,
    pattern: Any,
    rewrite: Any,
    replace_global: bool = True,
    name: str | None = None,
) -> Tensor:
    r"""Matches of a regular expression replaced by `rewrite`, in which `\1` is the first group.

    Args:
        input: tensor of text.
        pattern: text.
        rewrite: text.
        replace_global: all matches of a text, not the first alone.

    Raises:
        InvalidArgumentError: the pattern is no regular expression.

    Example:
        >>> tk.strings.regex_replace("cat dog", "[aeiou]", "_").numpy()
        b'c_t d_g'
    """
    compiled = _compile_pattern(pattern, "strings.regex_replace")
    new = re.sub(rb"\\0", rb"\\g<0>", one_text(rewrite, "strings.regex_replace"))
    count = 0 if replace_global else 1
    return each(
        lambda t: compiled.sub(new, t, count=count),
        "string",
        texts_of(input, "strings.regex_replace"),
    )


@needs_values("input", gives=typed_like("input", "bool"))
def regex_full_match(input: TensorLike, pattern: Any, name: str | None = None) -> Tensor:
    """Whether a regular expression matches the whole text.

    Args:
        input: tensor of text.
        pattern: text.

    Example:
        >>> tk.strings.regex_full_match(["cat", "dog"], "c.*").numpy()
        array([ True, False])
    """
    compiled = _compile_pattern(pattern, "strings.regex_full_match")
    texts = texts_of(input, "strings.regex_full_match")
    return each(lambda t: compiled.fullmatch(t) is not None, "bool", texts)


def _compile_pattern(pattern: Any, op: str) -> Any:
    text = one_text(pattern, op)
    for name, kind in _CLASSES.items():
        text = text.replace(b"[:" + name.encode() + b":]", kind.encode())
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgumentError(f"{op}: {text!r} is no regular expression: {error}") from None


# ------------------------------------------------------------------ numbers


@needs_values("input", gives=lambda a: like(a["input"], as_dtype(a["out_type"])))
def to_number(
    input: TensorLike, out_type: DTypeLike = dtypes.float32, name: str | None = None
) -> Tensor:
    """The numbers that texts spell.

    Args:
        input: tensor of text.
        out_type: float32, float64, int32 or int64.

    Raises:
        InvalidArgumentError: a text spells no such number.

    Example:
        >>> tk.strings.to_number(["1.5", "2"]).numpy()
        array([1.5, 2. ], dtype=float32)
    """
    out_dtype = as_dtype(out_type)
    if out_dtype.name not in ("float32", "float64", "int32", "int64"):
        raise InvalidArgumentError(f"strings.to_number: out_type can't be {out_dtype.name}")

    def number(text: bytes) -> Any:
        try:
            value: Any = read_number(text, out_dtype.is_integer)
        except ValueError:
            raise InvalidArgumentError(
                f"strings.to_number: {text!r} is no {out_dtype.name}"
            ) from None
        if out_dtype.is_integer and not out_dtype.min <= value <= out_dtype.max:
            raise InvalidArgumentError(f"strings.to_number: {text!r} does not fit {out_dtype.name}")
        return value

    return each(number, out_dtype, texts_of(input, "strings.to_number"))


@needs_values("input", gives=text_like("input"))
def as_string(
    input: TensorLike,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Numbers as texts.

    Args:
        input: tensor of numbers or bools; text stays as it is. A complex number becomes its two
            parts in brackets, (re,im).
        precision: digits behind the point, 6 by default; for floats.
        scientific: with an exponent; for floats.
        shortest: with or without one, whichever is shorter; for floats.
        width: least number of characters.
        fill: `""` for blanks on the left, `"0"`, `" "`, `"+"` or `"-"`, as in C's printf.

    Raises:
        InvalidArgumentError: both kinds of exponents are asked for, or `fill` is none of these.

    Example:
        >>> tk.strings.as_string([1, 2]).numpy()
        array([b'1', b'2'], dtype=object)
    """
    if scientific and shortest:
        raise InvalidArgumentError("as_string: scientific and shortest exclude each other")
    if len(fill) > 1 or fill not in ("", " ", "0", "+", "-"):
        raise InvalidArgumentError(f"as_string: fill {fill!r} is none of '', ' ', '0', '+', '-'")
    x = convert_to_tensor(input)
    if x.dtype is dtypes.string:
        return x
    is_complex = x.dtype.is_complex
    if (precision >= 0 or scientific or shortest) and not (x.dtype.is_floating or is_complex):
        raise InvalidArgumentError(
            f"as_string: precision and exponents are for floats, not {x.dtype}"
        )
    kind = "e" if scientific else "g" if shortest else "f"
    form = f"%{fill}{width if width >= 0 else ''}"
    form += "d" if x.dtype.is_integer else f"{'' if precision < 0 else f'.{precision}'}{kind}"

    def text(value: Any) -> bytes:
        if x.dtype.is_bool:
            return b"true" if value else b"false"
        if is_complex:
            return f"({form % value.real},{form % value.imag})".encode()
        return (form % (int(value) if x.dtype.is_integer else float(value))).encode()

    return each(text, "string", np.asarray(x.numpy()))


@needs_values("inputs", gives=lambda a: Spec((), "string"))
def format(
    template: str,
    inputs: TensorLike,
    placeholder: str = "{}",
    summarize: int = 3,
    name: str | None = None,
) -> Tensor:
    """A text with tensors in its places, shown as `tk.print` shows them.

    Args:
        template: text with places.
        inputs: a tensor, or a list of them.
        placeholder: what a place looks like.
        summarize: how many first and last elements of an axis are shown.

    Raises:
        ValueError: there are more or fewer places than tensors.

    Example:
        >>> tk.strings.format("x is {}", tk.constant([1, 2])).numpy()
        b'x is [1 2]'
    """
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    parts = template.split(placeholder)
    if len(parts) != len(values) + 1:
        raise ValueError(f"strings.format: {len(parts) - 1} places for {len(values)} tensors")
    texts = [array_text(convert_to_tensor(v).numpy(), summarize) for v in values]
    return convert_to_tensor("".join(a + b for a, b in zip(parts, [*texts, ""], strict=True)))


# ------------------------------------------------------------------ join and split


def _join_spec(a: Bound) -> Spec:
    return max((like(x, "string") for x in a["inputs"]), key=lambda s: len(s.shape))


@needs_values("inputs", gives=_join_spec)
def join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    """The texts of several tensors joined, element by element; scalars go with all.

    Args:
        inputs: list of tensors that broadcast.
        separator: between two texts.

    Raises:
        InvalidArgumentError: the list is empty.

    Example:
        >>> tk.strings.join(["a", "b"], separator="-").numpy()
        b'a-b'
    """
    between = one_text(separator, "strings.join")
    arrays = [texts_of(x, "strings.join") for x in inputs]
    if not arrays:
        raise InvalidArgumentError("strings.join: there is nothing to join")
    return each(lambda *parts: between.join(parts), "string", *arrays)


def _reduce_join_spec(a: Bound) -> Spec:
    x = convert_to_tensor(a["inputs"])
    if a["axis"] is None:
        return Spec((1,) * len(x.shape) if a["keepdims"] else (), "string")
    return unknown(x, 0 if a["keepdims"] else -np.size(a["axis"]), "string")


@needs_values("inputs", gives=_reduce_join_spec)
def reduce_join(
    inputs: TensorLike,
    axis: Axis | None = None,
    keepdims: bool = False,
    separator: str = "",
    name: str | None = None,
) -> Tensor:
    """Texts joined along axes; along all by default.

    Args:
        inputs: tensor of text.
        axis: int, or ints, of which the first is joined first; by default all, the last one first.
        keepdims: keep the axes with size 1.
        separator: between two texts.

    Example:
        >>> tk.strings.reduce_join(["a", "b"], separator="-").numpy()
        b'a-b'
    """
    between, array = one_text(separator, "strings.reduce_join"), texts_of(inputs, "reduce_join")
    # The axis named first is joined first, so its texts stand side by side in the result.
    axes = range(array.ndim) if axis is None else np.atleast_1d(np.asarray(axis)).tolist()[::-1]
    axes = [a % array.ndim for a in axes] if array.ndim else []
    remaining_axes = [a for a in range(array.ndim) if a not in axes]
    moved = array.transpose([*remaining_axes, *axes]).reshape(
        [array.shape[a] for a in remaining_axes] + [-1]
    )
    out = np.empty(moved.shape[:-1], object)
    for index in np.ndindex(out.shape):
        out[index] = between.join(moved[index].tolist())
    if keepdims:
        out = out.reshape([1 if a in axes else n for a, n in enumerate(array.shape)])
    texts: Tensor = string_results(out)
    return texts


def list_spec(a: Bound) -> Spec:
    """The spec of a list of texts."""
    return Spec((None,), "string")


@needs_values("input", gives=list_spec)
def split(
    input: TensorLike, sep: Any = None, maxsplit: int = -1, name: str | None = None
) -> Tensor:
    """The parts of one text, between separators or, by default, white space.

    Args:
        input: text, or a scalar tensor of it.
        sep: between two parts; white space by default.
        maxsplit: how often at most; -1 for no limit.

    Raises:
        UnimplementedError: `input` has axes: its texts would have different numbers of parts, and
            there are no ragged tensors.

    Example:
        >>> tk.strings.split("the cat").numpy()
        array([b'the', b'cat'], dtype=object)
    """
    text = single_text(input, "strings.split")
    between = None if sep is None else one_text(sep, "strings.split") or None
    return listed(text.split(between, maxsplit))


@needs_values("input", gives=list_spec)
def bytes_split(input: TensorLike, name: str | None = None) -> Tensor:
    """The bytes of one text, as texts of one byte.

    Args:
        input: text, or a scalar tensor of it.

    Raises:
        UnimplementedError: `input` has axes; there are no ragged tensors.

    Example:
        >>> tk.strings.bytes_split("ab").numpy()
        array([b'a', b'b'], dtype=object)
    """
    text = single_text(input, "strings.bytes_split")
    return listed([text[i : i + 1] for i in range(len(text))])


def single_text(x: Any, what: str) -> bytes:
    """The one text of a tensor, whose parts make a list.

    Args:
        x: text, or a tensor of one.
        what: what errors call the caller.

    Raises:
        UnimplementedError: the tensor has axes.
    """
    array = texts_of(x, what)
    if array.shape != ():
        raise UnimplementedError(
            f"{what}: texts of shape {array.shape} would give rows of different lengths, and there "
            "are no ragged tensors; take the texts one by one, as in Dataset.map"
        )
    text: bytes = array[()]
    return text


def listed(texts: list[Any]) -> Tensor:
    """Texts as a tensor (n,)."""
    return convert_to_tensor(texts, dtype=dtypes.string)
