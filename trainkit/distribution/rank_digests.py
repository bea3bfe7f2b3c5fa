"""Do the ranks still hold the same? Digests of variables, settings and data, compared by all ranks.

Gradients are added up, so ranks go on without a word where one of them has another weight, loss or
data, to weights that no single process would come to. A digest of eight bytes tells.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trainkit.collectives.agreement import RanksDifferError, ranks_in_words
from trainkit.collectives.process_group import ProcessGroup
from trainkit.core import devices
from trainkit.core.tensor import is_tensor
from trainkit.core.variable import Variable

_SAMPLE_BYTES = 16 << 20
_BLOCKS = 64
_AUTOMATIC = frozenset({"name", "seed", "build_config", "registered_name"})
"""Settings that may differ: numbers in names count the objects that a process has made."""


class StatesDifferError(RanksDifferError):
    """The ranks hold other values or settings; all of them raise it, and the first one says it.

    Args:
        text: what differs, in which ranks, and what to do.
    """

    def __init__(self, text: str) -> None:
        super().__init__([], text)


# ---------------------------------------------------------------------- digests


def digest_of_array(array: Any, limit: int = _SAMPLE_BYTES) -> str:
    """A digest of an array, of evenly spaced blocks alone where it has more bytes than `limit`."""
    array = np.ascontiguousarray(array)
    digest = hashlib.blake2b(f"{array.dtype}{array.shape}".encode(), digest_size=8)
    if array.dtype.kind == "O":
        digest.update(repr(array.ravel()[:_BLOCKS].tolist()).encode())
        return digest.hexdigest()
    flat = array.reshape(-1).view(np.uint8)
    if flat.size <= limit:
        digest.update(flat)
        return digest.hexdigest()
    size = limit // _BLOCKS
    for start in np.linspace(0, flat.size - size, _BLOCKS).astype(np.int64).tolist():
        digest.update(flat[start : start + size])
    return digest.hexdigest()


def _digest_of_variable(variable: Variable) -> str:
    array = devices.to_numpy(variable._value._array)
    return digest_of_array(array, max(array.nbytes, 1))


def number_of(digests: Iterable[str]) -> int:
    """One positive number for many digests."""
    digest = hashlib.blake2b("".join(digests).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little") >> 1


def digests_of(variables: Mapping[str, Variable]) -> dict[str, str]:
    """The digest of each variable by its name."""
    return {name: _digest_of_variable(variable) for name, variable in variables.items()}


# ---------------------------------------------------------------------- settings in words


def text_of(value: Any) -> str:
    """What decides how an object computes, as a text that ranks can compare.

    Args:
        value: a number, text, function, array, an object with a config, or a nest of these.
    """
    if value is None or isinstance(value, bool | int | float | str | bytes | np.dtype | np.generic):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, Mapping):
        settings = {str(key): value[key] for key in value if key not in _AUTOMATIC}
        return f"{{{', '.join(f'{key}: {text_of(settings[key])}' for key in sorted(settings))}}}"
    if isinstance(value, np.ndarray) or is_tensor(value):
        return f"array {digest_of_array(np.asarray(value))}"
    if hasattr(value, "__code__"):
        return _text_of_function(value)
    return f"{type(value).__name__} {text_of(config_of(value))}"


def config_of(value: Any) -> dict[str, Any]:
    """The config of an object, nothing for one without."""
    read = getattr(value, "get_config", None)
    try:
        with warnings.catch_warnings():  # nothing is written, so nothing will have to be read again
            warnings.simplefilter("ignore")
            config = read() if callable(read) else {}
    except Exception:  # a class of the user's that can't say it: its name has to do
        config = {}
    return config if isinstance(config, dict) else {}


def _text_of_function(function: Callable[..., Any]) -> str:
    """Its name, its code and the plain values that it takes from around it."""
    code: Any = function.__code__
    constants = [x for x in code.co_consts if not hasattr(x, "co_code")]
    around = [_cell(cell) for cell in getattr(function, "__closure__", None) or ()]
    parts = (code.co_code, repr(constants), code.co_names, repr(around))
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
    return f"{getattr(function, '__qualname__', code.co_name)} ({digest})"


def _cell(cell: Any) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:  # not set yet
        return None
    return value if isinstance(value, bool | int | float | str) else type(value).__name__


# ---------------------------------------------------------------------- compared


def check_settings(group: ProcessGroup, settings: Mapping[str, str]) -> None:
    """Raise in all ranks where settings are not the same in all of them.

    Raises:
        StatesDifferError: a setting is another one in some rank; the text shows both.
    """
    short = {
        name: hashlib.blake2b(x.encode(), digest_size=8).hexdigest() for name, x in settings.items()
    }
    everywhere = group.exchange(short, "the settings of fit")
    if all(other == everywhere[0] for other in everywhere):
        return
    words = group.exchange(dict(settings), "the settings of fit in words")
    name = next(n for n in words[0] if len({rank.get(n) for rank in words}) > 1)
    listed = _by_value([str(rank.get(name)) for rank in words])
    raise StatesDifferError(
        f"fit: {name} is not the same in all ranks. {listed}. All ranks train one model on one "
        "data set, of which each takes its rows: give all of them the same, and seed what is drawn"
    )


def _by_value(values: Sequence[str]) -> str:
    """Which ranks have which value, shortened around the first difference."""
    start = next((i for i, cs in enumerate(zip(*values, strict=False)) if len(set(cs)) > 1), 0)
    who: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        who.setdefault(value, []).append(rank)
    begin = max(start - 60, 0) if max(map(len, values)) > 120 else 0
    cut = {v: ("…" if begin else "") + v[begin : begin + 120] for v in who}
    return "; ".join(f"{ranks_in_words(ranks)}: {cut[value]}" for value, ranks in who.items())


def raise_difference(group: ProcessGroup, variables: Mapping[str, Variable], when: str) -> None:
    """Raise in all ranks what differs, where a digest of all variables does.

    Raises:
        StatesDifferError: always; the text names ranks and the first variable.
    """
    everywhere = group.exchange(digests_of(variables), "the digests of variables")
    names = [n for n in everywhere[0] if len({rank.get(n) for rank in everywhere}) > 1]
    if not names:
        raise StatesDifferError(
            f"{when} the ranks have read other data: each takes its rows of batches that all of "
            "them make, so let the data be the same in all ranks, and seed what is drawn"
        )
    digests = [rank.get(names[0]) for rank in everywhere]
    others = [r for r, digest in enumerate(digests) if digest != digests[0]]
    same = [r for r, digest in enumerate(digests) if digest == digests[0]]
    variable = variables.get(names[0])
    is_number = variable is not None and not variable.shape.rank
    values = group.exchange(float(variable.numpy()) if is_number else None, "values that differ")  # type: ignore[union-attr]
    value_text = (
        f" ({', '.join(f'rank {r}: {value}' for r, value in enumerate(values))})"
        if is_number
        else ""
    )
    more = f", and {len(names) - 1} more variables differ" if len(names) > 1 else ""
    raise StatesDifferError(
        f"{when} the ranks do not hold the same: {names[0]} in {ranks_in_words(others)} is not "
        f"that of {ranks_in_words(same)}{value_text}{more}. A callback or a step has set it in "
        "some ranks only, or to other values: let all ranks set the same, and do no more by "
        "rank than print and write"
    )
