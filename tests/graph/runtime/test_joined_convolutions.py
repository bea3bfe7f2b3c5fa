"""Convolutions joined to what follows them, and weights that are kept: the bits of eager calls."""

import gc

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import ShapeError
from trainkit.graph.ir.passes import optimised
from trainkit.graph.runtime.joined_convolutions import with_joined_convolutions
from trainkit.graph.runtime.sized_graphs import at_sizes
from trainkit.kernels.convolution import conv_tuned
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.matmul import prepared_weights
from trainkit.ops.neural.recurrence import lstm

layers = tk.layers


pytestmark = pytest.mark.usefixtures("eager")


def names(run, *arrays):
    graph = optimised(tk.function(run).get_concrete_function(*arrays).graph)
    return [n.primitive.name for n in with_joined_convolutions(graph).nodes if n.kind == "op"]


def assert_same_bits(run, *arrays, calls=5):
    """Of eager calls and of compiled ones, also once weights are kept."""
    expected = tk.nest.flatten(run(*arrays))
    for options in ({"jit_compile": True}, {"jit_compile": False}):
        f = tk.function(run, **options)
        for _ in range(calls):
            for a, b in zip(expected, tk.nest.flatten(f(*arrays)), strict=True):
                np.testing.assert_array_equal(b.numpy().view("int32"), a.numpy().view("int32"))


def randomized(rng, model):
    """Weights as if the model had been trained."""
    for variable in model.variables:
        value = rng.normal(size=variable.shape).astype("float32")
        variable.assign(0.1 + np.abs(value) if "variance" in variable.name else 0.3 * value)
    return model


def normalized(x, rectifier=None, **settings):
    x = layers.BatchNormalization(**settings)(x)
    return x if rectifier is None else layers.Activation(rectifier)(x)


CONVOLUTIONS = {
    "pointwise": lambda: layers.Conv2D(72, 1),
    "pointwise with strides": lambda: layers.Conv2D(130, 1, strides=2, use_bias=False),
    "narrow": lambda: layers.Conv2D(5, 1),
    "depthwise": lambda: layers.DepthwiseConv2D(3, padding="same", use_bias=False),
    "depthwise with strides": lambda: layers.DepthwiseConv2D(5, strides=2),
    "full": lambda: layers.Conv2D(40, 3, padding="same"),
    "in groups": lambda: layers.Conv2D(48, 3, groups=2),
}


@pytest.mark.parametrize("rectifier", [None, "relu", "relu6"])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_normalization_and_rectifier_join_a_convolution(rng, kind, rectifier):
    inputs = tk.Input((15, 14, 24))
    x = CONVOLUTIONS[kind]()(inputs)
    outputs = normalized(x, rectifier)
    model = randomized(rng, tk.Model(inputs, outputs))
    images = tk.constant(rng.normal(size=(3, 15, 14, 24)).astype("float32"))
    done = names(model, images)
    assert done.count("finished_conv") == 1
    assert not {"conv", "relu", "relu6"} & set(done)
    assert_same_bits(model, images)


RECTIFIED = {
    "pointwise": lambda: layers.Conv2D(72, 1, activation="relu"),
    "depthwise": lambda: layers.DepthwiseConv2D(3, activation="relu"),
    "full": lambda: layers.Conv2D(40, 3, padding="same", activation="relu"),
    "in groups": lambda: layers.Conv2D(48, 3, groups=2, activation="relu"),
}


@pytest.mark.parametrize("kind", RECTIFIED)
def test_a_rectifier_before_a_normalization_stays(rng, kind):
    inputs = tk.Input((15, 14, 24))
    model = randomized(rng, tk.Model(inputs, normalized(RECTIFIED[kind]()(inputs))))
    images = tk.constant(rng.normal(size=(3, 15, 14, 24)).astype("float32"))
    assert "finished_conv" in names(model, images)
    assert_same_bits(model, images)


