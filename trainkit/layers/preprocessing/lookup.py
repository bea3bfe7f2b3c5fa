"""Layers that number texts and integers by a vocabulary: StringLookup, IntegerLookup."""

from __future__ import annotations

import collections
import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import devices
from trainkit.core.config_values import check_outside_file, config_scope
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.core.files.local_paths import local_path, path_text
from trainkit.core.files.readable_files import read_text
from trainkit.core.fingerprints import fingerprint64, siphash
from trainkit.core.shapes import Spec
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.trackable import set_silently
from trainkit.core.values.text_arrays import as_bytes
from trainkit.layers.base.arguments import one_of, whole
from trainkit.layers.base.layer import Layer
from trainkit.layers.preprocessing.categorical import batches_of, checked_salt, encoded
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values
from trainkit.ops.indexing.integer_tables import number_tokens, tokens_of_numbers

MODES = ("int", "one_hot", "multi_hot", "count", "tf_idf")
VOCABULARY_FILE = "vocabulary.txt"
_OLDER_MODES = {"binary": "multi_hot", "tf-idf": "tf_idf"}


def mode_of(name: str) -> str:
    """An output mode by its name, older names included."""
    return _OLDER_MODES.get(name, name)


def _numbered_spec(a: Bound) -> Spec:
    lookup = a["lookup"]
    return like(a["inputs"], lookup.token_dtype if lookup.invert else "int64")


def _as_data(a: Bound) -> Any:
    """What numbers integers, for a file of graphs; text is in none."""
    return a["lookup"]._as_data()


@needs_values("inputs", gives=_numbered_spec, data=_as_data)
def numbered(inputs: Any, lookup: Any) -> Any:
    """The numbers of tokens, or with `invert` the tokens of numbers."""
    array = devices.to_numpy(convert_to_tensor(inputs)._array)
    if lookup.invert:
        return lookup._tokens_of(array)
    return convert_to_tensor(lookup._indices_of(array))


_LEARNED = (
    "_counts", "_documents", "_rows", "_has_vocabulary", "_tokens", "_table", "_oov", "_weights",
    "_weighs_special",
)  # fmt: skip
"""The attributes that `adapt` sets."""


