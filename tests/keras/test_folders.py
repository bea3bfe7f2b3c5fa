"""Folders, files and series as data sets, as `keras.utils` gives them."""

import numpy as np
import pytest

import trainkit as tk

pil = pytest.importorskip("PIL.Image")
utils = tk.keras.utils


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(["cats", "dogs"]):
        (tmp_path / name).mkdir()
        for i in range(5):
            pixels = np.full((8, 6, 3), 100 * number + i, "uint8")
            pil.fromarray(pixels).save(tmp_path / name / f"{i}.png")
            (tmp_path / name / f"{i}.txt").write_text(f"{name} {i}")
            sound = np.full((i + 1, 1), 0.5, "float32")
            (tmp_path / name / f"{i}.wav").write_bytes(tk.audio.encode_wav(sound, 8000).numpy())
    (tmp_path / "cats" / "notes.md").write_text("no image")
    return tmp_path


def test_images_with_labels(folder, capsys):
    data = utils.image_dataset_from_directory(
        folder, image_size=(4, 4), batch_size=4, shuffle=False
    )
    assert capsys.readouterr().out == "Found 10 files belonging to 2 classes.\n"
    assert data.class_names == ["cats", "dogs"]
    assert len(data.file_paths) == 10
    images, labels = data.element_spec
    assert (images, labels) == (tk.TensorSpec((None, 4, 4, 3)), tk.TensorSpec((None,), "int32"))
    found = [(x.numpy()[:, 0, 0, 0].tolist(), y.numpy().tolist()) for x, y in data]
    assert found == [
        ([0, 1, 2, 3], [0] * 4),
        ([4, 100, 101, 102], [0, 1, 1, 1]),
        ([103, 104], [1, 1]),
    ]


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("int", [0, 1]), ("binary", [[0.0], [1.0]]), ("categorical", [[1.0, 0.0], [0.0, 1.0]])],
)
def test_kinds_of_labels(folder, mode, wanted):
    data = utils.image_dataset_from_directory(
        folder, label_mode=mode, batch_size=None, image_size=(2, 2), shuffle=False, verbose=False
    )
    labels = [y.numpy().tolist() for _, y in data]
    assert [labels[0], labels[-1]] == wanted


def test_images_alone_and_other_shapes(folder):
    data = utils.image_dataset_from_directory(
        folder, labels=None, color_mode="grayscale", image_size=(4, 4), seed=1,
        data_format="channels_first", crop_to_aspect_ratio=True,
    )  # fmt: skip
    assert next(iter(data)).shape == (10, 1, 4, 4)
    assert data.element_spec == tk.TensorSpec((None, 1, 4, 4))


def test_images_are_filled_up_after_they_are_resized(folder):
    """As Keras does, by `tf.image.resize_with_pad`: zeros are not mixed into the border."""
    data = utils.image_dataset_from_directory(
        folder, image_size=(4, 4), pad_to_aspect_ratio=True, batch_size=2, shuffle=False,
        verbose=False,
    )  # fmt: skip
    assert data.element_spec[0] == tk.TensorSpec((None, 4, 4, 3))
    second = next(iter(data))[0].numpy()[1]
    np.testing.assert_allclose(second[..., 0], [[1, 1, 1, 0]] * 4)


def test_nearest_pixels_stay_bytes(folder):
    data = utils.image_dataset_from_directory(
        folder, image_size=(4, 4), interpolation="nearest", shuffle=False, verbose=False
    )
    assert data.element_spec[0] == tk.TensorSpec((None, 4, 4, 3), "uint8")
    images, _ = next(iter(data))
    assert images.dtype == tk.uint8
    assert images.numpy()[-1].tolist() == [[[104] * 3] * 4] * 4


def test_subsets_share_no_files(folder, capsys):
    more = {"validation_split": 0.3, "seed": 3, "image_size": (2, 2)}
    train = utils.image_dataset_from_directory(folder, subset="training", **more)
    valid = utils.image_dataset_from_directory(folder, subset="validation", **more)
    assert "Using 7 files for training." in capsys.readouterr().out
    assert len({*train.file_paths} | {*valid.file_paths}) == 10
    both = utils.image_dataset_from_directory(folder, subset="both", **more)
    assert [part.file_paths for part in both] == [train.file_paths, valid.file_paths]
    assert sum(len(y) for _, y in train) == 7


def test_a_model_is_trained_on_a_folder(folder):
    data = utils.image_dataset_from_directory(folder, image_size=(4, 4), seed=1, verbose=False)
    model = tk.Sequential([tk.layers.Rescaling(1 / 255), tk.layers.Flatten(), tk.layers.Dense(2)])
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    history = model.fit(data.cache().shuffle(10), validation_data=data, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def test_texts_with_labels(folder):
    data = utils.text_dataset_from_directory(folder, batch_size=3, shuffle=False, max_length=4)
    texts, labels = next(iter(data))
    assert texts.numpy().tolist() == [b"cats"] * 3
    assert labels.numpy().tolist() == [0, 0, 0]
    assert data.element_spec[0] == tk.TensorSpec((None,), tk.string)
    whole = utils.text_dataset_from_directory(folder, labels=None, seed=2, batch_size=20)
    assert sorted(next(iter(whole)).numpy().tolist())[0] == b"cats 0"


def test_sounds_with_labels(folder):
    data = utils.audio_dataset_from_directory(folder, batch_size=5, shuffle=False)
    sounds, labels = next(iter(data))
    assert sounds.shape == (5, 5, 1)
    assert labels.numpy().tolist() == [0] * 5
    np.testing.assert_allclose(sounds[0, :, 0], [0.5, 0, 0, 0, 0], atol=1e-4)
    cut = utils.audio_dataset_from_directory(folder, output_sequence_length=3, seed=1)
    assert next(iter(cut))[0].shape == (10, 3, 1)
    with pytest.raises(ValueError, match="format 'grain'; only 'tf'"):
        utils.audio_dataset_from_directory(folder, format="grain")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"labels": "guess"}, "labels must be"),
        ({"labels": [1, 2]}, "2 labels for 10 files"),
        ({"label_mode": "float"}, "label_mode 'float'"),
        ({"class_names": ["cats", "birds"]}, "are not the folders"),
        ({"validation_split": 2.0, "subset": "training"}, "between 0 and 1"),
        ({"validation_split": 0.2}, "goes with subset"),
        ({"validation_split": 0.2, "subset": "training"}, "give a seed"),
        ({"color_mode": "hsv"}, "color_mode 'hsv'"),
    ],
)
def test_arguments_that_do_not_fit(folder, more, words):
    with pytest.raises(ValueError, match=words):
        utils.image_dataset_from_directory(folder, **more)


