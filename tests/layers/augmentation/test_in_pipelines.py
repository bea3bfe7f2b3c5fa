"""Layers for images in data sets and models: chance, saving, states, shapes."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers
from trainkit.layers.augmentation.image_layer import RandomImageLayer

IMAGES = np.random.default_rng(1).uniform(0, 255, (12, 10, 12, 3)).astype("float32")
LABELS = np.eye(12, dtype="float32")[:, :4]
BOXES = np.random.default_rng(2).uniform(0, 10, (12, 2, 4)).astype("float32")

MAKERS = [
    lambda: layers.RandomFlip(seed=1, bounding_box_format="xyxy"),
    lambda: layers.RandomRotation(0.2, seed=1, bounding_box_format="xyxy"),
    lambda: layers.RandomPerspective(seed=1, bounding_box_format="xyxy"),
    lambda: layers.RandomCrop(6, 7, seed=1, bounding_box_format="xyxy"),
    lambda: layers.RandomColorJitter((0, 255), 0.2, 0.2, 0.4, 0.3, 1, bounding_box_format="xyxy"),
    lambda: layers.RandomErasing(seed=1, bounding_box_format="xyxy"),
    lambda: layers.RandomGaussianBlur(seed=1, bounding_box_format="xyxy"),
    lambda: layers.RandAugment(seed=1, bounding_box_format="xyxy"),
    lambda: layers.AugMix(seed=1, bounding_box_format="xyxy"),
    lambda: layers.MixUp(seed=1, bounding_box_format="xyxy"),
    lambda: layers.Equalization(bounding_box_format="xyxy"),
    lambda: layers.MaxNumBoundingBoxes(3, bounding_box_format="xyxy"),
]


def elements():
    return tk.data.Dataset.from_tensor_slices(
        {
            "images": IMAGES,
            "labels": LABELS,
            "bounding_boxes": {"boxes": BOXES, "labels": np.ones((12, 2), "int32")},
        }
    )


def arrays(dataset):
    return [[np.asarray(x) for x in tk.nest.flatten(element)] for element in dataset]


def assert_equal(one, two):
    for a, b in zip(one, two, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("batch", [None, 4])
def test_map_gives_the_same_in_each_run_and_something_else_in_each_pass(make, batch):
    def mapped():
        data = elements() if batch is None else elements().batch(batch)
        return data.map(make())

    dataset = mapped()
    first, second = arrays(dataset), arrays(dataset)
    again = mapped()
    assert_equal(arrays(again), first)
    assert_equal(arrays(again), second)
    layer = make()
    if isinstance(layer, RandomImageLayer) and not (batch is None and "MixUp" in str(layer)):
        differ = [
            not np.array_equal(x, y)
            for a, b in zip(first, second, strict=True)
            for x, y in zip(a, b, strict=True)
        ]
        assert any(differ)
    by_hand = [
        [np.asarray(x) for x in tk.nest.flatten(layer(element))]
        for element in (elements() if batch is None else elements().batch(batch))
    ]
    for a, b in zip(by_hand, first, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-2)


def test_set_seed_repeats_layers_without_a_seed():
    def drawn():
        tk.random.set_seed(5)
        return layers.RandAugment(num_ops=3)(IMAGES, training=True).numpy()

    np.testing.assert_array_equal(drawn(), drawn())
    assert not np.array_equal(drawn(), IMAGES)


def test_a_pipeline_in_map_and_in_a_model():
    augment = layers.Pipeline(
        [
            layers.RandomFlip(seed=1),
            layers.Pipeline([layers.RandomHue(0.3, seed=2), layers.CenterCrop(8, 8)]),
        ]
    )
    again = layers.Pipeline.from_config(augment.get_config())
    want = augment(IMAGES, training=True).numpy()
    np.testing.assert_array_equal(again(IMAGES, training=True).numpy(), want)
    assert [type(layer).__name__ for layer in again.layers] == ["RandomFlip", "Pipeline"]
    calm = augment(IMAGES, training=False).numpy()
    np.testing.assert_array_equal(calm, IMAGES[:, 1:9, 2:10])
    with_labels = elements().batch(6).map(lambda d: (augment(d["images"]), d["labels"]))
    head = [layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(4, activation="softmax")]
    model = tk.Sequential(head)
    model.compile("sgd", "categorical_crossentropy")
    history = model.fit(with_labels, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.parametrize("wrong", [None, [1, 2], {"a": 1}])
def test_a_pipeline_of_no_layers_is_refused(wrong):
    with pytest.raises(ValueError, match="layers must be a list of layers"):
        layers.Pipeline(wrong)


@pytest.mark.parametrize("make", MAKERS[:-1])
def test_a_saved_model_goes_on_as_it_was(make, tmp_path):
    image = tk.Input((10, 12, 3))
    x = make()(image)
    model = tk.Model(image, layers.GlobalAveragePooling2D()(layers.Rescaling(1 / 255)(x)))
    want = model(IMAGES, training=False).numpy()
    model.save(tmp_path / "model.keras")
    read = tk.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(read(IMAGES, training=False).numpy(), want)
    config = model.layers[1].get_config()
    assert read.layers[1].get_config() == config
    assert config["bounding_box_format"] == "xyxy"
    np.testing.assert_array_equal(
        type(model.layers[1]).from_config(config)(IMAGES, training=True).numpy(),
        make()(IMAGES, training=True).numpy(),
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_a_model_that_augments_trains_eagerly_and_compiled(compiled):
    tk.random.set_seed(3)
    model = tk.Sequential(
        [
            layers.RandAugment(seed=1),
            layers.RandomGaussianBlur(seed=2),
            layers.RandomErasing(seed=4),
            layers.Rescaling(1 / 255),
            layers.Conv2D(3, 3),
            layers.GlobalMaxPooling2D(),
            layers.Dense(4),
        ]
    )
    model.compile("adam", "mse", run_eagerly=not compiled)
    before = model(IMAGES, training=False).numpy()
    history = model.fit(IMAGES, LABELS, batch_size=5, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert not np.array_equal(model(IMAGES, training=False).numpy(), before)
    assert model.predict(IMAGES, verbose=0).shape == (12, 4)


def test_a_checkpoint_keeps_where_chance_stands(tmp_path):
    layer = layers.RandomTranslation(0.3, 0.3, seed=1)
    layer(IMAGES, training=True)
    path = tk.train.Checkpoint(layer=layer).save(str(tmp_path / "at"))
    want = layer(IMAGES, training=True).numpy()
    other = layers.RandomTranslation(0.3, 0.3, seed=9)
    tk.train.Checkpoint(layer=other).restore(path)
    np.testing.assert_array_equal(other(IMAGES, training=True).numpy(), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_float16", "float64"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **m: layers.RandomZoom(0.3, seed=1, **m),
        lambda **m: layers.RandomHue(0.3, seed=1, **m),
        lambda **m: layers.RandomPerspective(seed=1, **m),
        lambda **m: layers.RandomErasing(seed=1, **m),
        lambda **m: layers.RandomSharpness(0.3, seed=1, **m),
        lambda **m: layers.CutMix(seed=1, **m),
        lambda **m: layers.RandomElasticTransform(seed=1, **m),
        lambda **m: layers.RandomPosterization(4, seed=1, **m),
        lambda **m: layers.Solarization(0.3, 0.3, seed=1, **m),
        lambda **m: layers.AutoContrast(**m),
        lambda **m: layers.Equalization(**m),
        lambda **m: layers.RandAugment(num_ops=5, seed=1, **m),
        lambda **m: layers.AugMix(seed=1, **m),
    ],
)
def test_results_have_the_compute_dtype(make, dtype):
    result = make(dtype=dtype)(IMAGES, training=True)
    assert result.dtype == dtype.removeprefix("mixed_")
    assert np.isfinite(result.numpy().astype("float64")).all()
    ints = make(dtype=dtype)(IMAGES.astype("uint8"), training=True)
    assert ints.dtype == dtype.removeprefix("mixed_")


_IDLE = {
    "RandomBrightness": (0.2,),
    "RandomColorDegeneration": (0.2,),
    "RandomColorJitter": ((0, 255), 0.2),
    "RandomContrast": (0.2,),
    "RandomCrop": (4, 4),
    "RandomGrayscale": (),
    "RandomHue": (0.2,),
    "RandomInvert": (),
    "RandomPosterization": (4,),
    "RandomSaturation": (0.3,),
    "Equalization": (),
    "MixUp": (),
    "RandomErasing": (),
    "RandomFlip": (),
    "RandomGaussianBlur": (),
    "RandomRotation": (0.1,),
    "RandomSharpness": (0.3,),
    "Solarization": (0.1,),
    "RandAugment": (),
}
_CASTS = list(_IDLE)[-7:]


@pytest.mark.parametrize("name", _IDLE)
def test_dtypes_of_layers_that_do_nothing_are_those_of_keras(name):
    layer = getattr(layers, name)(*_IDLE[name])
    for dtype in ("uint8", "int32"):
        ints = IMAGES.astype(dtype)
        result = layer(ints, training=False)
        assert result.dtype == ("float32" if name in _CASTS else dtype)
        np.testing.assert_array_equal(result, ints)
        if name not in ("RandomGrayscale", "RandomBrightness"):
            assert layer(ints, training=True).dtype == "float32"
    assert layer(IMAGES.astype("float32"), training=False).dtype == "float32"


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize(("share", "added"), [(0.2, 51), (-0.3, -76), (1.0, 255)])
def test_brightness_of_integers_is_of_integers_and_does_not_wrap_around(dtype, share, added):
    ints = np.arange(192).reshape(1, 8, 8, 3).astype(dtype)
    result = layers.RandomBrightness((share, share))(ints, training=True)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.clip(ints.astype("int64") + added, 0, 255))


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.Resizing(4, 5),
        lambda: layers.RandomGrayscale(1.0),
        lambda: layers.RandomBrightness((0.2, 0.2)),
        lambda: layers.RandomContrast(0.0),
        lambda: layers.ContrastLimitedAdaptiveHistogramEqualization(),
    ],
)
def test_integers_are_cast_in_graphs_data_sets_and_compiled_steps(make):
    """As Keras does on TensorFlow: what comes of uint8 has fractions there."""
    ints = IMAGES.astype("uint8")
    want = make()(ints.astype("float32"), training=True).numpy()
    layer = make()
    traced = tk.function(lambda x: layer(x, training=True))(ints)
    data = tk.data.Dataset.from_tensor_slices(ints).batch(12).map(make())
    assert data.element_spec.dtype == traced.dtype == "float32"
    for result in (traced, next(iter(data))):
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-3)
    inputs = tk.Input((10, 12, 3), dtype="uint8")
    model = tk.Model(inputs, make()(inputs))
    assert model.output.dtype == "float32"
    model.compile(run_eagerly=False)
    idle = make()(ints.astype("float32"), training=False).numpy()
    for count in (12, 12, 12, 5):  # eagerly at first, then by a graph
        result = model.predict(ints[:count], batch_size=4, verbose=0)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, idle[:count], rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("compiled", [False, True])
def test_integers_stay_in_python_functions_of_data_sets_and_graphs(compiled):
    ints, layer = IMAGES.astype("uint8"), layers.Resizing(4, 5)
    want = layer(ints).numpy()

    def resize(x):
        return tk.py_function(layer, [x], tk.TensorSpec((12, 4, 5, 3), "uint8"))

    data = tk.data.Dataset.from_tensors(ints).map(resize)
    np.testing.assert_array_equal(next(iter(data)), want)
    np.testing.assert_array_equal(tk.function(resize)(ints) if compiled else resize(ints), want)


def test_integers_and_texts_beside_images_in_a_data_set():
    data = tk.data.Dataset.from_tensors(
        {"images": IMAGES.astype("uint8"), "labels": LABELS.astype("int32"), "name": "a"}
    )
    element = next(iter(data.map(layers.RandomFlip(seed=1))))
    assert [element[key].dtype.name for key in ("images", "labels", "name")] == [
        "float32", "float32", "string",
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8"])
def test_a_crop_that_does_nothing_leaves_all_dtypes(dtype):
    images = IMAGES.astype(dtype)
    for layer in (layers.RandomCrop(4, 4), layers.RandomCrop(4, 4, dtype="float16")):
        again = layers.RandomCrop.from_config(layer.get_config())
        assert again.get_config() == layer.get_config()
        assert again(images, training=False).dtype == dtype
        assert again(images, training=True).dtype == layer.compute_dtype


def test_a_model_with_idle_layers_takes_integers():
    model = tk.Sequential(
        [
            tk.Input((10, 12, 3), dtype="uint8"),
            layers.RandomContrast(0.2),
            layers.RandomBrightness(0.2),
            layers.RandomCrop(10, 12),
            layers.Conv2D(2, 3),
        ]
    )
    floats = model(IMAGES.astype("uint8").astype("float32"))
    np.testing.assert_array_equal(model.predict(IMAGES.astype("uint8"), verbose=0), floats)


def test_layers_that_keep_the_dtype_of_integers():
    ints = IMAGES.astype("uint8")
    for layer in (
        layers.Resizing(4, 4),
        layers.RandomGrayscale(1.0),
        layers.ContrastLimitedAdaptiveHistogramEqualization(),
    ):
        assert layer(ints, training=True).dtype == "uint8"


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layers.RandomCrop(4, 5), (None, 4, 5, 3)),
        (layers.CenterCrop(4, 5), (None, 4, 5, 3)),
        (layers.Resizing(30, 5), (None, 30, 5, 3)),
        (layers.AugMix(), (None, 10, 12, 3)),
    ],
)
def test_shapes_are_known_before_a_call(layer, shape):
    assert layer.compute_output_shape((None, 10, 12, 3)) == shape
    assert layer(tk.Input((10, 12, 3))).shape == shape


@pytest.mark.parametrize(
    "layer",
    [
        layers.RandomZoom(0.2, seed=1),
        layers.RandomRotation(0.2, seed=1),
        layers.RandomTranslation(0.2, 0.2, seed=1),
        layers.RandomShear(0.2, seed=1),
        layers.RandomFlip(seed=1),
        layers.RandomErasing(seed=1),
        layers.RandomBrightness(0.2, seed=1),
        layers.CutMix(seed=1),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_images_of_any_size_are_traced_once(layer):
    traced = tk.function(
        lambda x: layer(x, training=True),
        input_signature=[tk.TensorSpec((None, None, None, 3), "float32")],
    )
    for images in (IMAGES, IMAGES[:3, :7, :9]):
        result = traced(images)
        assert result.shape == images.shape
        assert np.isfinite(result.numpy()).all()


def test_crops_of_images_whose_size_is_known_when_they_come():
    layer = layers.RandomCrop(4, 5, seed=2)
    traced = tk.function(
        lambda x: layer(x, training=True),
        input_signature=[tk.TensorSpec((None, None, None, 1), "float32")],
    )
    corners = set()
    for height, width in [(9, 7), (4, 5), (6, 11)] * 8:
        pixels = np.arange(height * width, dtype=np.float32).reshape(1, height, width, 1)
        window = traced(pixels).numpy()[0, :, :, 0]
        top, left = divmod(int(window[0, 0]), width)
        np.testing.assert_array_equal(window, pixels[0, top : top + 4, left : left + 5, 0])
        corners.add((height, top, left))
    assert len(corners) > 8
    with pytest.raises(tk.errors.InvalidArgumentError, match="minval must be below maxval"):
        traced(np.ones((1, 3, 9, 1), np.float32))


def test_a_model_crops_images_of_any_size():
    inputs = tk.Input((None, None, 3))
    outputs = layers.RandomCrop(4, 5, seed=2)(inputs)
    assert outputs.shape == (None, 4, 5, 3)
    model = tk.Model(inputs, outputs)
    for size in ((8, 9), (3, 9)):  # the second one is enlarged
        assert model(np.ones((2, *size, 3), np.float32), training=True).shape == (2, 4, 5, 3)


def test_a_model_of_dicts():
    image, label = tk.Input((10, 12, 3)), tk.Input((4,))
    mixed = layers.MixUp(seed=1)({"images": image, "labels": label})
    assert mixed["labels"].shape == (None, 4)
    model = tk.Model([image, label], [mixed["images"], mixed["labels"]])
    got = model([IMAGES, LABELS], training=True)
    want = layers.MixUp(seed=1)({"images": IMAGES, "labels": LABELS}, training=True)
    np.testing.assert_allclose(got[0].numpy(), want["images"].numpy(), rtol=1e-6)
    np.testing.assert_allclose(got[1].numpy(), want["labels"].numpy(), rtol=1e-6)


def test_spectrograms_of_a_tone_peak_at_its_frequency():
    time = np.arange(8000) / 8000
    tone = np.sin(2 * np.pi * 1000 * time).astype("float32")
    mel = layers.MelSpectrogram(512, 256, sampling_rate=8000, num_mel_bins=40)(tone).numpy()
    edges = np.linspace(*(1127 * np.log1p(np.array([20.0, 4000.0]) / 700)), 42)
    centres = 700 * np.expm1(edges[1:-1] / 1127)
    assert np.abs(mel[:, 10].argmax() - np.abs(centres - 1000).argmin()) <= 1
    assert mel.max() - mel.min() <= 80 + 1e-3
    stft = layers.STFTSpectrogram("magnitude", 256, 128)(tone[None, :, None]).numpy()
    assert (stft[0].argmax(-1) == 32).all()
    with pytest.raises(TypeError, match="int32"):
        layers.STFTSpectrogram()(np.zeros((1, 400, 1), "int32"))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: layers.STFTSpectrogram("power"), "mode must be one of"),
        (lambda: layers.STFTSpectrogram(frame_length=8, frame_step=9), r"\[1, 8\]"),
        (lambda: layers.STFTSpectrogram(frame_length=8, fft_length=4), "at least 8"),
        (lambda: layers.STFTSpectrogram(window="box"), "hann"),
        (lambda: layers.STFTSpectrogram(scaling="x"), "density"),
        (lambda: layers.STFTSpectrogram(padding="full"), "padding"),
        (lambda: layers.MelSpectrogram(64, sequence_length=65), "64 and 65"),
        (lambda: layers.RandomErasing(fill_value=(1, 2)), "three of them"),
        (lambda: layers.RandomGaussianBlur(kernel_size=4), "none even"),
        (lambda: layers.RandomHue(0.5, (1, 1)), "value_range"),
        (lambda: layers.RandomHue("0.5"), "factor must be a number"),
        (lambda: layers.MixUp(0), "alpha"),
        (lambda: layers.RandomPosterization(9), r"within \[1, 8\]"),
        (lambda: layers.RandAugment(num_ops=-1), "num_ops"),
        (lambda: layers.AugMix(num_chains=0), "num_chains"),
        (lambda: layers.MaxNumBoundingBoxes(0), "max_number"),
        (lambda: layers.Equalization(bins=1), "bins"),
        (lambda: layers.Equalization(bins=10**12), "from 2 to 65536"),
        (lambda: layers.RandAugment(num_ops=10**12), "from 0 to 100"),
        (lambda: layers.AugMix(chain_depth=10**9), "from 1 to 100"),
        (lambda: layers.MelSpectrogram(2**40), "fft_length"),
        (lambda: layers.MelSpectrogram(num_mel_bins=10**10), "num_mel_bins"),
        (lambda: layers.STFTSpectrogram(frame_length=2**40), "frame_length"),
        (lambda: layers.Pipeline.from_config({"name": "x"}), "'layers'"),
    ],
)
def test_bad_settings_are_named(make, text):
    with pytest.raises(ValueError, match=text):
        make()
