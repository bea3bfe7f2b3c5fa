"""Connectionist temporal classification against all paths, one by one."""

import itertools

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError


def merged(path, blank):
    kept = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
    return tuple(c for c in kept if c != blank)


def chances_of_labels(logits, blank):
    """The chance of each label sequence, from all paths."""
    powers = np.exp(logits)
    chance = powers / powers.sum(-1, keepdims=True)
    found = {}
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        key = merged(path, blank)
        found[key] = found.get(key, 0) + np.prod(chance[range(len(logits)), path])
    return found


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("label", [(1,), (1, 1), (3, 1), ()])
def test_loss_is_minus_the_log_of_all_paths_that_give_the_labels(rng, blank, label):
    logits = rng.normal(size=(2, 5, 4))
    target = np.full((2, 2), 9, "int32")  # what lies behind the labels is not looked at
    target[:, : len(label)] = label
    lengths = np.full(2, len(label), "int32")
    loss = ops.ctc_loss(target, logits, lengths, np.array([5, 4]), mask_index=blank).numpy()
    for row, steps in enumerate((5, 4)):
        chance = chances_of_labels(logits[row, :steps], blank)[label]
        np.testing.assert_allclose(loss[row], -np.log(chance), rtol=1e-9)


def test_too_few_steps_for_the_labels_cost_infinitely_much():
    loss = ops.ctc_loss([[1, 1]], np.zeros((1, 2, 3), "float32"), [2], [2])
    assert loss.numpy() == np.inf


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"target": [[5, 1]]}, InvalidArgumentError, r"not in \[0, 3\)"),
        ({"target_length": [3]}, InvalidArgumentError, "target_length"),
        ({"output_length": [9]}, InvalidArgumentError, "output_length"),
        ({"mask_index": 3}, InvalidArgumentError, "mask_index=3"),
        ({"target_length": [1, 1]}, ShapeError, "batch sizes differ"),
        ({"target": [1]}, ShapeError, "number of axes"),
    ],
)
def test_bad_input_is_named(change, error, words):
    call = {
        "target": [[1, 2]],
        "output": np.zeros((1, 4, 3), "float32"),
        "target_length": [2],
        "output_length": [4],
    }
    with pytest.raises(error, match=words):
        ops.ctc_loss(**{**call, **change})


def test_greedy_decoding_takes_the_best_class_at_each_time():
    best = [1, 1, 0, 1, 2, 2]
    logits = (np.eye(3) * 4)[best][None].astype("float32")
    labels, score = ops.ctc_decode(logits, [6])
    np.testing.assert_array_equal(labels.numpy(), [[[1, 1, 2, -1, -1, -1]]])
    np.testing.assert_allclose(score.numpy(), [[-24]])
    labels, _ = ops.ctc_decode(logits, [3], merge_repeated=False)
    np.testing.assert_array_equal(labels.numpy(), [[[1, 1, -1, -1, -1, -1]]])


def test_decoding_in_a_graph_keeps_what_is_known_of_the_shapes(rng):
    f = tk.function(
        lambda x, n: ops.ctc_decode(x, n, "beam_search", beam_width=4, top_paths=2),
        input_signature=[tk.TensorSpec([None, 5, 3]), tk.TensorSpec([None], tk.int32)],
    )
    assert f.get_concrete_function().output_shapes == ((2, None, 5), (None, 2))
    logits = tk.constant(rng.normal(size=(2, 5, 3)).astype("float32"))
    expected = ops.ctc_decode(logits, [5, 3], "beam_search", beam_width=4, top_paths=2)
    for a, b in zip(f(logits, tk.constant([5, 3])), expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_decoding_names_shapes_that_do_not_fit(shape):
    words = r"ctc_decode: inputs must be \(batch, time, classes\), sequence_lengths \(batch,\)"
    with pytest.raises(ShapeError, match=words):
        ops.ctc_decode(np.zeros(shape, "float32"), [4])


def test_beam_search_finds_the_likeliest_labels(rng):
    logits = rng.normal(size=(1, 5, 3))
    labels, scores = ops.ctc_decode(logits, [5], "beam_search", beam_width=200, top_paths=3)
    found = chances_of_labels(logits[0], 0)
    best = sorted(found, key=found.get, reverse=True)[:3]
    for path, label in enumerate(best):
        expected = [*label, *[-1] * (5 - len(label))]
        np.testing.assert_array_equal(labels.numpy()[path, 0], expected)
        np.testing.assert_allclose(scores.numpy()[0, path], np.log(found[label]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strategy": "random"}, "'random'"),
        ({"top_paths": 2}, "gives 1 path"),
        ({"strategy": "beam_search", "beam_width": 2, "top_paths": 3}, "beam_width=2"),
    ],
)
def test_a_decoding_that_is_not_supported_is_named(settings, words):
    with pytest.raises(InvalidArgumentError, match=words):
        ops.ctc_decode(np.zeros((1, 4, 3), "float32"), [4], **settings)