@pytest.mark.parametrize("rectifier", [None, "relu", "relu6"])
@pytest.mark.parametrize("kind", ["pointwise", "full", "depthwise"])
def test_a_shortcut_joins_too(rng, kind, rectifier):
    inputs = tk.Input((9, 10, 24))
    convolution = {"depthwise": layers.DepthwiseConv2D(3, padding="same")}.get(
        kind, layers.Conv2D(24, 1 if kind == "pointwise" else 3, padding="same")
    )
    x = layers.Add()([inputs, normalized(convolution(inputs))])
    x = x if rectifier is None else layers.Activation(rectifier)(x)
    model = randomized(rng, tk.Model(inputs, x))
    images = tk.constant(rng.normal(size=(4, 9, 10, 24)).astype("float32"))
    assert not {"conv", "relu", "relu6"} & set(names(model, images))
    assert_same_bits(model, images)


def test_two_convolutions_meet_in_a_sum(rng):
    inputs = tk.Input((8, 8, 16))
    one, two = (normalized(layers.Conv2D(32, k, padding="same")(inputs)) for k in (1, 3))
    model = randomized(rng, tk.Model(inputs, layers.ReLU()(layers.Add()([one, two]))))
    images = tk.constant(rng.normal(size=(2, 8, 8, 16)).astype("float32"))
    done = names(model, images)
    assert done.count("finished_conv") == 2
    assert "relu" not in done
    assert_same_bits(model, images)


def test_what_is_read_by_others_stays(rng):
    inputs = tk.Input((8, 8, 16))
    y = layers.Conv2D(32, 1)(inputs)
    z = normalized(y)
    model = randomized(rng, tk.Model(inputs, [layers.ReLU()(z), y, z]))
    images = tk.constant(rng.normal(size=(2, 8, 8, 16)).astype("float32"))
    done = names(model, images)
    assert "relu" in done
    assert "multiply" in done
    assert_same_bits(model, images)


def test_a_number_or_an_image_beside_a_convolution_is_no_normalization(rng):
    kernel = tk.constant(rng.normal(size=(1, 1, 16, 24)).astype("float32"))
    images = tk.constant(rng.normal(size=(2, 8, 8, 16)).astype("float32"))
    factors = tk.constant(rng.normal(size=(2, 8, 8, 24)).astype("float32"))

    def by_number(x):
        return tk.nn.relu(tk.nn.conv2d(x, kernel, 1, "SAME") * 2.0 + 1.0)

    def by_image(x):
        return tk.nn.relu(tk.nn.conv2d(x, kernel, 1, "SAME") * factors + factors)

    def by_itself(x):
        y = tk.nn.conv2d(x, kernel, 1, "SAME")
        return y * y + y

    for run in (by_number, by_image, by_itself):
        assert "multiply" in names(run, images)
        assert_same_bits(run, images)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("rectifier", ["relu", "relu6"])
def test_numbers_that_are_none(rng, rectifier):
    inputs = tk.Input((6, 6, 8))
    outputs = [
        normalized(layers.Conv2D(24, 1)(inputs), rectifier),
        normalized(layers.DepthwiseConv2D(3)(inputs), rectifier),
        normalized(layers.Conv2D(24, 3, padding="same")(inputs), rectifier),
    ]
    model = randomized(rng, tk.Model(inputs, outputs))
    broken = rng.normal(size=(2, 6, 6, 8)).astype("float32")
    broken[0, 0, 0, :3] = np.nan, np.inf, -np.inf
    for a, b in zip(model(broken), tk.function(model)(tk.constant(broken)), strict=True):
        np.testing.assert_array_equal(b.numpy(), a.numpy())