class Lookup(Layer):
    """What `StringLookup` and `IntegerLookup` share; the arguments are described there."""

    token_dtype = "string"
    _noted: frozenset[str] = frozenset({"vocabulary_size"})  # Keras writes it, and nobody needs it

    def __init__(
        self,
        max_tokens: int | None,
        num_oov_indices: int,
        mask_token: Any,
        oov_token: Any,
        vocabulary: Any,
        idf_weights: Any,
        invert: bool,
        output_mode: str,
        sparse: bool,
        pad_to_max_tokens: bool,
        salt: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.salt = checked_salt(self, salt)
        self.output_mode = one_of(self, "output_mode", mode_of(output_mode), MODES)
        self.num_oov_indices = whole(self, "num_oov_indices", num_oov_indices, 0)
        self.sparse = one_of(self, "sparse", bool(sparse), (False,))
        self.max_tokens, self.invert = max_tokens, bool(invert)
        self.mask_token, self.oov_token = mask_token, oov_token
        self.pad_to_max_tokens = bool(pad_to_max_tokens)
        if invert and output_mode != "int":
            raise InvalidArgumentError(f"{self._who()}: invert=True needs output_mode='int'")
        if pad_to_max_tokens and max_tokens is None:
            raise InvalidArgumentError(f"{self._who()}: pad_to_max_tokens needs max_tokens")
        if max_tokens is not None and max_tokens <= len(self._special()):
            raise InvalidArgumentError(
                f"{self._who()}: max_tokens {max_tokens} leaves no room besides {self._special()}"
            )
        self.reset_state()
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)
        elif idf_weights is not None:
            raise InvalidArgumentError(f"{self._who()}: idf_weights go with a vocabulary")

    def _hash_of_text(self, text: bytes) -> int:
        """A hash that is the same everywhere, or with a salt one that nobody foresees."""
        if self.salt is None:
            return fingerprint64(text)
        return siphash(text, key=(self.salt[0], self.salt[1]))

    def _who(self) -> str:
        return f"{type(self).__name__} {self.name!r}"

    def _special(self) -> list[Any]:
        """The tokens before those of the vocabulary."""
        masked = self.mask_token is not None and self.output_mode == "int"
        return [self.mask_token] * masked + [self.oov_token] * self.num_oov_indices

    def _key(self, token: Any) -> Any:
        """A token as the table has it."""
        raise NotImplementedError

    def _shown(self, token: Any) -> Any:
        """A token as users see it."""
        raise NotImplementedError

    def _hash(self, token: Any) -> int:
        """What decides between several numbers for unknown tokens."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the vocabulary

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Take a vocabulary in place of what was there.

        Args:
            vocabulary: tokens by their number, with or without the special ones before them; or the
                path of a text file with one token a line.
            idf_weights: weight of each, for `output_mode="tf_idf"`. Special tokens that the
                vocabulary leaves out weigh what the others do on average.

        Raises:
            InvalidArgumentError: a token comes twice or there are too many, or weights are missing;
                the file can't be read as text.
            NotFoundError: there is no such file.
            ConfigError: a config is being read in safe mode, and the path stands in it.
        """
        listed = self._lines(vocabulary) if _is_path(vocabulary) else _list(vocabulary)
        tokens = [self._shown(self._key(token)) for token in listed]
        special = self._special()
        weights = None if idf_weights is None else np.asarray(idf_weights, np.float32)
        special_weights = None
        if special and tokens[: len(special)] == special:
            tokens = tokens[len(special) :]
            if weights is not None:
                special_weights, weights = np.split(weights, [len(special)])
        twice = [t for t, n in collections.Counter(tokens).items() if n > 1]
        reserved = {self.mask_token} | ({self.oov_token} if self.invert else set())
        inside = [token for token in tokens if token is not None and token in reserved]
        if twice or inside:
            raise InvalidArgumentError(
                f"{self._who()}: the vocabulary must have each token once, and the special ones "
                f"{special} only at its start; see {twice[:5] or inside}"
            )
        room = self._room()
        if room is not None and len(tokens) > room:
            raise InvalidArgumentError(
                f"{self._who()}: {len(tokens)} tokens, max_tokens {self.max_tokens} has room for "
                f"{room} besides {special}"
            )
        if self.output_mode == "tf_idf" and (weights is None or len(weights) != len(tokens)):
            raise InvalidArgumentError(
                f"{self._who()}: output_mode='tf_idf' needs idf_weights, one for each of "
                f"{len(tokens)} tokens"
            )
        self._install(tokens, weights, special_weights)

    def _lines(self, path: Any) -> list[str]:
        """The lines of a text file, which no config may name."""
        check_outside_file(path_text(path), self._who(), "a vocabulary")
        text = read_text(path, "vocabulary")
        return text.removesuffix("\n").split("\n") if text else []

    def _install(self, tokens: list[Any], weights: Any, special_weights: Any = None) -> None:
        first = len(self._special())
        self._has_vocabulary = True
        self._tokens = tuple(tokens)
        self._table = {self._key(token): first + i for i, token in enumerate(tokens)}
        if self.mask_token is not None:  # its vector is all zeros
            self._table[self._key(self.mask_token)] = 0 if self.output_mode == "int" else -1
        self._oov = first - 1 if self.num_oov_indices == 1 else None
        self._weights: Any = None
        self._weighs_special = special_weights is not None
        if weights is not None:
            if special_weights is None:
                mean = weights.mean() if weights.size else 1.0
                special_weights = np.full(first, mean, np.float32)
            self._weights = np.concatenate([special_weights, weights])

    def _room(self) -> int | None:
        return None if self.max_tokens is None else self.max_tokens - len(self._special())

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """The tokens by their number, behind the special ones unless these are left out."""
        return (self._special() if include_special_tokens else []) + list(self._tokens)

    def vocabulary_size(self) -> int:
        """How many tokens there are, special ones included."""
        return len(self._special()) + len(self._tokens)

    # ------------------------------------------------------------------ learning it

    def reset_state(self) -> None:
        """Forget what was learned."""
        self._counts: Any = collections.Counter()
        self._documents: Any = collections.Counter()
        self._rows = 0
        self._install([], None)
        self._has_vocabulary = False

    def adapt(self, data: Any, steps: int | None = None) -> None:
        """Learn the vocabulary from data, the most frequent tokens first.

        Args:
            data: an array or tensor, or an iterable of batches.
            steps: how many batches to look at; all by default.
        """
        with self.restored_on_error():
            self.reset_state()
            for batch in batches_of(data, steps):
                self.update_state(batch)
            self.finalize_state()

    @contextlib.contextmanager
    def restored_on_error(self) -> Iterator[None]:
        """Give the layer back what it had learned if it can't learn something else."""
        before = {name: self.__dict__[name] for name in _LEARNED}
        try:
            yield
        except BaseException:
            set_silently(self, **before)
            raise

    def update_state(self, data: Any) -> None:
        """Count the tokens of a batch."""
        array = devices.to_numpy(convert_to_tensor(data)._array)
        rows = array.reshape(len(array), -1) if array.ndim > 1 else array.reshape(-1, 1)
        for row in rows.tolist():
            self._counts.update(row)
            self._documents.update(set(row))
        self._rows += len(rows)

    def finalize_state(self) -> None:
        """Make the vocabulary of what was counted; of equal counts the later token comes first."""
        left_out = {
            self._key(token) for token in (self.mask_token, self.oov_token) if token is not None
        }
        counted = [(n, token) for token, n in self._counts.items() if token not in left_out]
        keys = [token for _, token in sorted(counted, reverse=True)][: self._room()]
        weights = None
        if self.output_mode == "tf_idf":
            document_counts = np.array([self._documents[key] for key in keys], np.float32)
            weights = np.log(1 + self._rows / (1 + document_counts))
        self._install([self._shown(key) for key in keys], weights)

    # ------------------------------------------------------------------ looking up

    def _require_vocabulary(self) -> None:
        """Refuse to call every token unknown before there is a vocabulary."""
        if not self._has_vocabulary:
            raise FailedPreconditionError(
                f"{self._who()}: has no vocabulary yet; call adapt(data) or set_vocabulary first"
            )

    def _indices_of(self, array: Any) -> Any:
        """The numbers of the tokens in an array."""
        wanted_text = self.token_dtype == "string"
        if (array.dtype == object) != wanted_text:
            raise InvalidArgumentError(
                f"{self._who()}: takes {'text' if wanted_text else 'integers'}, got "
                f"{as_dtype(array.dtype).name}"
            )
        self._require_vocabulary()
        table, oov = self._table, self._oov
        items = array.ravel().tolist()
        indices = [table.get(item, oov) for item in items]
        if self.num_oov_indices > 1:
            self._number_unknown(items, indices)
        elif oov is None and None in indices:
            raise InvalidArgumentError(
                f"{self._who()}: {items[indices.index(None)]!r} is not in the vocabulary, and "
                "num_oov_indices is 0"
            )
        return np.array(indices, np.int64).reshape(array.shape)

    def _number_unknown(self, items: list[Any], indices: list[Any]) -> None:
        """Give each unknown token one of several numbers, by its hash."""
        first = len(self._special()) - self.num_oov_indices
        for i, number in enumerate(indices):
            if number is None:
                indices[i] = first + self._hash(items[i]) % self.num_oov_indices

    def _as_data(self) -> Any:
        """An operation and its settings that number as the layer does now; none for text."""
        return None

    def _tokens_of(self, array: Any) -> Any:
        """The tokens with the numbers in an array."""
        self._require_vocabulary()
        vocabulary = [self._key(token) for token in self.get_vocabulary()]
        other = self._key(self.oov_token)
        tokens = [
            vocabulary[i] if 0 <= i < len(vocabulary) else other for i in array.ravel().tolist()
        ]
        out = np.empty(len(tokens), as_dtype(self.token_dtype).dtype)
        for i, token in enumerate(tokens):
            out[i] = token
        return string_results(out.reshape(array.shape))

    def call(self, inputs: Any) -> Any:
        if not self._tokens and not self.invert and self.output_mode != "int":
            raise InvalidArgumentError(f"{self._who()}: has no vocabulary; call adapt first")
        return self._encode(numbered(inputs, self))

    def _encode(self, indices: Any) -> Any:
        if self.output_mode == "int":
            return indices
        size = self.max_tokens if self.pad_to_max_tokens else None
        depth = self.vocabulary_size() if size is None else size
        # As in Keras the mode alone decides, not the policy: that is in every configuration, so a
        # layer that is loaded would give another dtype than the one that was saved.
        dtype = "float32" if self.output_mode == "tf_idf" else "int64"
        mode = "count" if self.output_mode == "tf_idf" else self.output_mode
        vectors = encoded(indices, mode, depth, dtype)
        if self.output_mode != "tf_idf" or self._weights is None:
            return vectors
        weights = np.zeros(depth, np.float32)
        weights[: len(self._weights)] = self._weights
        return ops.multiply(vectors, ops.cast(weights, dtype))

    def load_assets(self, folder: str) -> None:
        """Take the vocabulary from a file of Keras's, which keeps one that was learned there.

        Args:
            folder: of the file `vocabulary.txt`.

        Raises:
            InvalidArgumentError: weights of tokens would be needed, too.
        """
        path = os.path.join(local_path(folder), VOCABULARY_FILE)
        if self._tokens or not os.path.isfile(path):
            return
        self.set_vocabulary(read_text(path, "vocabulary").rstrip("\n").split("\n"))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        settings = {name: value for name, value in config.items() if name not in cls._noted}
        with config_scope():
            return super().from_config(settings)

    def get_config(self) -> dict[str, Any]:
        names = ("max_tokens", "num_oov_indices", "mask_token", "oov_token", "invert",
                 "output_mode", "sparse", "pad_to_max_tokens", "salt")  # fmt: skip
        vocabulary, weights = list(self._tokens), self._weights
        if weights is not None and self._weighs_special:
            vocabulary = self.get_vocabulary()
        elif weights is not None:
            weights = weights[len(self._special()) :]
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "vocabulary": vocabulary if self._has_vocabulary else None,
            "idf_weights": None if weights is None else weights.tolist(),
        }


