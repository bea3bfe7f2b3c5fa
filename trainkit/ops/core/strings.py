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
from trainkit.core.text_arrays import as_bytes
from trainkit.ops.core.dynamic_shapes import (
    Bound,
    like,
    needs_values,
    unknown,
)
from trainkit.ops.core.value_text import formatted

_UNITS = ("BYTE", "UTF8_CHAR")


_CLASSES = {
    "punct": r"!-/:-@\[-`{-~", "alpha": "a-zA-Z", "alnum": "a-zA-Z0-9", "digit": "0-9",
    "space": r"\s", "upper": "A-Z", "lower": "a-z",
}  # fmt: skip


def texts_of(x: Any, what: str) -> Any:
    """A tensor of text, or what converts to one, as an array of bytes objects.

    Raises:
        InvalidArgumentError: it holds numbers.
    """
    tensor = convert_to_tensor(x)
    if tensor.dtype is not dtypes.string:
        raise InvalidArgumentError(f"{what}: takes text, got {tensor.dtype.name}")
    return tensor._array


def one_text(x: Any, what: str) -> bytes:
    """A text, or a tensor of one, as bytes."""
    if isinstance(x, str | bytes):
        return as_bytes(x)
    array = texts_of(x, what)
    if array.shape != ():
        raise InvalidArgumentError(f"{what}: one text is needed, got shape {array.shape}")
    text: bytes = array[()]
    return text


def each(function: Callable[..., Any], dtype: Any, *arrays: Any) -> Tensor:
    """A function of the elements of arrays that broadcast, as a tensor."""
    wide = np.broadcast_arrays(*arrays)
    out = np.empty(wide[0].shape, as_dtype(dtype).dtype)
    flat, columns = out.reshape(-1), [a.reshape(-1) for a in wide]
    for i in range(flat.size):
        flat[i] = function(*(column[i] for column in columns))
    return string_results(out)  # type: ignore[no-any-return]


def _same(name: str) -> Callable[[Bound], Spec]:
    return lambda a: like(a[name], "string")


def _as(name: str, dtype: str) -> Callable[[Bound], Spec]:
    return lambda a: like(a[name], dtype)


def _unit(unit: str, what: str) -> bool:
    """Whether positions count characters, not bytes."""
    if unit not in _UNITS:
        raise InvalidArgumentError(f"{what}: unit {unit!r}; use one of {_UNITS}")
    return unit == "UTF8_CHAR"


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")


# ------------------------------------------------------------------ one text each


@needs_values("input", gives=_same("input"))
def lower(input: Any, encoding: str = "", name: Any = None) -> Tensor:
    """Small letters: of ASCII, or of Unicode for `encoding="utf-8"`."""
    return _cased(input, encoding, bytes.lower, str.lower)


@needs_values("input", gives=_same("input"))
def upper(input: Any, encoding: str = "", name: Any = None) -> Tensor:
    """Capital letters: of ASCII, or of Unicode for `encoding="utf-8"`."""
    return _cased(input, encoding, bytes.upper, str.upper)


def _cased(x: Any, encoding: str, on_bytes: Any, on_text: Any) -> Tensor:
    if encoding not in ("", "utf-8"):
        raise InvalidArgumentError(f"strings: encoding {encoding!r}; use '' or 'utf-8'")
    change = (lambda t: on_text(_decoded(t)).encode()) if encoding else on_bytes
    return each(change, "string", texts_of(x, "strings"))


@needs_values("input", gives=_same("input"))
def strip(input: Any, name: Any = None) -> Tensor:
    """Without white space at both ends."""
    return each(bytes.strip, "string", texts_of(input, "strings.strip"))


@needs_values("input", gives=_as("input", "int32"))
def length(input: Any, unit: str = "BYTE", name: Any = None) -> Tensor:
    """How many bytes each text has, or characters for `unit="UTF8_CHAR"`; int32."""
    characters = _unit(unit, "strings.length")
    return each(
        (lambda t: len(_decoded(t))) if characters else len,
        "int32",
        texts_of(input, "strings.length"),
    )