def test_unknown_batches_and_other_dtypes(rng):
    inputs = tk.Input((8, 8, 16))
    x = normalized(layers.Conv2D(32, 1, padding="same")(inputs), "relu6")
    model = randomized(rng, tk.Model(inputs, layers.Dense(16)(x)))
    f = tk.function(model, input_signature=[tk.TensorSpec((None, 8, 8, 16), "float32")])
    for batch in (1, 4, 1, 4, 4):
        images = rng.normal(size=(batch, 8, 8, 16)).astype("float32")
        np.testing.assert_array_equal(f(tk.constant(images)), model(images))
    graph = optimised(f.concrete_functions()[0].graph)
    sized = at_sizes(with_joined_convolutions(graph), [5])
    assert tuple(sized.outputs[0].shape) == (5, 8, 8, 16)

    wide = tk.Sequential(
        [
            tk.Input((8, 8, 4)),
            layers.Conv2D(8, 1, dtype="float64"),
            layers.BatchNormalization(dtype="float64"),
        ]
    )
    images = rng.normal(size=(2, 8, 8, 4))
    assert "finished_conv" not in names(wide, tk.constant(images))
    np.testing.assert_array_equal(tk.function(wide)(images), wide(images))


def test_without_compiled_kernels_operations_stay(rng):
    inputs = tk.Input((8, 8, 16))
    model = randomized(rng, tk.Model(inputs, normalized(layers.Conv2D(32, 1)(inputs), "relu")))
    images = tk.constant(rng.normal(size=(2, 8, 8, 16)).astype("float32"))
    joined = tk.function(model)
    joined(images)
    kernel_family.set_mode("off")
    assert "finished_conv" not in names(model, images)
    np.testing.assert_array_equal(joined(images), model(images))  # the plain bodies, joined


# ------------------------------------------------------------------ weights that are kept


def dense_model(rng):
    stack = [tk.Input((64,)), layers.Dense(200, "relu"), layers.Dense(96)]
    return randomized(rng, tk.Sequential(stack))


def kept_count():
    gc.collect()
    return len(prepared_weights._all())


def test_kept_weights_are_those_of_the_variable(rng):
    model, x = dense_model(rng), tk.constant(rng.normal(size=(70, 64)).astype("float32"))
    before = kept_count()
    f = tk.function(model)
    assert names(model, x).count("dense_by_strips") == 2
    assert_same_bits(model, x, calls=4)
    for _ in range(3):
        f(x)
    assert kept_count() == before + 2
    kernel = model.layers[0].kernel
    for change in (
        lambda: kernel.assign(2.0 * kernel),
        lambda: kernel.assign_add(tk.ones_like(kernel)),
        lambda: kernel.assign(np.zeros((64, 200), "float32")),
        lambda: model.set_weights([w + 1 for w in model.get_weights()]),
        lambda: kernel.scatter_nd_update([[0]], rng.normal(size=(1, 200)).astype("float32")),
    ):
        change()
        for _ in range(4):
            with tk.GradientTape():  # so the model runs layer by layer, and keeps nothing itself
                expected = model(x)
            np.testing.assert_array_equal(f(x), expected)
    del f
    assert kept_count() == before


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_training_between_inferences_is_seen(rng, run_eagerly):
    model = dense_model(rng)
    x = rng.normal(size=(70, 64)).astype("float32")
    y = rng.normal(size=(70, 96)).astype("float32")
    model.compile("adam", "mse", run_eagerly=run_eagerly)
    f = tk.function(model)
    for _ in range(3):
        for _ in range(3):
            np.testing.assert_array_equal(f(tk.constant(x)), model(x))
        model.fit(x, y, epochs=4, batch_size=70, verbose=0)
    np.testing.assert_array_equal(f(tk.constant(x)), model(x))


def test_a_program_that_assigns_writes_in_place_again(rng):
    model = dense_model(rng)
    x = tk.constant(rng.normal(size=(70, 64)).astype("float32"))
    f = tk.function(model)
    kernel = model.layers[0].kernel

    @tk.function(jit_compile=True)
    def halve():
        kernel.assign(0.5 * kernel + 0.25)

    halve()  # from then on nobody but the variable has its array
    for _ in range(2):
        for _ in range(3):
            f(x)
        address = kernel._value._array.ctypes.data
        halve()
        assert kernel._value._array.ctypes.data == address
        np.testing.assert_array_equal(f(x), model(x))