def test_a_missing_or_empty_folder(tmp_path):
    with pytest.raises(tk.errors.NotFoundError, match="there is no folder"):
        utils.image_dataset_from_directory(tmp_path / "none")
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="no files in"):
        utils.text_dataset_from_directory(tmp_path)


# ------------------------------------------------------------------ images


def test_images_go_to_arrays_and_back(folder, tmp_path):
    image = utils.load_img(folder / "dogs" / "3.png", target_size=(4, 3))
    array = utils.img_to_array(image)
    assert (array.shape, array.dtype) == ((4, 3, 3), np.float32)
    assert (array == 103).all()
    assert utils.img_to_array(image, data_format="channels_first").shape == (3, 4, 3)
    ramp = np.arange(24.0).reshape(4, 6, 1).repeat(3, axis=-1)
    back = utils.img_to_array(utils.array_to_img(ramp))
    assert (back.min(), back.max()) == (0, 255)
    np.testing.assert_array_equal(utils.img_to_array(utils.array_to_img(ramp, scale=False)), ramp)
    utils.save_img(tmp_path / "x.png", ramp, scale=False)
    np.testing.assert_array_equal(utils.img_to_array(utils.load_img(tmp_path / "x.png")), ramp)
    gray = utils.load_img(tmp_path / "x.png", color_mode="grayscale")
    assert utils.img_to_array(gray).shape == (4, 6, 1)
    wide = utils.load_img(tmp_path / "x.png", target_size=(4, 4), keep_aspect_ratio=True)
    np.testing.assert_array_equal(utils.img_to_array(wide), ramp[:, 1:5])
    with pytest.raises(tk.errors.NotFoundError, match="there is no file"):
        utils.load_img(tmp_path / "y.png")
    (tmp_path / "y.png").write_text("no image")
    with pytest.raises(tk.errors.InvalidArgumentError, match="is no image"):
        utils.load_img(tmp_path / "y.png")
    with pytest.raises(ValueError, match="three axes"):
        utils.array_to_img(np.zeros((3, 3)))


def test_sounds_are_decoded():
    sound = np.linspace(-1, 0.9, 12, dtype="float32").reshape(6, 2)
    data = tk.audio.encode_wav(sound, 16000)
    found, rate = tk.audio.decode_wav(data)
    np.testing.assert_allclose(found, sound, atol=1e-4)
    assert int(rate) == 16000
    found, _ = tk.audio.decode_wav(data, desired_channels=1, desired_samples=8)
    assert found.shape == (8, 1)
    assert tk.audio.decode_wav(data, desired_channels=3)[0].shape == (6, 3)
    for damaged in (b"", b"RIFF", data.numpy()[:30]):
        with pytest.raises(tk.errors.InvalidArgumentError, match="no WAV"):
            tk.audio.decode_wav(damaged)


# ------------------------------------------------------------------ series


def test_windows_of_a_series():
    data = np.arange(10)
    windows = utils.timeseries_dataset_from_array(
        data[:-3], data[3:], 3, sequence_stride=2, batch_size=2
    )
    found = [(x.numpy().tolist(), y.numpy().tolist()) for x, y in windows]
    assert found == [([[0, 1, 2], [2, 3, 4]], [3, 5]), ([[4, 5, 6]], [7])]
    wide = np.arange(20.0).reshape(10, 2)
    alone = utils.timeseries_dataset_from_array(wide, None, 3, sampling_rate=2, batch_size=None)
    assert [x.numpy()[:, 0].tolist() for x in alone] == [
        [2 * i, 2 * i + 4, 2 * i + 8] for i in range(6)
    ]
    part = utils.timeseries_dataset_from_array(data, None, 2, start_index=2, end_index=6)
    assert next(iter(part)).numpy().tolist() == [[2, 3], [3, 4], [4, 5]]
    mixed = utils.timeseries_dataset_from_array(data, data, 2, shuffle=True, seed=1)
    x, y = next(iter(mixed))
    assert sorted(y.numpy().tolist()) == list(range(9))
    np.testing.assert_array_equal(x[:, 0], y)
    for wrong in (
        {"sampling_rate": 0},
        {"start_index": 10},
        {"end_index": 99},
        {"format": "grain"},
    ):
        with pytest.raises(ValueError, match="timeseries_dataset_from_array"):
            utils.timeseries_dataset_from_array(data, None, 2, **wrong)