def _is_path(vocabulary: Any) -> bool:
    return isinstance(vocabulary, str | bytes | os.PathLike)


def _list(vocabulary: Any) -> list[Any]:
    """A vocabulary as a list."""
    if hasattr(vocabulary, "numpy"):
        vocabulary = vocabulary.numpy()
    return vocabulary.tolist() if hasattr(vocabulary, "tolist") else list(vocabulary)


class StringLookup(Lookup):
    """Texts as numbers, by their place in a vocabulary; or as vectors.

    Shapes: input any shape of text; output the same shape of int64, or with vectors behind it.

    Args:
        max_tokens: most tokens of the vocabulary, special ones included.
        num_oov_indices: 1 for a number that all unknown texts have, 0 to refuse them; more to
            share them out by a hash.
        mask_token: a text whose number is 0, none by default.
        oov_token: what unknown texts are called.
        vocabulary: tokens by their number, or the path of a file; `adapt` learns it otherwise.
        idf_weights: weight of each token, for `output_mode="tf_idf"`.
        invert: whether numbers are turned into texts instead.
        output_mode: `"int"`, `"one_hot"`, `"multi_hot"`, `"count"` or `"tf_idf"`.
        pad_to_max_tokens: whether vectors have `max_tokens` places, not as many as are in use.
        encoding: of texts; UTF-8 is the only one.
        salt: one int or two, the key of the hash that shares unknown texts out.
        name: what the layer is called.

    Raises:
        InvalidArgumentError: a setting is none of these, or the vocabulary has a token twice.

    Example:
        >>> layer = tk.layers.StringLookup(vocabulary=["cat", "dog"])
        >>> layer(["dog", "cat", "cow"]).numpy()
        array([2, 1, 0])
    """

    _noted = frozenset({"vocabulary_size", "oov_method", "vocabulary_dtype"})

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: str | None = None,
        oov_token: str = "[UNK]",
        vocabulary: Any = None,
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        pad_to_max_tokens: bool = False,
        sparse: bool = False,
        encoding: str = "utf-8",
        salt: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, idf_weights, invert,
            output_mode, sparse, pad_to_max_tokens, salt, name=name, **kwargs,
        )  # fmt: skip
        self.encoding = one_of(self, "encoding", encoding, ("utf-8",))

    def _key(self, token: Any) -> Any:
        return as_bytes(token)

    def _shown(self, token: Any) -> Any:
        return token.decode()

    def _hash(self, token: Any) -> int:
        return self._hash_of_text(token)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "encoding": self.encoding}