def _substr_spec(a: Bound) -> Spec:
    return like(a["input"], "string")


@needs_values("input", "pos", "len", gives=_substr_spec)
def substr(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: Any = None) -> Tensor:
    """`len` bytes, or characters, of each text from `pos` on; negative ones count from the end.

    Raises:
        InvalidArgumentError: a position is outside of its text.
    """
    characters = _unit(unit, "strings.substr")
    size = builtins.len  # `len` is the argument

    def part(text: bytes, start: int, count: int) -> bytes:
        whole: Any = _decoded(text) if characters else text
        if not -size(whole) <= start <= size(whole):
            raise InvalidArgumentError(
                f"strings.substr: position {start} is outside of {text!r}, of length {size(whole)}"
            )
        start = start % (size(whole) + 1) if start >= 0 else start + size(whole)
        cut = whole[start : start + max(0, count)]
        return cut.encode() if characters else cut  # type: ignore[no-any-return]

    starts, counts = (np.asarray(convert_to_tensor(x).numpy()) for x in (pos, len))
    return each(part, "string", texts_of(input, "strings.substr"), starts, counts)


@needs_values("input", gives=_same("input"))
def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: Any = None
) -> Tensor:
    r"""Matches of a regular expression replaced by `rewrite`, in which `\1` is the first group.

    Raises:
        InvalidArgumentError: the pattern is no regular expression.
    """
    compiled = _compiled(pattern, "strings.regex_replace")
    new = re.sub(rb"\\0", rb"\\g<0>", one_text(rewrite, "strings.regex_replace"))
    count = 0 if replace_global else 1
    return each(
        lambda t: compiled.sub(new, t, count=count),
        "string",
        texts_of(input, "strings.regex_replace"),
    )


@needs_values("input", gives=_as("input", "bool"))
def regex_full_match(input: Any, pattern: Any, name: Any = None) -> Tensor:
    """Whether a regular expression matches the whole text."""
    compiled = _compiled(pattern, "strings.regex_full_match")
    texts = texts_of(input, "strings.regex_full_match")
    return each(lambda t: compiled.fullmatch(t) is not None, "bool", texts)


def _compiled(pattern: Any, what: str) -> Any:
    text = one_text(pattern, what)
    for name, kind in _CLASSES.items():
        text = text.replace(b"[:" + name.encode() + b":]", kind.encode())
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgumentError(f"{what}: {text!r} is no regular expression: {error}") from None


# ------------------------------------------------------------------ numbers


def _to_number_spec(a: Bound) -> Spec:
    return like(a["input"], as_dtype(a["out_type"]))


@needs_values("input", gives=_to_number_spec)
def to_number(input: Any, out_type: Any = dtypes.float32, name: Any = None) -> Tensor:
    """The numbers that texts spell.

    Args:
        input: tensor of text.
        out_type: float32, float64, int32 or int64.
        name: not kept.

    Raises:
        InvalidArgumentError: a text spells no such number.
    """
    wanted = as_dtype(out_type)
    if wanted.name not in ("float32", "float64", "int32", "int64"):
        raise InvalidArgumentError(f"strings.to_number: out_type can't be {wanted.name}")

    def number(text: bytes) -> Any:
        try:
            value: Any = int(text) if wanted.is_integer else float(text)
        except ValueError:
            raise InvalidArgumentError(f"strings.to_number: {text!r} is no {wanted.name}") from None
        if wanted.is_integer and not wanted.min <= value <= wanted.max:
            raise InvalidArgumentError(f"strings.to_number: {text!r} does not fit {wanted.name}")
        return value

    return each(number, wanted, texts_of(input, "strings.to_number"))


