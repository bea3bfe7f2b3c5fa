"""Classes in other shares than they come in: elements are left out and repeated by chance.

A share m of what is given is drawn from all elements, the rest from elements of which those of
class i are kept with the chance a_i; p are the shares of the classes, t those that are wanted:

    m = min_i t_i / p_i,   a_i = (t_i / p_i - m) / (max_i t_i / p_i - m)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import rng
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import convert_to_tensor

_BATCH = 32
_SEEN = 10
"""Of each class, before the first element: so few elements say little of their shares."""
_NUMBERS = 2.0**32


def resampled(
    dataset: Any, class_func: Callable[..., Any], target: Any, initial: Any, seed: int | None
) -> Any:
    """The data set that `Dataset.rejection_resample` describes."""
    make = type(dataset)
    target_shares = _shares(target, "target_dist")
    pairs = dataset.map(lambda *element: _classify(class_func, element))
    if initial is None:
        counts = np.full(target_shares.shape, _SEEN, np.int64)
        batches = pairs.map(lambda label, element: label).batch(_BATCH)
        shares = batches.scan(
            counts, lambda counts_so_far, labels: _count(counts_so_far, labels)
        ).unbatch()
    else:
        initial_shares = _shares(initial, "initial_dist")
        if initial_shares.shape != target_shares.shape:
            raise InvalidArgumentError(
                f"rejection_resample: target_dist has {target_shares.size} classes, initial_dist "
                f"{initial_shares.size}"
            )
        shares = make.from_tensors(initial_shares).repeat()
    chances = shares.map(lambda p: _chances(p, convert_to_tensor(target_shares)))
    first = rng.next_seed() if seed is None else seed

    def drawn(number: int) -> Any:
        return make.random(first + number).map(lambda x: ops.cast(x, "float32") / _NUMBERS)

    accepted = make.zip(chances, pairs, drawn(0)).filter(
        lambda chance, pair, u: u < ops.take(chance[0], pair[0], axis=0)
    )
    sources = [pairs, accepted.map(lambda chance, pair, u: pair)]
    choice = make.zip(chances, drawn(1)).map(lambda chance, u: ops.cast(u >= chance[1], "int64"))
    return make.choose_from_datasets(sources, choice, stop_on_empty_dataset=True)


def _shares(distribution: Any, name: str) -> Any:
    shares = np.asarray(convert_to_tensor(distribution).numpy(), np.float32)
    if shares.ndim != 1 or not shares.size or not (shares >= 0).all() or not shares.sum() > 0:
        raise InvalidArgumentError(
            f"rejection_resample: {name} is {distribution}; it has a share of 0 or more for each "
            "class"
        )
    return shares


def _classify(class_func: Callable[..., Any], element: tuple[Any, ...]) -> Any:
    label = convert_to_tensor(class_func(*element))
    if not label.dtype.is_integer or len(label.shape):
        raise InvalidArgumentError(
            f"rejection_resample: class_func gave {label.dtype.name} of shape "
            f"{tuple(label.shape)}; it gives the number of a class, an integer scalar"
        )
    return label, element if len(element) > 1 else element[0]


def _count(counts: Any, labels: Any) -> Any:
    """The classes seen with those of a batch, and the shares of them, for each of its elements."""
    classes = int(counts.shape[0])
    counts = counts + ops.cast(ops.sum(ops.one_hot(labels, classes), axis=0), "int64")
    shares = ops.cast(counts, "float32") / ops.cast(ops.sum(counts), "float32")
    return counts, ops.tile(ops.expand_dims(shares, 0), (_BATCH, 1))


def _chances(shares: Any, target_shares: Any) -> tuple[Any, Any]:
    """a and m of the formula; everything is kept where the shares are those that are wanted."""
    ratio = target_shares / (shares + float(np.finfo(np.float32).tiny))
    lowest, greatest = ops.min(ratio), ops.max(ratio)
    apart = greatest > lowest
    spread = ops.where(apart, greatest - lowest, 1.0)
    return ops.where(apart, (ratio - lowest) / spread, 1.0), ops.where(apart, lowest, 1.0)