class IntegerLookup(Lookup):
    """Integers as numbers, by their place in a vocabulary; or as vectors.

    The arguments are those of `StringLookup`, with integers as tokens.

    Args:
        max_tokens: as there, as are the others that are not named here.
        num_oov_indices: the same.
        mask_token: an integer whose number is 0, none by default.
        oov_token: what numbers of no token are turned into by `invert`.
        vocabulary: integers by their number.
        vocabulary_dtype: int64 or int32.
        idf_weights: the same.
        invert: the same.
        output_mode: the same.
        sparse: must be false.
        pad_to_max_tokens: the same.
        oov_method: how several numbers are shared out among unknown integers: `"floormod"`, by the
            remainder of a division, or `"farmhash"`, by a hash of their digits.
        salt: as there; for `oov_method="farmhash"`.
        name: the same.

    Example:
        >>> layer = tk.layers.IntegerLookup(vocabulary=[12, 36])
        >>> layer([36, 12, 5]).numpy()
        array([2, 1, 0])
    """

    token_dtype = "int64"

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: int | None = None,
        oov_token: int = -1,
        vocabulary: Any = None,
        vocabulary_dtype: str = "int64",
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        oov_method: str = "floormod",
        salt: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, idf_weights, invert,
            output_mode, sparse, pad_to_max_tokens, salt, name=name, **kwargs,
        )  # fmt: skip
        self.oov_method = one_of(self, "oov_method", oov_method, ("floormod", "farmhash"))
        if salt is not None and oov_method != "farmhash":
            raise InvalidArgumentError(f"{self._who()}: salt goes with oov_method='farmhash'")
        self.token_dtype = one_of(
            self, "vocabulary_dtype", as_dtype(vocabulary_dtype).name, ("int64", "int32")
        )

    def _key(self, token: Any) -> Any:
        return int(token)

    def _shown(self, token: Any) -> Any:
        return int(token)

    def _hash(self, token: Any) -> int:
        return self._hash_of_text(b"%d" % token) if self.oov_method == "farmhash" else int(token)

    def _as_data(self) -> Any:
        self._require_vocabulary()
        if self.invert:
            tokens = tuple(self._key(token) for token in self.get_vocabulary())
            other = self._key(self.oov_token)
            return tokens_of_numbers, {"tokens": tokens, "other": other, "dtype": self.token_dtype}
        tokens = tuple(sorted(self._table))
        return number_tokens, {
            "tokens": tokens,
            "numbers": tuple(self._table[token] for token in tokens),
            "first": len(self._special()) - self.num_oov_indices,
            "count": self.num_oov_indices,
            "hashed": self.oov_method == "farmhash",
            "salt": None if self.salt is None else tuple(self.salt),
        }

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_dtype": self.token_dtype,
            "oov_method": self.oov_method,
        }


def tokens_in(rows: Iterable[Any]) -> int:
    """The most tokens that one of some rows has."""
    return max(map(len, rows), default=0)