@needs_values("input", gives=_same("input"))
def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: Any = None,
) -> Tensor:
    """Numbers as texts.

    Args:
        input: tensor of numbers or bools; text stays as it is.
        precision: digits behind the point, 6 by default; for floats.
        scientific: with an exponent; for floats.
        shortest: with or without one, whichever is shorter; for floats.
        width: least number of characters.
        fill: `""` for blanks on the left, `"0"`, `" "`, `"+"` or `"-"`, as in C's printf.
        name: not kept.

    Raises:
        InvalidArgumentError: both kinds of exponents are asked for, or `fill` is none of these.
    """
    if scientific and shortest:
        raise InvalidArgumentError("as_string: scientific and shortest exclude each other")
    if len(fill) > 1 or fill not in ("", " ", "0", "+", "-"):
        raise InvalidArgumentError(f"as_string: fill {fill!r} is none of '', ' ', '0', '+', '-'")
    x = convert_to_tensor(input)
    if x.dtype is dtypes.string:
        return x
    if (precision >= 0 or scientific or shortest) and not x.dtype.is_floating:
        raise InvalidArgumentError(
            f"as_string: precision and exponents are for floats, not {x.dtype}"
        )
    kind = "e" if scientific else "g" if shortest else "f"
    form = f"%{fill}{width if width >= 0 else ''}"
    form += "d" if x.dtype.is_integer else f"{'' if precision < 0 else f'.{precision}'}{kind}"

    def text(value: Any) -> bytes:
        if x.dtype.is_bool:
            return b"true" if value else b"false"
        return (form % (int(value) if x.dtype.is_integer else float(value))).encode()

    return each(text, "string", np.asarray(x.numpy()))


def format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: Any = None
) -> Tensor:
    """A text with tensors in its places, shown as `tk.print` shows them.

    Raises:
        ValueError: there are more or fewer places than tensors.
    """
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    parts = template.split(placeholder)
    if len(parts) != len(values) + 1:
        raise ValueError(f"strings.format: {len(parts) - 1} places for {len(values)} tensors")
    shown = [formatted(np.asarray(convert_to_tensor(v).numpy()), summarize) for v in values]
    return convert_to_tensor("".join(a + b for a, b in zip(parts, [*shown, ""], strict=True)))


# ------------------------------------------------------------------ joining and splitting


def _join_spec(a: Bound) -> Spec:
    return max((like(x, "string") for x in a["inputs"]), key=lambda s: len(s.shape))


@needs_values("inputs", gives=_join_spec)
def join(inputs: Any, separator: str = "", name: Any = None) -> Tensor:
    """The texts of several tensors joined, element by element; scalars go with all."""
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
    inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = "", name: Any = None
) -> Tensor:
    """Texts joined along axes; along all by default."""
    between, array = one_text(separator, "strings.reduce_join"), texts_of(inputs, "reduce_join")
    axes = range(array.ndim) if axis is None else np.atleast_1d(np.asarray(axis)).tolist()
    axes = [a % array.ndim for a in axes] if array.ndim else []
    kept = [a for a in range(array.ndim) if a not in axes]
    moved = array.transpose([*kept, *axes]).reshape([array.shape[a] for a in kept] + [-1])
    out = np.empty(moved.shape[:-1], object)
    for place in np.ndindex(out.shape):
        out[place] = between.join(moved[place].tolist())
    if keepdims:
        out = out.reshape([1 if a in axes else n for a, n in enumerate(array.shape)])
    return string_results(out)  # type: ignore[no-any-return]


def _split_spec(a: Bound) -> Spec:
    return Spec((None,), "string")


@needs_values("input", gives=_split_spec)
def split(input: Any, sep: Any = None, maxsplit: int = -1, name: Any = None) -> Tensor:
    """The parts of one text, between separators or, by default, white space.

    Raises:
        UnimplementedError: `input` has axes: its texts would have different numbers of parts, and
            there are no ragged tensors.
    """
    text = _single(input, "strings.split")
    between = None if sep is None else one_text(sep, "strings.split") or None
    return _listed(text.split(between, maxsplit))


@needs_values("input", gives=_split_spec)
def bytes_split(input: Any, name: Any = None) -> Tensor:
    """The bytes of one text, as texts of one byte.

    Raises:
        UnimplementedError: `input` has axes; there are no ragged tensors.
    """
    text = _single(input, "strings.bytes_split")
    return _listed([text[i : i + 1] for i in range(len(text))])


