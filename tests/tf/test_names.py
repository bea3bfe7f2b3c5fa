"""Names without a row in the table of values, errors, and names that are left out."""

import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.tf.left_out import LEFT_OUT


def test_edit_distance_counts_edits():
    found = tk.edit_distance([[1, 2, 3, -1], [4, -1, -1, -1]], [[1, 3, -1], [5, 4, 6]], False)
    np.testing.assert_array_equal(found, [1, 2])
    shares = tk.edit_distance([[1, 2], [1, -1], [-1, -1]], [[2, 1], [-1, -1], [-1, -1]])
    np.testing.assert_array_equal(shares, [1, np.inf, 0])


def test_grad_pass_through_keeps_values_and_passes_gradients():
    x = tk.constant([0.4, 1.6])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.grad_pass_through(tk.round)(x) * tk.constant([3.0, 5.0])
    np.testing.assert_array_equal(y, [0, 10])
    np.testing.assert_array_equal(tape.gradient(y, x), [3, 5])


def test_logm_is_the_inverse_of_expm():
    x = tk.constant([[0.3, -0.2], [0.5, 0.1]], dtype="float64")
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.linalg.logm(tk.linalg.expm(x))
    np.testing.assert_allclose(y, x, rtol=1e-12)
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.reduce_sum(tk.linalg.logm(tk.linalg.expm(x)) * weights)
    np.testing.assert_allclose(tape.gradient(y, x), weights, rtol=1e-8)


def test_lu_parts_fit_together():
    x = np.random.RandomState(0).normal(size=(2, 3, 3))
    packed, order = tk.linalg.lu(x)
    np.testing.assert_allclose(tk.linalg.lu_reconstruct(packed, order), x, rtol=1e-12)
    np.testing.assert_allclose(
        tk.linalg.lu_matrix_inverse(packed, order), np.linalg.inv(x), rtol=1e-9
    )


def test_inverse_stft_undoes_stft():
    wave = np.random.RandomState(0).normal(size=40).astype("float32")
    spectrum = tk.signal.stft(wave, 8, 4)
    back = tk.signal.inverse_stft(spectrum, 8, 4, window_fn=tk.signal.inverse_stft_window_fn(4))
    np.testing.assert_allclose(back[4:-4], wave[4:-4], atol=1e-5)


def test_ctc_decoders_give_labels():
    best = [[2, 2, 0, 1], [3, 1, 1, 3]]  # class 3 is the blank
    logits = np.full((4, 2, 4), -4.0, "float32")
    for row, path in enumerate(best):
        logits[np.arange(4), row, path] = 4.0
    for decoder in (tk.nn.ctc_greedy_decoder, tk.nn.ctc_beam_search_decoder):
        (labels,), scores = decoder(logits, [4, 3])
        np.testing.assert_array_equal(labels.to_dense(), [[2, 0, 1], [1, -1, -1]])
        np.testing.assert_array_equal(labels.indices, [[0, 0], [0, 1], [0, 2], [1, 0]])
        np.testing.assert_array_equal(labels.dense_shape, [2, 3])
        assert scores.shape == (2, 1)
    with pytest.raises(
        tk.errors.InvalidArgumentError,
        match=r"ctc_decode: sequence_lengths \[5, 3\] must lie in \[0, 4\]",
    ):
        tk.nn.ctc_greedy_decoder(logits, [5, 3])


def test_ctc_decoders_and_sparse_labels_are_nodes_of_a_graph():
    logits = tk.constant(np.random.RandomState(0).normal(size=(6, 2, 4)).astype("float32"))
    lengths = tk.constant([6, 4])

    def decode(x, n):
        (greedy,), scores = tk.nn.ctc_greedy_decoder(x, n)
        beams, chances = tk.nn.ctc_beam_search_decoder(x, n, beam_width=5, top_paths=2)
        loss = tk.nn.ctc_loss(greedy, x, None, n, blank_index=-1)
        return greedy, scores, beams, chances, loss, beams[1].to_dense(-1)

    graph = tk.function(decode)
    expected = tk.nest.flatten(decode(logits, lengths))
    for a, b in zip(tk.nest.flatten(graph(logits, lengths)), expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    shapes = [y.shape.as_list() for y in graph.get_concrete_function(logits, lengths).outputs]
    assert shapes[:4] == [[None, 2], [None], [2], [2, 1]]
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"ctc_decode: sequence_lengths"):
        graph(logits, tk.constant([6, 7]))


