"""`TextVectorization`: texts as the numbers of their words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.config_values import config_scope
from trainkit.core.dtypes import string
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.registry import serialize_setting
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor
from trainkit.layers.base.arguments import one_of
from trainkit.layers.base.layer import Layer
from trainkit.layers.preprocessing.categorical import batches_of
from trainkit.layers.preprocessing.lookup import MODES, StringLookup, mode_of, tokens_in
from trainkit.ops.core.dynamic_shapes import Bound, needs_values

_PUNCTUATION = re.compile(rb"[!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~']")
_STANDARDS = ("lower_and_strip_punctuation", "lower", "strip_punctuation")
_SPLITS = ("whitespace", "character")


def _spec(a: Bound) -> Spec:
    layer, shape = a["layer"], convert_to_tensor(a["inputs"]).shape
    batch = tuple(shape[:-1] if len(shape) > 1 or layer.split is None else shape)
    length = layer.output_sequence_length if layer.output_mode == "int" else None
    return Spec((*batch, length), "int64")


@needs_values("inputs", gives=_spec)
def _numbered(inputs: Any, layer: Any) -> Any:
    """The numbers of the tokens of texts, filled up with 0 to the longest or a fixed length."""
    texts = _texts_of(inputs, layer)
    batch = texts.shape[:-1] if layer.split is None else texts.shape
    rows = [layer.lookup._indices_of(_objects(tokens)) for tokens in layer.tokens_of(texts)]
    length = layer.output_sequence_length if layer.output_mode == "int" else None
    length = tokens_in(rows) if length is None else length
    out = np.full((len(rows), length), 0 if layer.output_mode == "int" else -1, np.int64)
    for line, row in zip(out, rows, strict=True):
        line[: len(row)] = row[:length]
    return convert_to_tensor(out.reshape(*batch, length))


def _texts_of(inputs: Any, layer: Any) -> Any:
    """The texts as an array, without a last axis of size 1 if they are to be split.

    Raises:
        ShapeError: that axis has another size.
    """
    texts = devices.to_numpy(convert_to_tensor(inputs)._array)
    if layer.split is None or texts.ndim < 2:
        return texts
    if texts.shape[-1] != 1:
        raise ShapeError(
            f"TextVectorization {layer.name!r}: texts of shape {texts.shape} can't be split; "
            "their last axis must have size 1, or split must be None"
        )
    return texts[..., 0]


def _objects(tokens: list[Any]) -> Any:
    array = np.empty(len(tokens), object)
    array[:] = tokens
    return array


class TextVectorization(Layer):
    """Texts as the numbers of their words, or as vectors of which words they have.

    Shapes: input (batch,) or (batch, 1) of text, or one text; output (batch, tokens) of int64, or
        (batch, vocabulary) of floats. With `split=None` the elements along the last axis of the
        input are the tokens, (batch, tokens).

    Args:
        max_tokens: most words of the vocabulary, the special ones `""` and `"[UNK]"` included.
        standardize: `"lower_and_strip_punctuation"`, `"lower"`, `"strip_punctuation"`, `None`, or a
            function of a string tensor.
        split: `"whitespace"`, `"character"`, `None`, or a function that gives the tokens of one
            text.
        ngrams: up to how many neighbouring words count as one besides; or a tuple of numbers.
        output_mode: `"int"`, `"multi_hot"`, `"count"` or `"tf_idf"`.
        output_sequence_length: tokens to which rows are cut or filled up, for `"int"`.
        pad_to_max_tokens: whether vectors have `max_tokens` places, not as many as are in use.
        vocabulary: words by their number, or the path of a file; `adapt` learns it otherwise.
        idf_weights: weight of each word, for `"tf_idf"`.
        ragged: must be false: there are only dense tensors.
        encoding: of texts; UTF-8 is the only one.
        name: what the layer is called.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> layer = tk.layers.TextVectorization(output_sequence_length=4)
        >>> layer.adapt(["the cat sat", "the dog"])
        >>> layer(["The cat!"]).numpy()
        array([[2, 5, 0, 0]])
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: Any = "lower_and_strip_punctuation",
        split: Any = "whitespace",
        ngrams: Any = None,
        output_mode: str = "int",
        output_sequence_length: int | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Any = None,
        idf_weights: Any = None,
        sparse: bool = False,
        ragged: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        modes = tuple(mode for mode in MODES if mode != "one_hot")
        self.output_mode = output_mode = one_of(self, "output_mode", mode_of(output_mode), modes)
        for setting, value, choices in (
            ("standardize", standardize, _STANDARDS),
            ("split", split, _SPLITS),
        ):
            if value is not None and not callable(value):
                one_of(self, setting, value, choices)
        one_of(self, "ragged", bool(ragged), (False,))
        self.encoding = one_of(self, "encoding", encoding, ("utf-8",))
        if output_sequence_length is not None and output_mode != "int":
            raise InvalidArgumentError("TextVectorization: output_sequence_length goes with 'int'")
        self.standardize, self.split = standardize, split
        self.ngrams = self._lengths(ngrams)
        self.output_sequence_length = output_sequence_length
        # an empty text is no word in any mode: its number is 0, its vector all zeros
        self.lookup = StringLookup(
            max_tokens, 1, "", "[UNK]", vocabulary, idf_weights, False, output_mode,
            pad_to_max_tokens, sparse,
        )  # fmt: skip

    @staticmethod
    def _lengths(ngrams: Any) -> tuple[int, ...] | None:
        """How many neighbouring words count as one."""
        if ngrams is None:
            return None
        sizes = range(1, ngrams + 1) if isinstance(ngrams, int) else ngrams
        lengths = tuple(sizes) if isinstance(sizes, range | tuple | list) else ()
        if not lengths or not all(isinstance(n, int) and n > 0 for n in lengths):
            raise InvalidArgumentError(
                "TextVectorization: ngrams must be None, a positive int, or a tuple of such, "
                f"got {ngrams!r}"
            )
        return lengths

    # ------------------------------------------------------------------ the vocabulary

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Take a vocabulary in place of what was there; see `StringLookup`."""
        self.lookup.set_vocabulary(vocabulary, idf_weights)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """The words by their number, behind the special ones unless these are left out."""
        return self.lookup.get_vocabulary(include_special_tokens)

    def vocabulary_size(self) -> int:
        """How many words there are, special ones included."""
        return self.lookup.vocabulary_size()

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary from texts, the most frequent words first.

        Args:
            data: texts, or an iterable of batches of them.
            batch_size: a hint of Keras's that changes no result.
            steps: how many batches to look at; all by default.
        """
        with self.lookup.restored_on_error():
            self.reset_state()
            for batch in batches_of(data, steps):
                self.update_state(batch)
            self.finalize_state()

    def reset_state(self) -> None:
        """Forget what was learned."""
        self.lookup.reset_state()

    def update_state(self, data: Any) -> None:
        """Count the words of a batch of texts."""
        texts = _texts_of(data, self)
        # Each text is a document; one that is split already lies along the last axis.
        for tokens in self.tokens_of(texts[:, None] if texts.ndim == 1 else texts):
            self.lookup.update_state(_objects(tokens).reshape(1, -1))

    def finalize_state(self) -> None:
        """Make the vocabulary of what was counted."""
        self.lookup.finalize_state()

    # ------------------------------------------------------------------ looking up

    def tokens_of(self, texts: Any) -> list[list[bytes]]:
        """The tokens of each text of an array; without `split` of each row.

        Raises:
            InvalidArgumentError: the array holds numbers.
        """
        if texts.dtype != object:
            raise InvalidArgumentError(
                f"TextVectorization {self.name!r}: takes text, got {texts.dtype}"
            )
        if callable(self.standardize):
            texts = np.asarray(self.standardize(convert_to_tensor(texts, dtype=string))._array)
        standard = [self._standard(text) for text in texts.ravel().tolist()]
        if self.split is not None:
            return [self._with_ngrams(self._split(text)) for text in standard]
        size = texts.shape[-1] if texts.ndim else 1
        starts = range(0, len(standard), size) if size else []
        return [self._with_ngrams(standard[i : i + size]) for i in starts]

    def _standard(self, text: bytes) -> bytes:
        if self.standardize in ("lower", "lower_and_strip_punctuation"):
            text = text.lower()
        if self.standardize in ("strip_punctuation", "lower_and_strip_punctuation"):
            text = _PUNCTUATION.sub(b"", text)
        return text

    def _split(self, text: bytes) -> list[bytes]:
        if self.split == "whitespace":
            return text.split()
        if self.split == "character":
            return [c.encode() for c in text.decode(errors="replace")]
        pieces: list[bytes] = (
            convert_to_tensor(self.split(convert_to_tensor(text))).numpy().tolist()
        )
        return pieces

    def _with_ngrams(self, tokens: list[bytes]) -> list[bytes]:
        if self.ngrams is None:
            return tokens
        return [
            b" ".join(tokens[i : i + n]) for n in self.ngrams for i in range(len(tokens) - n + 1)
        ]

    def call(self, inputs: Any) -> Any:
        return self.lookup._encode(_numbered(inputs, self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        settings = {name: value for name, value in config.items() if name != "vocabulary_size"}
        with config_scope():
            return super().from_config(settings)

    def load_assets(self, folder: str) -> None:
        """Take the vocabulary from a file of Keras's; see `StringLookup`."""
        self.lookup.load_assets(folder)

    def get_config(self) -> dict[str, Any]:
        inner = self.lookup.get_config()
        setting_names = ("max_tokens", "pad_to_max_tokens", "sparse", "vocabulary", "idf_weights")
        return {
            **super().get_config(),
            **{name: inner[name] for name in setting_names},
            "standardize": _config_of(self.standardize),
            "split": _config_of(self.split),
            "ngrams": self.ngrams,
            "output_mode": self.output_mode,
            "output_sequence_length": self.output_sequence_length,
            "ragged": False,
            "encoding": self.encoding,
        }


def _config_of(setting: Any) -> Any:
    return serialize_setting(setting) if callable(setting) else setting
