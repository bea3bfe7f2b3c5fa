"""The lines of a journal: one JSON object each, chained by hashes; docs/runs.md has the format.

A line ends with `"c"`, the beginning of SHA-256 of the line before's hash and of this line up to
there. Whoever changes, drops or inserts a line breaks all that follow.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from typing import Any, NamedTuple

FORMAT = 1
FILE = "journal.jsonl"
START = bytes(32)
"""What stands for the hash before the first line."""

STEP_BYTES = 200
"""A line of a step is at most as long; metrics that do not fit stand at the end of the epoch."""
MOST_BYTES = 1 << 20
"""A line of any kind is at most as long."""
LARGEST_STEP = 1 << 53

_LINK = b',"c":"'
_LINK_BYTES = len(_LINK) + 8 + 2
"""The link and the brace that ends a line, without the line feed."""
STEP_ROOM = STEP_BYTES - _LINK_BYTES
"""What the line of a step has for all that stands before its link; a line feed ends it."""


class Step(NamedTuple):
    """A step, as its line says.

    Attributes:
        step: its number in the run, from 1. Where several batches make one execution, the last.
        epoch: from 0.
        loss: of this step alone, as far as the loop tells it; `None` without one.
        metrics: as they were logged, by name.
        seconds: of wall time since the line before.
        waited: seconds of these in which data was waited for.
        batch: digest of the batch; `None` in steps that have none.
        random: digest of the generators after the step.
        weights: digest of the model's variables after the step.
        slots: digest of the optimizer's variables after the step.
        rate: the learning rate, in the first line and where it has changed.
        gradient: the length of all gradients together, where it was looked at.
    """

    step: int
    epoch: int
    loss: float | None
    metrics: dict[str, float]
    seconds: float
    waited: float
    batch: str | None
    random: str | None
    weights: str | None
    slots: str | None
    rate: float | None
    gradient: float | None


class BadLine(ValueError):
    """A line that is no line of a journal."""


# ------------------------------------------------------------------ numbers


def number_text(value: float, exact: bool = True) -> str:
    """A number as JSON; NaN and infinity as strings, since JSON has none.

    Args:
        value: any number.
        exact: all digits of a float32, else four.
    """
    text = f"{value:.9g}" if exact else f"{value:.4g}"
    return f'"{text}"' if text[-1] in "nf" else text


def number_of(value: Any) -> float | None:
    """The number of a value of JSON, `None` for what is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    return float(value) if value in ("nan", "inf", "-inf") else None


