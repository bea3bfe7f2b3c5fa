"""Networks for images: the structure and the outputs are those of Keras 3.15."""

import hashlib
import inspect
import json
import pickle
import re

import numpy as np
import pytest

import trainkit as tk
from tests.applications.network_filling import fill
from trainkit.applications import network_parts, preprocessing

K = tk.keras
A = K.applications

# parameters and a digest of names and shapes: with a classifier for 7 classes, then without one
STRUCTURES = {
    "VGG16": (33625927, "e8c01cebfc89f35f", 14714688, "2f759e4ccd73f779"),
    "VGG19": (38935623, "4c13fc19a5349ff7", 20024384, "2727f54d090e6523"),
    "ResNet50": (23602055, "25cb1cf26fb0771f", 23587712, "96bd31c42be7030b"),
    "ResNet101": (42672519, "96cc6242e022bee6", 42658176, "f367c5ef5ac1767b"),
    "ResNet152": (58385287, "654b41a83df66fa3", 58370944, "aade7bc9678c09f5"),
    "ResNet50V2": (23579143, "39b53544a14dc154", 23564800, "96ff9f3107bab767"),
    "ResNet101V2": (42640903, "56e81e52159fc828", 42626560, "74dd812b6f897218"),
    "ResNet152V2": (58345991, "6f59443340ae076c", 58331648, "87ab0a3ed69b51ce"),
    "DenseNet121": (7044679, "2f4be42fad67af11", 7037504, "e473a2e584460c78"),
    "DenseNet169": (12654535, "58ee6649efb97126", 12642880, "c33a61be089a5d60"),
    "DenseNet201": (18335431, "00b66cbe9ba5c902", 18321984, "2073e73444cb46c1"),
    "MobileNet": (3236039, "21b3b2a237cd0917", 3228864, "fa7cfa39b26072ac"),
    "MobileNetV2": (2266951, "826d6a78eba38cd2", 2257984, "7a91e357a491cb90"),
    "InceptionV3": (21817127, "d2fa1a1919bf0c00", 21802784, "4e5af55fe85c7cc6"),
    "Xception": (20875823, "0fbf5d767ad6e7c5", 20861480, "29b765c23a602a56"),
    "EfficientNetB0": (4058538, "90a72ba8233aca75", 4049571, "82d2be91570b2e3a"),
    "EfficientNetB3": (10794294, "df495beb98d9d85c", 10783535, "1d12d77ac7b7308b"),
    "EfficientNetB7": (64115614, "dbff43428ecc9c35", 64097687, "c4b4602b0f03f439"),
    "ConvNeXtTiny": (27825511, "9ffbe34a5ecaeb7e", 27820128, "17b7916821638ae8"),
    "ConvNeXtSmall": (49460071, "a2d8fe97916310b3", 49454688, "68a126ea8d77f083"),
    "ConvNeXtBase": (87573639, "76bd86392f88b084", 87566464, "b6f26c70c5d83afe"),
    "ConvNeXtLarge": (196241095, "c1a5ec7c4b486635", 196230336, "9cecaaed9aa98daa"),
    "EfficientNetV2B0": (5928279, "073b99e1239bbf1c", 5919312, "08b7b7943a3727e7"),
    "EfficientNetV2B1": (6940091, "f326471a4df98099", 6931124, "713b73d2f27d95cd"),
    "EfficientNetV2B2": (8779237, "dfb6bd36ab2fc198", 8769374, "474bb7f7021f8b9c"),
    "EfficientNetV2B3": (12941381, "540469ba02c9cc63", 12930622, "2be4003aca159c07"),
    "EfficientNetV2S": (20340327, "4d2576cfc504097f", 20331360, "06387b7ed714cee8"),
    "EfficientNetV2M": (53159355, "9d452af66ccc9202", 53150388, "789a38303e343853"),
    "EfficientNetV2L": (117755815, "4007da9964864f49", 117746848, "0cc68fc1d76ae149"),
    "InceptionResNetV2": (54347495, "b7c67dd5520cedd1", 54336736, "084757581e68d6e8"),
    "MobileNetV3Small": (1537143, "4c06e7ad1d8ca4c2", 939120, "105294264b82c6e5"),
    "MobileNetV3Large": (4235399, "a1e3d8f265dd90f1", 2996352, "5bd7be17e9fab379"),
    "NASNetMobile": (4277115, "6666bdf9c3d7bdb0", 4269716, "4167fdb30623a9cd"),
    "NASNetLarge": (84945049, "57cac13494acb771", 84916818, "ab2373cde885eaba"),
}
SIZES = {
    "VGG16": 32, "VGG19": 32, "InceptionV3": 96, "Xception": 80, "EfficientNetB3": 65,
    "InceptionResNetV2": 96,
}  # fmt: skip
SMALL = {"MobileNetV2", "MobileNetV3Small", "EfficientNetB0", "VGG16"}
TAKE_PIXELS = ("ConvNeXt", "EfficientNet", "MobileNetV3")