def test_weights_that_the_graph_assigns_are_not_kept(rng):
    kernel = tk.Variable(rng.normal(size=(64, 96)).astype("float32"))
    x = tk.constant(rng.normal(size=(70, 64)).astype("float32"))

    def decayed(x):
        y = tk.matmul(x, kernel)
        kernel.assign(kernel * 0.5)
        return y

    def read(x):
        return tk.matmul(x, kernel)

    assert "matmul" in names(decayed, x)
    graph = optimised(tk.function(decayed).get_concrete_function(x).graph)
    assert with_joined_convolutions(graph) is graph  # copying takes longer than looking
    assert "matmul_by_strips" in names(read, x)
    f = tk.function(decayed)
    for _ in range(4):
        expected = read(x)
        np.testing.assert_array_equal(f(x), expected)


@pytest.mark.parametrize(("window", "groups"), [(3, 1), ((2, 5), 1), (3, 2), (3, 24)])
def test_kernels_with_windows_are_kept(rng, window, groups):
    convolution = layers.Conv2D(72, window, strides=2, groups=groups)
    model = randomized(rng, tk.Sequential([tk.Input((11, 12, 24)), convolution]))
    images = tk.constant(rng.normal(size=(2, 11, 12, 24)).astype("float32"))
    before = kept_count()
    f = tk.function(model)
    for _ in range(2):
        for _ in range(4):
            np.testing.assert_array_equal(f(images), model(images))
        assert kept_count() == before + 1
        convolution.kernel.assign(2.0 * convolution.kernel)


REPEATED = {
    "pointwise": lambda: layers.Conv2D(72, 1),
    "pointwise, rectified": lambda: layers.Conv2D(72, 1, activation="relu"),
    "depthwise": lambda: layers.DepthwiseConv2D(3, padding="same"),
    "depthwise, rectified": lambda: layers.DepthwiseConv2D(5, strides=2, activation="relu"),
    "sums": lambda: layers.Conv2D(72, (2, 3), padding="same"),
    "sums, rectified": lambda: layers.Conv2D(72, 5, strides=2, activation="relu"),
    "sums of whole rows": lambda: layers.Conv2D(64, 3, strides=(2, 1)),
    "sums of distant numbers": lambda: layers.Conv2D(48, 3, padding="same", dilation_rate=2),
    "tiles": lambda: layers.Conv2D(80, 3, padding="same"),
    "tiles, rectified": lambda: layers.Conv2D(96, 3, padding="same", activation="relu"),
    "sums in groups": lambda: layers.Conv2D(48, 3, groups=3),
}


@pytest.mark.parametrize("kind", REPEATED)
@pytest.mark.parametrize("follows", ["nothing", "normalization", "shortcut"])
def test_what_sizes_decide_is_not_asked_again(rng, monkeypatch, kind, follows):
    inputs = tk.Input((None, None, 72))
    convolution = REPEATED[kind]()
    x = convolution(inputs)
    if follows != "nothing":
        x = normalized(x)
    if follows == "shortcut":
        others = tk.Input((None, None, x.shape[-1]))
        model = randomized(rng, tk.Model([inputs, others], layers.ReLU()(layers.add([x, others]))))
    else:
        model = randomized(rng, tk.Model(inputs, x))
    asked = []

    def forward(w, *operands, forward=conv_tuned.forward):
        asked.append(w)
        return forward(w, *operands)

    def operands(*shape):
        size = tuple(convolution.compute_output_shape((*shape, 72)))
        shapes = [(*shape, 72), size][: 1 + (follows == "shortcut")]
        arrays = [tk.constant(rng.normal(size=n).astype("float32")) for n in shapes]
        return arrays if len(arrays) > 1 else arrays[0]

    f = tk.function(model)
    monkeypatch.setattr(conv_tuned, "forward", forward)
    twice = "rectified" in kind and "pointwise" in kind and follows != "nothing"
    for shape in ((1, 9, 11), (3, 14, 7), (1, 9, 11)):
        for _ in range(4):
            f(operands(*shape))
        x = operands(*shape)
        del asked[:]
        y = f(x)
        assert bool(asked) == twice  # two pairs of limits, of which a kernel has one
        np.testing.assert_array_equal(y, model(x))
        convolution.bias.assign_add(tk.ones_like(convolution.bias))
        x = operands(*shape)
        np.testing.assert_array_equal(f(x), model(x))
    for _ in range(4):
        convolution.kernel.assign(convolution.kernel * 1.5)
        np.testing.assert_array_equal(f(x), model(x))