@pytest.mark.parametrize("traced", [True, False])
def test_ctc_decoders_have_no_gradient(traced):
    @tk.function if traced else lambda f: f
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            _, scores = tk.nn.ctc_greedy_decoder(x, [6, 6])
        assert tape.gradient(scores, x) is None
        return scores

    slope(tk.ones([6, 2, 4]))


def test_ctc_decoders_name_what_does_not_fit():
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"greedy_decoder: inputs must be"):
        tk.nn.ctc_greedy_decoder(tk.ones([2, 4]), [2])


def test_ctc_loss_takes_sparse_labels():
    logits = np.random.RandomState(0).normal(size=(6, 2, 4)).astype("float32")
    (sparse,), _ = tk.nn.ctc_greedy_decoder(logits, [6, 6])
    dense, lengths = (
        sparse.to_dense(0),
        [int((row >= 0).sum()) for row in sparse.to_dense(-1).numpy()],
    )
    one = tk.nn.ctc_loss(sparse, logits, None, [6, 6], blank_index=-1)
    two = tk.nn.ctc_loss(dense, logits, lengths, [6, 6], blank_index=3)
    np.testing.assert_allclose(one, two)


def test_moving_average_follows_slowly():
    weight = tk.Variable([1.0, 2.0])
    average = tk.train.ExponentialMovingAverage(0.75)
    assert average.average(weight) is None
    average.apply([weight])
    weight.assign([5.0, 2.0])
    average.apply([weight])
    np.testing.assert_allclose(average.average(weight), [2.0, 2.0])


def test_moving_average_without_bias_begins_at_zero():
    weight = tk.Variable(4.0)
    average = tk.train.ExponentialMovingAverage(0.9, zero_debias=True)
    average.apply([weight])
    np.testing.assert_allclose(average.average(weight), 4.0, rtol=1e-5)


def test_moving_average_counts_updates():
    weight, steps = tk.Variable(0.0), tk.Variable(0, dtype="int64")
    average = tk.train.ExponentialMovingAverage(0.99, num_updates=steps)
    average.apply([weight])
    weight.assign(10.0)
    average.apply([weight])
    np.testing.assert_allclose(average.average(weight), 9.0, rtol=1e-6)
    with pytest.raises(tk.errors.InvalidArgumentError, match="decay"):
        tk.train.ExponentialMovingAverage(1.5)


def test_readers_list_and_load_arrays(tmp_path):
    weight = tk.Variable([1.0, 2.0, 3.0])
    checkpoint = tk.train.Checkpoint(weight=weight)
    first = checkpoint.save(tmp_path / "step")
    second = checkpoint.save(tmp_path / "step")
    assert ("weight", [3]) in tk.train.list_variables(tmp_path)
    np.testing.assert_array_equal(tk.train.load_variable(first, "weight"), [1, 2, 3])
    reader = tk.train.load_checkpoint(tmp_path)
    assert reader.has_tensor("weight")
    assert reader.get_variable_to_dtype_map()["weight"] == np.float32
    with pytest.raises(tk.errors.NotFoundError, match=r"it has .*weight"):
        reader.get_tensor("bias")
    state = tk.train.get_checkpoint_state(tmp_path)
    assert state.model_checkpoint_path == str(second)
    assert state.all_model_checkpoint_paths == [str(first), str(second)]
    assert list(tk.train.checkpoints_iterator(tmp_path, timeout=0)) == [str(second)]


def test_readers_without_a_checkpoint(tmp_path):
    assert tk.train.get_checkpoint_state(tmp_path) is None
    assert list(tk.train.checkpoints_iterator(tmp_path, timeout=0)) == []
    with pytest.raises(tk.errors.NotFoundError, match="no checkpoint"):
        tk.train.list_variables(tmp_path)


def test_assert_shows_its_data():
    tk.debugging.Assert(True, ["fine"])
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"too long.*\n.*7"):
        tk.debugging.Assert(False, ["too long", tk.constant(7)])


