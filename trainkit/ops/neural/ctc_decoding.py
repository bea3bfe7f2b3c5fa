"""Decoding of connectionist temporal classification: the labels that a network's logits stand for.

The search goes along the rows one by one, on the host. It has no gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMPOSITE, INTEGERS, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.coding.beam_search import best_labels
from trainkit.kernels.softmax.softmax_reference import log_softmax
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.vmap import moved, reshaped
from trainkit.ops.math.elementwise import cast
from trainkit.ops.vmap_rules.shared_rules import with_one_batch, with_two_batches


def _rule(logits: Spec, lengths: Spec, *, top_paths: int, **settings: Any) -> tuple[Spec, Spec]:
    batch, steps = logits.shape[:2]
    return Spec((top_paths, batch, steps), "int32"), Spec((batch, top_paths), logits.dtype)


@primitive(
    _rule,
    name="ctc_decode",
    semantics=COMPOSITE,
    lowering=Absent("its loop goes over time steps"),
    no_gradient=INTEGERS,
)
def _decode(
    xp: ArrayModule,
    logits: Array,
    lengths: Array,
    *,
    strategy: str,
    beam_width: int,
    top_paths: int,
    merge_repeated: bool,
    mask_index: int,
) -> tuple[Array, Array]:
    """Labels (top_paths, batch, time) and scores (batch, top_paths)."""
    x, heard = devices.to_numpy(logits), devices.to_numpy(lengths)
    if heard.size and not 0 <= heard.min() <= heard.max() <= x.shape[1]:
        raise InvalidArgumentError(
            f"ctc_decode: sequence_lengths {heard.tolist()} must lie in [0, {x.shape[1]}], the "
            "number of time steps"
        )
    if strategy == "greedy":
        labels, scores = _greedy(x, heard, merge_repeated, mask_index)
    else:
        labels, scores = _beams(x, heard, beam_width, top_paths, mask_index)
    return xp.asarray(labels), xp.asarray(scores)


@_decode.batch_by
def _decode_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    labels, scores = primitive.op(*[with_one_batch(x, count) for x in inputs], **settings)
    paths, _, time = labels.shape
    labels = moved(reshaped(labels, (paths, count, -1, time)), 1, 0)
    return labels, with_two_batches(scores, count)


def ctc_decode(
    inputs: TensorLike,
    sequence_lengths: Any,
    strategy: str = "greedy",
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
    mask_index: int = 0,
) -> tuple[Tensor, Tensor]:
    """The labels that a network's logits stand for.

    Args:
        inputs: logits, (batch, time, classes).
        sequence_lengths: how many time steps count in each row, (batch,).
        strategy: "greedy" takes the best class at each time; "beam_search" adds up the paths that
            give the same labels and keeps the best prefixes.
        beam_width: how many prefixes are kept.
        top_paths: how many label sequences to give; 1 with "greedy".
        merge_repeated: with "greedy", take a class that repeats itself for one label.
        mask_index: the class that stands for a blank.

    Returns:
        Labels, (top_paths, batch, time), int32, -1 behind the end; and scores: with "greedy" the
        sum of the best logits with its sign changed, (batch, 1), else log chances, (batch,
        top_paths).

    Raises:
        InvalidArgumentError: the strategy is another, `top_paths` does not fit it, or a length is
            negative or beyond the time steps.
        ShapeError: ranks or batch sizes do not fit.

    Example:
        >>> paths, scores = tk.ops.ctc_decode(tk.zeros((1, 4, 3)), [4])
        >>> paths.shape
        TensorShape([1, 1, 4])
    """
    logits, lengths = as_tensor(inputs), as_tensor(sequence_lengths)
    if len(logits.shape) != 3 or not lengths.shape.is_compatible_with(logits.shape[:1]):
        raise ShapeError(
            "ctc_decode: inputs must be (batch, time, classes), sequence_lengths (batch,), got "
            f"shapes {tuple(logits.shape)} and {tuple(lengths.shape)}"
        )
    if logits.dtype.size < 4 or not logits.dtype.is_floating:
        logits = cast(logits, "float32")
    _check_search(strategy, beam_width, top_paths)
    labels, scores = _decode(
        logits,
        lengths,
        strategy=strategy,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
        mask_index=mask_index,
    )
    return labels, scores


def _check_search(strategy: str, beam_width: int, top_paths: int) -> None:
    if strategy not in ("greedy", "beam_search"):
        raise InvalidArgumentError(
            f"ctc_decode: strategy={strategy!r} must be 'greedy' or 'beam_search'"
        )
    if strategy == "greedy" and top_paths != 1:
        raise InvalidArgumentError(f"ctc_decode: 'greedy' gives 1 path, top_paths={top_paths}")
    if strategy == "beam_search" and not 1 <= top_paths <= beam_width:
        raise InvalidArgumentError(
            f"ctc_decode: top_paths={top_paths} must lie in [1, beam_width={beam_width}]"
        )


def _greedy(logits: Any, lengths: Any, merge: bool, blank: int) -> tuple[Any, Any]:
    batch, steps, classes = logits.shape
    best = logits.argmax(axis=-1)
    heard = np.arange(steps)[None, :] < lengths[:, None]
    scores = -np.where(heard, logits.max(axis=-1), 0).sum(axis=1, keepdims=True)
    emitted = heard & (best != blank % classes)
    if merge:
        emitted[:, 1:] &= best[:, 1:] != best[:, :-1]
    labels = np.full((1, batch, steps), -1, np.int32)
    for row in range(batch):
        sequence = best[row, emitted[row]]
        labels[0, row, : sequence.size] = sequence
    return labels, scores.astype(logits.dtype)


def _beams(logits: Any, lengths: Any, width: int, paths: int, blank: int) -> tuple[Any, Any]:
    batch, steps, classes = logits.shape
    labels = np.full((paths, batch, steps), -1, np.int32)
    scores = np.full((batch, paths), -np.inf, logits.dtype)
    chances = log_softmax(np, logits.astype(np.float64))
    for row in range(batch):
        best_paths = best_labels(chances[row, : lengths[row]], blank % classes, width)[:paths]
        for path, (sequence, score) in enumerate(best_paths):
            labels[path, row, : len(sequence)] = sequence
            scores[row, path] = score
    return labels, scores