# mean and deviation of the features, and one of them, for weights and an image made of sines
OUTPUTS = {
    "VGG16": (0.0348168, 0.0409132, 0.106062),
    "VGG19": (0.0348716, 0.0408883, 0.101805),
    "ResNet50": (0.119173, 0.113551, 0.307112),
    "ResNet50V2": (0.0170223, 0.0222019, 0.0146926),
    "DenseNet121": (0.0296579, 0.0361197, 0),
    "MobileNet": (0.0309217, 0.0376657, 0.0638503),
    "MobileNetV2": (0.0293333, 0.0358999, 0.0212652),
    "InceptionV3": (0.0277796, 0.0339142, 0),
    "Xception": (0.0287372, 0.0351415, 0),
    "EfficientNetB0": (0.00245317, 0.0359333, 0.0542932),
    "EfficientNetB1": (0.000975139, 0.0244863, -0.0296913),
    "ConvNeXtTiny": (-0.0598133, 0.942977, 1.12297),
    "EfficientNetV2B0": (0.00844188, 0.0779098, -0.0720871),
    "EfficientNetV2S": (-0.00186261, 0.0165317, -0.0156876),
    "InceptionResNetV2": (0.0266756, 0.03274, 0.0850485),
    "MobileNetV3Small": (0.00135252, 0.0298156, 0.0240523),
    "MobileNetV3Large": (0.00707979, 0.0947428, -0.0167087),
    "NASNetMobile": (0.029614, 0.0427996, 0.077547),
}


def digest(model):
    names = [layer.name for layer in model.layers[1:]]
    text = json.dumps(names + [list(w.shape) for w in model.weights])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def slow_unless_small(names):
    return [pytest.param(n, marks=() if n in SMALL else pytest.mark.slow) for n in names]


@pytest.fixture
def undrawn(monkeypatch):
    """Weights begin as zeros: what is compared has none of them, and draws are most of the time."""

    def zeros(self, shape, dtype=None, **_):
        return tk.zeros(shape, dtype or "float32")

    monkeypatch.setattr(tk.initializers.VarianceScaling, "__call__", zeros)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", slow_unless_small(STRUCTURES))
def test_networks_are_built_as_in_keras(name):
    params, names, fewer, names_without = STRUCTURES[name]
    size = SIZES.get(name, 64)
    K.backend.clear_session()
    net = getattr(A, name)(weights=None, input_shape=(size, size, 3), classes=7)
    assert (net.count_params(), net.output_shape, digest(net)) == (params, (None, 7), names)
    K.backend.clear_session()
    pooling = "max" if name == "VGG19" else "avg"
    net = getattr(A, name)(weights=None, include_top=False, pooling=pooling)
    assert (net.count_params(), digest(net)) == (fewer, names_without)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", slow_unless_small(OUTPUTS))
def test_networks_compute_what_keras_computes(name):
    odd = name in ("MobileNetV2", "EfficientNetB0", "EfficientNetV2B0", "MobileNetV3Small")
    size = 65 if odd else SIZES.get(name, 64)
    net = getattr(A, name)(weights=None, include_top=False, input_shape=(size, size, 3))
    fill(net)
    image = np.sin(np.arange(size * size * 3)).reshape(1, size, size, 3).astype("float32")
    if name.startswith(TAKE_PIXELS):
        image = 127.5 + 127.5 * image
    features = np.asarray(net(image), np.float64)
    found = (features.mean(), features.std(), features.ravel()[1])
    np.testing.assert_allclose(found, OUTPUTS[name], rtol=2e-3, atol=1e-5)