@pytest.mark.parametrize("window", [3, (2, 3, 3), (3, 2, 3)])
def test_nor_of_volumes(rng, monkeypatch, window):
    convolution = layers.Conv3D(40, window, padding="same")
    x = convolution(inputs := tk.Input((6, 7, 9, 24)))
    model = randomized(rng, tk.Model(inputs, normalized(x, "relu")))
    volumes = tk.constant(rng.normal(size=(3, 6, 7, 9, 24)).astype("float32"))
    f = tk.function(model)
    for _ in range(4):
        f(volumes)
    monkeypatch.setattr(conv_tuned, "forward", lambda *operands: pytest.fail("asked again"))
    y = f(volumes)
    monkeypatch.undo()
    np.testing.assert_array_equal(y, model(volumes))
    convolution.kernel.assign(1.5 * convolution.kernel)
    np.testing.assert_array_equal(f(volumes), model(volumes))


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("kind", ["tiles", "sums", "sums of distant numbers"])
def test_images_that_are_not_finite_come_between_others(rng, kind):
    inputs = tk.Input((9, 11, 72))
    convolution = REPEATED[kind]()
    model = randomized(rng, tk.Model(inputs, normalized(convolution(inputs), "relu6")))
    images = rng.normal(size=(1, 9, 11, 72)).astype("float32")
    broken = images.copy()
    broken[0, 4, :3, 7] = np.nan, np.inf, -np.inf
    f = tk.function(model)
    for x in (images, broken, images, broken):
        for _ in range(4):
            np.testing.assert_array_equal(f(tk.constant(x)), model(x))
    kernel = convolution.kernel.numpy()
    kernel[0, 0, 5] = np.inf
    convolution.kernel.assign(kernel)
    for _ in range(4):
        np.testing.assert_array_equal(f(tk.constant(images)), model(images))
    assert np.isnan(f(tk.constant(images)).numpy()).any()


def test_infinite_weights_meet_padding_after_finite_ones(rng):
    convolution = layers.DepthwiseConv2D(3, padding="same")
    model = randomized(rng, tk.Sequential([tk.Input((8, 9, 24)), convolution]))
    images = tk.constant(rng.normal(size=(2, 8, 9, 24)).astype("float32"))
    f = tk.function(model)
    for _ in range(5):
        f(images)
    kernel = convolution.kernel.numpy()
    kernel[0, 0, 5] = np.inf
    convolution.kernel.assign(kernel)
    for _ in range(5):
        np.testing.assert_array_equal(f(images), model(images))
    assert np.isnan(f(images).numpy()[0, 0, 0, 5])


def test_one_set_of_strips_serves_all_shapes(rng):
    model = dense_model(rng)
    before = kept_count()
    f = tk.function(model)
    for _ in range(3):
        for rows in (70, 80, 90):
            f(tk.constant(rng.normal(size=(rows, 64)).astype("float32")))
    assert kept_count() == before + 2