@pytest.mark.parametrize("value", [tk.constant([1.0]), np.zeros(2), "ab", 3])
def test_proper_iterables_are_lists(value):
    tk.debugging.assert_proper_iterable([1, 2])
    with pytest.raises(TypeError, match="list or tuple"):
        tk.debugging.assert_proper_iterable(value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tk.math.invert_permutation([0, 2]), "no permutation"),
        (lambda: tk.math.polyval(2.0, [1.0]), "must be a list"),
        (lambda: tk.dynamic_partition([1, 2], [0, 3], 2), "hold 3"),
        (lambda: tk.dynamic_stitch([[0]], []), "as many of each"),
        (lambda: tk.dynamic_stitch([[-1]], [[1.0]]), "negative"),
        (lambda: tk.histogram_fixed_width([1.0], [2.0, 2.0]), "is empty"),
        (lambda: tk.nn.space_to_depth(np.zeros((1, 3, 4, 1)), 2), "multiples of block_size"),
        (lambda: tk.nn.depth_to_space(np.zeros((1, 3, 4, 3)), 2), "multiple of 2"),
        (lambda: tk.space_to_batch(np.zeros((1, 3, 4, 1)), 2, [[0, 0], [0, 0]]), "multiples"),
        (lambda: tk.batch_to_space(np.zeros((3, 2, 2, 1)), 2, [[0, 0], [0, 0]]), "batch of 3"),
        (
            lambda: tk.nn.conv2d_transpose(
                np.zeros((1, 3, 3, 2), "f"), np.zeros((2, 2, 1, 2), "f"), [1, 9, 6, 1], 2
            ),
            "output_shape has 9 positions",
        ),
        (lambda: tk.nn.pool(np.zeros((1, 4, 1)), [2], "MIN"), "pooling_type"),
        (
            lambda: tk.nn.dilation2d(
                np.zeros((1, 4, 4, 2)), np.zeros((2, 2, 3)), 1, "SAME", "NHWC", 1
            ),
            "filters",
        ),
        (lambda: tk.nn.lrn(np.zeros((4, 4, 2))), "local_response_normalization"),
        (lambda: tk.linalg.sqrtm(np.zeros((2, 3))), "square"),
        (lambda: tk.linalg.sqrtm(np.diag([-1.0, -4.0, 2.0])), "no principal root|not invertible"),
        (lambda: tk.linalg.tridiagonal_matmul(np.zeros((2, 4)), np.zeros((4, 1))), "compact"),
        (lambda: tk.linalg.lu_solve(np.eye(3), [0, 1, 2], np.zeros(3)), "rhs"),
        (lambda: tk.signal.dct([1.0, 2.0], type=5), "type 5"),
        (lambda: tk.signal.frame([1.0, 2.0], 0, 1), "frame_length"),
        (lambda: tk.signal.linear_to_mel_weight_matrix(upper_edge_hertz=9000.0), "sample_rate"),
        (lambda: tk.bitcast(tk.constant([1, 2, 3]), "float64"), "size 2"),
        (lambda: tk.realdiv(1, 2), "truediv"),
    ],
)  # fmt: skip
def test_bad_input_names_the_function(call, words):
    with pytest.raises((ValueError, tk.errors.InvalidArgumentError), match=words):
        call()


SPACES = {"": tk, **{name: attrgetter(name)(tk) for name in LEFT_OUT if name}}


@pytest.mark.parametrize("space", LEFT_OUT)
def test_names_left_out_say_what_to_use(space):
    for name, advice in LEFT_OUT[space].items():
        with pytest.raises(AttributeError) as caught:
            getattr(SPACES[space], name)
        assert str(caught.value).endswith(advice), name


def test_misspelt_names_get_a_hint():
    with pytest.raises(AttributeError, match="reduce_sum"):
        tk.math.redce_sum  # noqa: B018


def test_docs_list_what_is_left_out():
    page = (Path(__file__).parents[2] / "docs" / "tensorflow_names.md").read_text()
    for space, names in LEFT_OUT.items():
        part = page.split(f"## `tk{'.' if space else ''}{space}`\n")[1].split("\n## ")[0]
        listed = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (.*?) \|", part, re.M))))
        assert listed == set(names), space