def test_a_network_is_fine_tuned_and_saved(tmp_path):
    base = A.MobileNetV2(weights=None, include_top=False, input_shape=(32, 32, 3), alpha=0.35)
    base.trainable = False
    image = K.Input((32, 32, 3))
    features = base(A.mobilenet_v2.preprocess_input(image), training=False)
    net = K.Model(image, K.layers.Dense(2)(K.layers.GlobalAveragePooling2D()(features)))
    before = [w.numpy() for w in base.weights]
    net.compile("adam", K.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = np.random.default_rng(0).uniform(0, 255, (4, 32, 32, 3)).astype("float32")
    net.fit(x, np.array([0, 1, 0, 1]), epochs=1, verbose=0)
    assert len(net.trainable_variables) == 2
    for was, now in zip(before, base.weights, strict=True):
        np.testing.assert_array_equal(was, now)
    net.save(tmp_path / "net.keras")
    again = K.models.load_model(tmp_path / "net.keras")
    np.testing.assert_allclose(again(x), net(x), rtol=1e-5, atol=1e-6)


def test_weights_come_from_a_file(tmp_path):
    first = A.MobileNet(weights=None, include_top=False, alpha=0.25, input_shape=(32, 32, 3))
    first.save_weights(tmp_path / "w.weights.h5")
    path = str(tmp_path / "w.weights.h5")
    second = A.MobileNet(weights=path, include_top=False, alpha=0.25, input_shape=(32, 32, 3))
    for a, b in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_network_goes_on_from_a_symbol():
    image = K.Input((40, 48, 3))
    net = A.ResNet50(weights=None, include_top=False, input_tensor=image * 2.0, pooling="avg")
    assert net.input_shape == (None, 40, 48, 3)
    assert net.output_shape == (None, 2048)
    assert A.MobileNet(weights=None, include_top=False, alpha=0.25).output_shape == (
        (None, None, None, 256)
    )


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("tf", [-1.0, 0.0, 1.0]),
        ("caffe", [255 - 103.939, 127.5 - 116.779, 0 - 123.68]),
        ("torch", [-0.485 / 0.229, 0.044 / 0.224, 0.594 / 0.225]),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_pixels_are_prepared(mode, wanted, first):
    pixels = np.array([0.0, 127.5, 255.0], "float32").reshape(1, 1, 3)
    data_format = "channels_first" if first else "channels_last"
    if first:
        pixels = pixels.reshape(3, 1, 1)
    call = A.imagenet_utils.preprocess_input
    for x in (pixels, np.stack([pixels, pixels])):
        for give in (lambda x: x.copy(), tk.constant):
            found = np.asarray(call(give(x), data_format=data_format, mode=mode))
            assert found.shape == x.shape
            np.testing.assert_allclose(found.reshape(-1, 3)[-1], wanted, rtol=1e-5)
    assert (
        np.asarray(call(np.zeros((2, 2, 3), "uint8"), mode="tf")).tolist() == [[[-1.0] * 3] * 2] * 2
    )


def test_an_array_of_floats_is_written_to_as_in_keras():
    pixels = np.full((2, 2, 3), 255.0, "float32")
    A.resnet_v2.preprocess_input(pixels)
    assert pixels.max() == 1.0
    same = A.efficientnet.preprocess_input(pixels)
    assert same is pixels


def test_the_likeliest_classes_are_named(monkeypatch, tmp_path):
    listed = {str(i): [f"n{i:08d}", f"name {i}"] for i in range(1000)}
    (tmp_path / "names.json").write_text(json.dumps(listed))
    monkeypatch.setattr(preprocessing, "get_file", lambda *_, **__: str(tmp_path / "names.json"))
    preprocessing._class_names.cache_clear()
    scores = np.zeros((2, 1000), "float32")
    scores[0, [3, 7]] = 0.25, 0.75
    scores[1, 9] = 1
    found = A.vgg16.decode_predictions(tk.constant(scores), top=2)
    preprocessing._class_names.cache_clear()
    assert [row[0] for row in found] == [
        ("n00000007", "name 7", 0.75),
        ("n00000009", "name 9", 1.0),
    ]
    assert found[0][1] == ("n00000003", "name 3", 0.25)
    with pytest.raises(
        tk.errors.InvalidArgumentError, match=r"shape \(batch, 1000\), got \(2, 5\)"
    ):
        A.vgg16.decode_predictions(np.zeros((2, 5)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weights": "nowhere.h5"}, "there is no file 'nowhere.h5'"),
        ({"classes": 5}, "1000 classes, got classes=5"),
        ({"weights": None, "pooling": "mean"}, "pooling"),
        ({"classifier_activation": "relu"}, "classifier_activation"),
        ({"input_shape": (64, 64, 3)}, r"\(224, 224, 3\), got \(64, 64, 3\)"),
        ({"include_top": False, "input_shape": (64, 64, 1)}, "3 channels"),
        ({"weights": None, "input_shape": (8, 64, 3)}, "32 x 32 pixels"),
        ({"weights": None, "input_shape": (64, 64)}, "three sizes"),
        ({"weights": None, "input_shape": (None, None, 3)}, "must be known"),
        ({"weights": None, "input_tensor": 1}, "symbolic tensor"),
    ],
)
def test_what_does_not_fit_is_told(settings, words):
    with pytest.raises(tk.errors.InvalidArgumentError, match=words):
        A.ResNet50(**settings)


@pytest.mark.parametrize("name", STRUCTURES)
def test_each_network_is_a_function_of_its_own(name):
    network = getattr(A, name)
    assert network.__name__ == network.__qualname__ == name
    assert pickle.loads(pickle.dumps(network)) is network
    model_name = inspect.signature(network).parameters["name"].default
    with pytest.raises(tk.errors.InvalidArgumentError, match=model_name or "None"):
        network(weights="no such file")
    with pytest.raises(TypeError, match=rf"^{name}\(\) .*'depth'"):
        network(depth=3)
    text = inspect.getdoc(network)
    assert text.startswith("The ")
    assert "arXiv:" in text.split("\n")[2]
    arguments = text.partition("Args:\n")[2].partition("\n\n")[0]
    described = re.findall(r"^    (\w+): ", arguments, re.MULTILINE)
    assert described == list(inspect.signature(network).parameters)


def test_networks_of_a_family_have_docstrings_of_their_own():
    lines = {name: inspect.getdoc(getattr(A, name)).split("\n")[0] for name in STRUCTURES}
    assert lines["EfficientNetB7"].startswith("The network B7, for images of 600 x 600")
    assert lines["EfficientNetV2S"].startswith("The network S, for images of 384 x 384")
    assert lines["ResNet101"].startswith("The residual network of 101 layers, for images")


def test_only_trained_widths_have_weights():
    with pytest.raises(tk.errors.InvalidArgumentError, match="for alpha"):
        A.MobileNetV2(alpha=0.4)
    with pytest.raises(tk.errors.InvalidArgumentError, match="depth_multiplier=1"):
        A.MobileNet(depth_multiplier=2)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("name", "settings", "url", "md5"),
    [
        ("VGG16", {}, "vgg16/vgg16_weights_tf_dim_ordering_tf_kernels.h5", "64373286"),
        ("ResNet50", {"include_top": False},
         "resnet/resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5", "4d473c1d"),
        ("MobileNetV2", {"include_top": False, "input_shape": (160, 160, 3)},
         "mobilenet_v2/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_160_no_top.h5", None),
        ("MobileNet", {"alpha": 0.5}, "mobilenet/mobilenet_5_0_224_tf.h5", None),
        ("EfficientNetB0", {}, "keras-applications/efficientnetb0.h5", "902e53a9"),
        ("EfficientNetV2S", {"include_top": False},
         "efficientnet_v2/efficientnetv2-s_notop.h5", "af0682fb"),
        ("ConvNeXtTiny", {}, "convnext/convnext_tiny.h5", "8ae6e78c"),
        ("InceptionResNetV2", {},
         "inception_resnet_v2_weights_tf_dim_ordering_tf_kernels.h5", "e693bd02"),
        ("MobileNetV3Small",
         {"minimalistic": True, "input_shape": (224, 224, 3), "include_top": False},
         "weights_mobilenet_v3_small_minimalistic_224_1.0_float_no_top_v2.h5", "cde8136e"),
        ("MobileNetV3Large", {"alpha": 0.75, "input_shape": (224, 224, 3)},
         "mobilenet_v3/weights_mobilenet_v3_large_224_0.75_float.h5", "765b44a3"),
    ],
)  # fmt: skip
def test_trained_weights_are_asked_for_where_keras_keeps_them(
    monkeypatch, name, settings, url, md5
):
    class Asked(Exception):
        pass

    def get_file(name, origin, cache_subdir, file_hash):
        assert origin.endswith(url)
        assert origin.startswith("https://storage.googleapis.com/")
        assert (name, cache_subdir) == (origin.rpartition("/")[2], "models")
        assert file_hash is None if md5 is None else file_hash.startswith(md5)
        raise Asked

    monkeypatch.setattr(network_parts, "get_file", get_file)
    with pytest.raises(Asked):
        getattr(A, name)(**settings)