def _single(x: Any, what: str) -> bytes:
    array = texts_of(x, what)
    if array.shape != ():
        raise UnimplementedError(
            f"{what}: texts of shape {array.shape} would give rows of different lengths, and there "
            "are no ragged tensors; take the texts one by one, as in Dataset.map"
        )
    text: bytes = array[()]
    return text


def _listed(texts: list[Any]) -> Tensor:
    return convert_to_tensor(texts, dtype=dtypes.string)


# ------------------------------------------------------------------ Unicode


@needs_values("input", gives=lambda a: Spec((None,), "int32"))
def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: Any = None,
) -> Tensor:
    """The code points of one text, int32.

    Raises:
        UnimplementedError: `input` has axes; there are no ragged tensors.
        InvalidArgumentError: the bytes are no text of that encoding, and `errors` is `"strict"`.
    """
    text = _single(input, "strings.unicode_decode")
    points = [ord(c) for c in _unicode(text, input_encoding, errors, replacement_char)]
    if replace_control_characters:
        points = [replacement_char if p < 32 else p for p in points]
    return convert_to_tensor(np.array(points, np.int32))


@needs_values("input", gives=_split_spec)
def unicode_split(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: Any = None,
) -> Tensor:
    """The characters of one text, as texts.

    Raises:
        UnimplementedError: `input` has axes; there are no ragged tensors.
    """
    text = _single(input, "strings.unicode_split")
    parts = _unicode(text, input_encoding, errors, replacement_char)
    return _listed([c.encode(_codec(input_encoding)) for c in parts])


@needs_values("input", gives=lambda a: unknown(a["input"], -1, "string"))
def unicode_encode(
    input: Any,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: Any = None,
) -> Tensor:
    """Texts of code points, which stand along the last axis.

    Raises:
        InvalidArgumentError: a number is no code point, and `errors` is `"strict"`.
    """
    points, codec = np.asarray(convert_to_tensor(input).numpy()), _codec(output_encoding)
    out = np.empty(points.shape[:-1], object)
    for place in np.ndindex(out.shape):
        known = [p for p in points[place].tolist() if errors != "ignore" or _is_point(p)]
        if errors == "strict" and not all(map(_is_point, known)):
            raise InvalidArgumentError("strings.unicode_encode: a number is no code point")
        text = "".join(chr(p if _is_point(p) else replacement_char) for p in known)
        out[place] = text.encode(codec)
    return string_results(out)  # type: ignore[no-any-return]


def _is_point(number: int) -> bool:
    return 0 <= number < 0xD800 or 0xE000 <= number <= 0x10FFFF


@needs_values("input", gives=_as("input", "int32"))
def unicode_script(input: Any, name: Any = None) -> Tensor:
    """Not supported: Python has no table of scripts.

    Raises:
        UnimplementedError: always.
    """
    raise UnimplementedError("strings.unicode_script: Python has no table of scripts")


@needs_values("input", gives=_same("input"))
def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: Any = None,
) -> Tensor:
    """Texts in another encoding."""
    codec = _codec(output_encoding)

    def changed(text: bytes) -> bytes:
        points = _unicode(text, input_encoding, errors, replacement_char)
        if replace_control_characters:
            points = "".join(chr(replacement_char) if ord(c) < 32 else c for c in points)
        return points.encode(codec)

    return each(changed, "string", texts_of(input, "strings.unicode_transcode"))


def _codec(encoding: str) -> str:
    known = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}
    found = known.get(encoding.upper())
    if found is None:
        raise InvalidArgumentError(f"strings: encoding {encoding!r}; use one of {sorted(known)}")
    return found


def _unicode(text: bytes, encoding: str, errors: str, replacement: int) -> str:
    if errors not in ("replace", "strict", "ignore"):
        raise InvalidArgumentError(f"strings: errors {errors!r}; use replace, strict or ignore")
    try:
        found = text.decode(_codec(encoding) if encoding.upper() != "US ASCII" else "ascii", errors)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"strings: {error}") from None
    return found.replace("\ufffd", chr(replacement)) if errors == "replace" else found