def test_an_error_is_that_of_the_operation(rng):
    kernel = tk.Variable(rng.normal(size=(64, 96)).astype("float32"))
    f = tk.function(
        lambda x: tk.matmul(x, kernel), input_signature=[tk.TensorSpec((None, None), "float32")]
    )
    f(tk.ones((70, 64)))
    with pytest.raises(ShapeError, match="matmul"):
        f(tk.ones((70, 63)))


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("lstm", layers.LSTM(24)),
        ("gru", layers.GRU(24)),
        ("gru", layers.GRU(24, reset_after=False)),
    ],
)
def test_recurrent_kernels_are_kept_for_one_sequence(rng, name, layer):
    model = randomized(rng, tk.Sequential([tk.Input((20, 8)), layer]))
    one, two = (tk.constant(rng.normal(size=(n, 20, 8)).astype("float32")) for n in (1, 2))
    assert f"{name}_by_kept_kernel" in names(model, one)
    assert_same_bits(model, one)
    before = kept_count()
    f = tk.function(model)
    for x, more in ((two, 0), (one, 1)):
        for _ in range(2):
            for _ in range(4):
                np.testing.assert_array_equal(f(x), model(x))
            assert kept_count() == before + more
            recurrent_kernel = layer.cell.recurrent_kernel
            recurrent_kernel.assign(0.5 * recurrent_kernel)


def alone(run, *arrays):
    """Of recurrences whether they give hidden states alone."""
    graph = optimised(tk.function(run).get_concrete_function(*arrays).graph)
    nodes = with_joined_convolutions(graph).nodes
    return [n.settings["hidden_alone"] for n in nodes if "hidden_alone" in n.settings]


@pytest.mark.parametrize("batch", [1, 3, 17])
@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize(
    "layer", [layers.LSTM, layers.GRU, lambda *a, **k: layers.GRU(*a, **k, reset_after=False)]
)
def test_what_a_gradient_reads_is_not_kept_in_an_inference(rng, layer, steps, batch):
    stack = [layer(24, return_sequences=True), layer(12)]
    model = randomized(rng, tk.Sequential([tk.Input((steps, 8)), *stack]))
    x = tk.constant(rng.normal(size=(batch, steps, 8)).astype("float32"))
    assert alone(model, x) == [True, True]
    assert_same_bits(model, x)


@pytest.mark.parametrize("layer", [layers.LSTM, layers.GRU])
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_nor_is_it_in_one_of_16_bit_floats(eager, rng, layer, policy):
    stack = [layer(24, return_sequences=True, dtype=policy), layer(12, dtype=policy)]
    model = randomized(rng, tk.Sequential([tk.Input((5, 8)), *stack]))
    x = tk.constant(rng.normal(size=(3, 5, 8)).astype("float32"))
    assert alone(model, x) == [True, True]
    assert_same_bits(model, x)


def test_what_somebody_reads_is_kept(rng):
    layer = layers.LSTM(24, return_state=True)
    x = tk.constant(rng.normal(size=(3, 5, 8)).astype("float32"))
    layer(x)

    def gradients(x):
        with tk.GradientTape() as tape:
            y = tk.reduce_sum(layer(x)[0])
        return tape.gradient(y, layer.trainable_variables)

    assert alone(layer, x) == [False]
    assert alone(lambda x: layer(x)[0], x) == [True]
    assert alone(gradients, x) == [False]
    assert_same_bits(layer, x)
    assert_same_bits(gradients, x)


@pytest.mark.parametrize("rows", [1, 2, 5, 9])
def test_few_rows_by_many_weights(rng, rows):
    model = tk.Sequential([layers.Dense(700, activation="relu"), layers.Dense(9)])
    x = tk.constant(rng.normal(size=(rows, 200)).astype("float32"))
    model(x)
    assert_same_bits(randomized(rng, model), x, calls=5)


def test_an_error_of_a_recurrence_names_its_shapes(rng):
    kernel = tk.Variable(rng.normal(size=(8, 32)).astype("float32"))
    shapes = (None, None, None), (None, None)
    signature = [tk.TensorSpec(shape, "float32") for shape in shapes]
    f = tk.function(lambda x, h: lstm(x, h, h, kernel), input_signature=signature)
    f(tk.ones((1, 3, 32)), tk.ones((1, 8)))
    with pytest.raises(ShapeError, match=r"lstm: projected must be[^$]*\(1, 3, 31\)[^$]*\(8, 32\)"):
        f(tk.ones((1, 3, 31)), tk.ones((1, 8)))