@pytest.mark.usefixtures("undrawn")
def test_the_files_of_nasnet_have_names_of_their_own(monkeypatch):
    asked = []
    monkeypatch.setattr(network_parts, "get_file", lambda *given, **named: asked.append(given))
    monkeypatch.setattr(tk.Model, "load_weights", lambda self, path: None)
    A.NASNetMobile(include_top=False)
    name, url = asked[0]
    assert name == "nasnet_mobile_no_top.h5"
    assert url.endswith("nasnet/NASNet-mobile-no-top.h5")


@pytest.mark.parametrize("name", ["ConvNeXtTiny", "NASNetMobile"])
def test_networks_for_channels_last_alone_say_so(name):
    K.config.set_image_data_format("channels_first")
    try:
        with pytest.raises(tk.errors.InvalidArgumentError, match="'channels_last'"):
            getattr(A, name)(weights=None)
    finally:
        K.config.set_image_data_format("channels_last")


def test_mobilenet_v3_classifies_images_of_all_sizes(monkeypatch):
    net = A.MobileNetV3Small(weights=None, classes=3, alpha=0.5)
    assert net.input_shape == (None, None, None, 3)
    for size in (48, 65):
        assert net(np.zeros((1, size, size, 3), "float32")).shape == (1, 3)
    monkeypatch.setattr(network_parts, "get_file", lambda *_, **__: "nowhere.h5")
    with pytest.warns(UserWarning, match="None x None"), pytest.raises(OSError, match="nowhere"):
        A.MobileNetV3Small()
    with pytest.raises(tk.errors.InvalidArgumentError, match="for alpha"):
        A.MobileNetV3Large(alpha=0.75, minimalistic=True)


