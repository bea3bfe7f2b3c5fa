"""Texts and the code points that they are made of.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

import numpy as np

from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.shapes import Spec
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.core.dynamic_shapes import needs_values, unknown
from trainkit.ops.core.strings import (
    each,
    list_spec,
    listed,
    single_text,
    text_like,
    texts_of,
    typed_like,
)


@needs_values("input", gives=lambda a: Spec((None,), "int32"))
def unicode_decode(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Tensor:
    """The code points of one text, int32.

    Args:
        input: text, or a scalar tensor of it.
        input_encoding: `"UTF-8"`, `"UTF-16-BE"` or `"UTF-32-BE"`.
        errors: `"replace"`, `"strict"` or `"ignore"` what is no text.
        replacement_char: code point that stands for what is no text.
        replace_control_characters: whether code points below 32 are replaced, too.

    Raises:
        UnimplementedError: `input` has axes; there are no ragged tensors.
        InvalidArgumentError: the bytes are no text of that encoding, and `errors` is `"strict"`.

    Example:
        >>> tk.strings.unicode_decode("ab", "UTF-8").numpy()
        array([97, 98], dtype=int32)
    """
    text = single_text(input, "strings.unicode_decode")
    points = [ord(c) for c in _unicode(text, input_encoding, errors, replacement_char)]
    if replace_control_characters:
        points = [replacement_char if p < 32 else p for p in points]
    return convert_to_tensor(np.array(points, np.int32))


@needs_values("input", gives=list_spec)
def unicode_split(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Tensor:
    """The characters of one text, as texts.

    Args:
        input: text, or a scalar tensor of it.
        input_encoding: `"UTF-8"`, `"UTF-16-BE"` or `"UTF-32-BE"`.
        errors: `"replace"`, `"strict"` or `"ignore"` what is no text.
        replacement_char: code point that stands for what is no text.

    Raises:
        UnimplementedError: `input` has axes; there are no ragged tensors.

    Example:
        >>> tk.strings.unicode_split("ab", "UTF-8").numpy()
        array([b'a', b'b'], dtype=object)
    """
    text = single_text(input, "strings.unicode_split")
    parts = _unicode(text, input_encoding, errors, replacement_char)
    return listed([c.encode(_codec(input_encoding)) for c in parts])


@needs_values("input", gives=lambda a: unknown(a["input"], -1, "string"))
def unicode_encode(
    input: TensorLike,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Tensor:
    """Texts of code points, which stand along the last axis.

    Args:
        input: ints (..., n).
        output_encoding: `"UTF-8"`, `"UTF-16-BE"` or `"UTF-32-BE"`.
        errors: `"replace"`, `"strict"` or `"ignore"` what is no text.
        replacement_char: code point that stands for what is no text.

    Raises:
        InvalidArgumentError: a number is no code point, and `errors` is `"strict"`.

    Example:
        >>> tk.strings.unicode_encode([97, 98], "UTF-8").numpy()
        b'ab'
    """
    points, codec = np.asarray(convert_to_tensor(input).numpy()), _codec(output_encoding)
    out = np.empty(points.shape[:-1], object)
    for index in np.ndindex(out.shape):
        code_points = [p for p in points[index].tolist() if errors != "ignore" or _is_point(p)]
        if errors == "strict" and not all(map(_is_point, code_points)):
            raise InvalidArgumentError("strings.unicode_encode: a number is no code point")
        text = "".join(chr(p if _is_point(p) else replacement_char) for p in code_points)
        out[index] = text.encode(codec)
    texts: Tensor = string_results(out)
    return texts


def _is_point(number: int) -> bool:
    return 0 <= number < 0xD800 or 0xE000 <= number <= 0x10FFFF


@needs_values("input", gives=typed_like("input", "int32"))
def unicode_script(input: TensorLike, name: str | None = None) -> Tensor:
    """Not supported: Python has no table of scripts.

    Args:
        input: ints of any shape.

    Raises:
        UnimplementedError: always.
    """
    raise UnimplementedError("strings.unicode_script: Python has no table of scripts")


@needs_values("input", gives=text_like("input"))
def unicode_transcode(
    input: TensorLike,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Tensor:
    """Texts in another encoding.

    Args:
        input: tensor of text.
        input_encoding: `"UTF-8"`, `"UTF-16-BE"` or `"UTF-32-BE"`.
        output_encoding: `"UTF-8"`, `"UTF-16-BE"` or `"UTF-32-BE"`.
        errors: `"replace"`, `"strict"` or `"ignore"` what is no text.
        replacement_char: code point that stands for what is no text.
        replace_control_characters: whether code points below 32 are replaced, too.

    Example:
        >>> wide = tk.strings.unicode_transcode("ab", "UTF-8", "UTF-16-BE")
        >>> int(tk.strings.length(wide))
        4
    """
    codec = _codec(output_encoding)

    def change(text: bytes) -> bytes:
        points = _unicode(text, input_encoding, errors, replacement_char)
        if replace_control_characters:
            points = "".join(chr(replacement_char) if ord(c) < 32 else c for c in points)
        return points.encode(codec)

    return each(change, "string", texts_of(input, "strings.unicode_transcode"))


def _codec(encoding: str) -> str:
    codec_names = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}
    codec = codec_names.get(encoding.upper())
    if codec is None:
        raise InvalidArgumentError(
            f"strings: encoding {encoding!r}; use one of {sorted(codec_names)}"
        )
    return codec


def _unicode(text: bytes, encoding: str, errors: str, replacement: int) -> str:
    if errors not in ("replace", "strict", "ignore"):
        raise InvalidArgumentError(f"strings: errors {errors!r}; use replace, strict or ignore")
    try:
        decoded = text.decode(
            _codec(encoding) if encoding.upper() != "US ASCII" else "ascii", errors
        )
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"strings: {error}") from None
    return decoded.replace("\ufffd", chr(replacement)) if errors == "replace" else decoded