SCRIPTS = {
    "flip": lambda x: tk.image.stateless_random_flip_left_right(x, (1, 2)),
    "ssim": lambda x: tk.image.ssim(x, x * 0.9, 1.0, 5),
    "crop_and_resize": lambda x: tk.image.crop_and_resize(x, [[0.0, 0.1, 1, 1]], [0], (3, 3)),
    "max_pool_with_argmax": lambda x: tk.nn.max_pool_with_argmax(x, 2, 2, "SAME")[0],
    "space_to_batch": lambda x: tk.space_to_batch(x, 2, [[0, 0], [0, 0]]),
    "conv2d_transpose": lambda x: tk.nn.conv2d_transpose(
        x, np.ones((3, 3, 2, 3), "f"), [2, 12, 12, 2], 2
    ),
    "stft": lambda x: tk.abs(tk.signal.stft(tk.reshape(x, (2, -1)), 8, 4)),
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_graphs_give_what_eager_calls_give(script):
    x = np.random.RandomState(0).uniform(size=(2, 6, 6, 3)).astype("float32")
    graph = tk.function(script, input_signature=[tk.TensorSpec((None, 6, 6, 3), "float32")])
    np.testing.assert_allclose(graph(x), script(tk.constant(x)), rtol=1e-5, atol=1e-5)


def test_work_on_values_says_so_where_there_are_none():
    leaked = []
    tk.function(leaked.append).get_concrete_function(tk.TensorSpec([3], "int32"))
    with pytest.raises(tk.errors.InvalidArgumentError, match="dynamic_partition: works on values"):
        tk.dynamic_partition([1.0, 2.0, 3.0], leaked[0], 2)


ONE = ["abs", "exp", "sqrt", "square", "tanh", "sin", "floor", "negative", "sign"]
TWO = ["add", "subtract", "multiply", "maximum", "minimum", "pow", "equal", "less", "not_equal"]
LOGICAL = ["logical_and", "logical_or", "logical_xor"]


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def _half(request):
    before = native.switch(request.param)
    yield
    native.switch(before)


@pytest.mark.parametrize("name", ONE + TWO + LOGICAL)
@pytest.mark.usefixtures("_half")
def test_operations_take_tensorflows_names_of_arguments(name):
    operation = getattr(tk, name, None) or getattr(tk.math, name)
    x, y = (True, False) if name in LOGICAL else (tk.constant([1.0, 2.0]), tk.constant([3.0, 0.5]))
    if name in ONE:
        np.testing.assert_array_equal(operation(x=x, name="n"), operation(x))
        np.testing.assert_array_equal(operation(x, name="n"), operation(x))
        return
    for found in (operation(x=x, y=y, name="n"), operation(x, y=y), operation(x, y, name="n")):
        np.testing.assert_array_equal(found, operation(x, y))
    for wrong in ({"x": x}, {"y": y}, {"z": y}):
        with pytest.raises(TypeError, match="argument"):
            operation(x, y, **wrong)
    with pytest.raises(TypeError, match="argument"):
        operation(x, x=y)


def test_names_of_arguments_of_matrix_functions():
    m = tk.constant([[2.0, 0.5], [0.5, 1.0]])
    for name in ("cholesky", "det", "expm", "slogdet"):
        function = getattr(tk.linalg, name)
        for a, b in zip(
            tk.nest.flatten(function(input=m, name="n")), tk.nest.flatten(function(m)), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    assert float(tk.linalg.logdet(matrix=m, name="n")) == float(tk.linalg.logdet(m))
    v = tk.constant([1.0, 0.0, 0.0]), tk.constant([0.0, 1.0, 0.0])
    assert tk.linalg.cross(a=v[0], b=v[1], name="n").numpy().tolist() == [0, 0, 1]
    np.testing.assert_allclose(tk.math.l2_normalize([3.0, 4.0], dim=0), [0.6, 0.8], rtol=1e-6)


def test_other_names_are_tensorflows():
    z = tk.constant([1 + 2j])
    for name in ("real", "imag", "conj", "angle"):
        np.testing.assert_array_equal(
            getattr(tk.math, name)(z, name="n"), getattr(tk.math, name)(z)
        )
    assert tk.complex(real=1.0, imag=2.0, name="n").numpy() == 1 + 2j
    assert float(tk.atan2(y=1.0, x=2.0)) == float(tk.atan2(1.0, 2.0))
    assert int(tk.saturate_cast(value=300.0, dtype=tk.uint8, name="n")) == 255
    assert tk.unravel_index(indices=5, dims=[2, 4], name="n").numpy().tolist() == [1, 1]
    assert tk.unravel_index([5, 2], [2, 3]).numpy().tolist() == [[1, 0], [2, 2]]
    assert float(tk.round(x=2.5, name="n")) == 2.0
    assert float(tk.nn.relu(features=-1.0, name="n")) == 0.0
    for name in ("relu6", "elu", "selu", "softplus", "softsign", "silu", "swish"):
        function = getattr(tk.nn, name)
        assert float(function(features=0.5)) == float(function(0.5))
    assert float(tk.nn.silu(1.0, beta=2.0)) == pytest.approx(1 / (1 + np.exp(-2)))