def test_mobilenet_v3_tells_of_a_shape_beside_another_tensor():
    with pytest.raises(tk.errors.InvalidArgumentError, match="leave input_shape out"):
        A.MobileNetV3Small(weights=None, input_shape=(64, 64, 3), input_tensor=K.Input((32, 32, 3)))


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("size", [(97, 65), (65, 65)])
def test_nasnet_drawn_for_all_sizes_is_the_one_drawn_for_a_size(size):
    open_net = A.NASNetMobile(weights=None, include_top=False, input_shape=(None, None, 3))
    net = A.NASNetMobile(weights=None, include_top=False, input_shape=(*size, 3))
    fill(net)
    open_net.set_weights(net.get_weights())
    image = np.sin(np.arange(3 * size[0] * size[1])).reshape(1, *size, 3).astype("float32")
    np.testing.assert_allclose(open_net(image), net(image), rtol=1e-4, atol=1e-5)


def test_pixels_outside_of_the_network_are_scaled_the_same():
    pixels = np.linspace(0, 255, 32 * 32 * 3).reshape(1, 32, 32, 3).astype("float32")
    settings = {"weights": None, "include_top": False, "input_shape": (32, 32, 3)}
    for make, scaled in (
        (A.MobileNetV3Small, pixels / 127.5 - 1),
        (A.EfficientNetV2S, pixels / 128 - 1),
    ):
        inside, outside = make(**settings), make(**settings, include_preprocessing=False)
        outside.set_weights(inside.get_weights())
        np.testing.assert_allclose(outside(scaled), inside(pixels), rtol=1e-4, atol=1e-5)


def test_stochastic_depth_drops_whole_examples():
    layer = tk.layers.residual_branches.StochasticDepth(0.5)
    x = np.ones((64, 3, 3, 2), "float32")
    np.testing.assert_array_equal(layer(x), x)
    found = np.asarray(layer(x, training=True)).reshape(64, -1)
    assert set(found.ravel().tolist()) == {0.0, 2.0}
    assert (found.min(1) == found.max(1)).all()
    with pytest.raises(tk.errors.InvalidArgumentError, match="drop_path_rate"):
        tk.layers.residual_branches.StochasticDepth(1.5)


def test_weights_that_cannot_be_fetched_say_what_to_do(monkeypatch):
    def get_file(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(network_parts, "get_file", get_file)
    with pytest.raises(OSError, match=r"_1\.0_96\.h5 are not.*\(ConnectionError\).*as weights"):
        A.MobileNetV2(input_shape=(96, 96, 3))