def plain(value: Any) -> Any:
    """A nest with NaN and infinity as strings and all numbers as Python's, ready for JSON."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else json.loads(number_text(number))


# ------------------------------------------------------------------ the chain


def sealed(body: bytes, before: bytes) -> tuple[bytes, bytes]:
    """A line with its link, and its hash.

    Args:
        body: a JSON object without the brace that ends it.
        before: the hash of the line before.
    """
    digest = hashlib.sha256(before + body).digest()
    return b"".join((body, _LINK, digest[:4].hex().encode(), b'"}\n')), digest


def hash_of(line: bytes, before: bytes) -> bytes | None:
    """The hash of a line, `None` where its link does not fit to the hash of the line before."""
    body, link = line[:-_LINK_BYTES], line[-_LINK_BYTES:]
    if not (link.startswith(_LINK) and link.endswith(b'"}')):
        return None
    digest = hashlib.sha256(before + body).digest()
    return digest if link[len(_LINK) : -2] == digest[:4].hex().encode() else None


# ------------------------------------------------------------------ lines


def encode(record: dict[str, Any]) -> bytes:
    """A record of any kind but a step's, as a line without its link.

    Raises:
        ValueError: it is longer than a line may be.
    """
    body = json.dumps(plain(record), separators=(",", ":"), allow_nan=False)[:-1].encode()
    if len(body) > MOST_BYTES - _LINK_BYTES - 1:
        raise ValueError(
            f"a record {record.get('kind')!r} of {len(body)} bytes does not fit into a line of "
            f"{MOST_BYTES}"
        )
    return body


def decode(line: bytes) -> dict[str, Any]:
    """The object of a line.

    Raises:
        BadLine: it is longer than lines are, or no JSON object.
    """
    if len(line) > MOST_BYTES:
        raise BadLine(f"a line of {len(line)} bytes; at most {MOST_BYTES} are allowed")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"a line is no JSON: {error}") from None
    if not isinstance(record, dict):
        raise BadLine(f"a line is a {type(record).__name__}, no JSON object")
    record.pop("c", None)
    return record


@functools.cache
def _usual_line(metrics: int) -> bytes:
    """The format of the line of a step with so many metrics, of which nothing else is due."""
    listed = b',"m":[%b]' % b",".join([b"%.9g"] * metrics) if metrics else b""
    return b'{"n":%d,"e":%d,"l":%.9g,"t":%.4g,"d":%.3g' + listed


def encode_step(values: Step, metrics: list[float]) -> bytes:
    """The line of a step without its link, at most `STEP_BYTES` with it.

    Args:
        values: what is written; of `metrics` only the numbers, in the next argument.
        metrics: in the order of the last record of names; the last are left out if need be.
    """
    step, epoch, loss, _, seconds, waited, batch, random, weights, slots, rate, gradient = values
    nothing_due = batch is random is weights is slots is rate is gradient is None
    if nothing_due and loss is not None and waited > 5e-8:
        numbers = (step, epoch, loss, seconds * 1e3, waited * 1e3, *metrics)
        body = _usual_line(len(metrics)) % numbers
        # NaN and infinity, which have an n, become strings below
        if len(body) < STEP_ROOM and body.find(b"n", 3) < 0:
            return body
    head = f'{{"n":{step},"e":{epoch}'
    if loss is not None:
        head += f',"l":{number_text(loss)}'
    head += f',"t":{seconds * 1e3:.4g}'
    if waited > 5e-8:
        head += f',"d":{waited * 1e3:.3g}'
    if batch or random or weights or slots:
        digests = zip("brws", (batch, random, weights, slots), strict=True)
        head += "".join([f',"{key}":"{digest}"' for key, digest in digests if digest is not None])
    if rate is not None:
        head += f',"lr":{number_text(rate)}'
    if gradient is not None:
        head += f',"g":{number_text(gradient, exact=False)}'
    room = STEP_ROOM - 1 - len(head) - len(',"m":[]')
    listed = [number_text(value) for value in metrics[: max(room, 0)]]
    text = ",".join(listed)
    while listed and len(text) > room:
        listed.pop()
        text = ",".join(listed)
    return (f'{head},"m":[{text}]' if listed else head).encode()


_DIGITS = set("0123456789abcdef")


def step_of(record: dict[str, Any], names: list[str]) -> Step:
    """The step of a line.

    Raises:
        BadLine: a field is not what the format says.
    """
    step, epoch = _whole(record, "n", 1), _whole(record, "e", 0)
    listed = record.get("m", [])
    if not isinstance(listed, list) or len(listed) > len(names):
        raise BadLine(f"step {step}: 'm' must list at most {len(names)} metrics, got {listed!r}")
    metrics = [number_of(value) for value in listed]
    if None in metrics:
        raise BadLine(f"step {step}: 'm' has something else than numbers")
    return Step(
        step,
        epoch,
        _number(record, "l"),
        {name: value for name, value in zip(names, metrics, strict=False) if value is not None},
        (_number(record, "t") or 0.0) / 1e3,
        (_number(record, "d") or 0.0) / 1e3,
        _digest(record, "b"),
        _digest(record, "r"),
        _digest(record, "w"),
        _digest(record, "s"),
        _number(record, "lr"),
        _number(record, "g"),
    )


def _whole(record: dict[str, Any], key: str, lowest: int) -> int:
    value = record.get(key)
    if type(value) is not int or not lowest <= value <= LARGEST_STEP:
        raise BadLine(f"{key!r} must be a whole number from {lowest}, got {value!r:.50}")
    return value


def _number(record: dict[str, Any], key: str) -> float | None:
    """The number under a key of a record, which may stand there as a text; `None` for none."""
    value = record.get(key)
    if value is None:
        return None
    number = number_of(value)
    if number is None:
        raise BadLine(f"{key!r} must be a number, got {value!r:.50}")
    return number


def _digest(record: dict[str, Any], key: str) -> str | None:
    value = record.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 16 or not _DIGITS.issuperset(value):
        raise BadLine(f"{key!r} must be 16 hexadecimal digits, got {value!r:.50}")
    return value
