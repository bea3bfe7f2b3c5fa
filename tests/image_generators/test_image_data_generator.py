"""`ImageDataGenerator`: changes, normalization, batches of arrays, files and tables."""

import os
import pickle

import numpy as np
import pytest

import trainkit as tk

images = tk.keras.preprocessing.image
Generator = images.ImageDataGenerator

X = (np.arange(6 * 9 * 7 * 3).reshape(6, 9, 7, 3) * 37 % 251).astype("float32")
Y = np.arange(6)

# The second batch of X with seed 5, after fit(X): its mean, one of its numbers, its labels.
# Computed with Keras 3.15.
BATCHES = {
    "turned": (127.015, 136.978, {"rotation_range": 40}),
    "all": (
        0.51083,
        0.315543,
        {
            "rescale": 1 / 255,
            "rotation_range": 40,
            "width_shift_range": 0.2,
            "height_shift_range": 0.2,
            "shear_range": 0.2,
            "zoom_range": 0.2,
            "horizontal_flip": True,
        },
    ),
    "reflected": (
        126.219,
        78.6137,
        {"rotation_range": 60, "fill_mode": "reflect", "zoom_range": [0.5, 1.5]},
    ),
    "constant": (
        90.5207,
        88.3402,
        {"rotation_range": 30, "fill_mode": "constant", "cval": 7.0, "width_shift_range": 3},
    ),
    "wrapped": (
        122.449,
        121.356,
        {"rotation_range": 30, "fill_mode": "wrap", "height_shift_range": [-4, 0, 4]},
    ),
    "bright": (148.836, 176, {"brightness_range": [0.4, 1.6], "vertical_flip": True}),
    "rescaled and dark": (0.415541, 0.192157, {"rescale": 1 / 255, "brightness_range": (0.5, 1.0)}),
    "levels": (144.294, 71.5052, {"channel_shift_range": 50.0}),
    "nearest pixel": (
        126.071,
        62,
        {"rotation_range": 30, "interpolation_order": 0, "shear_range": 30.0},
    ),
    "pixels": (123.849, 77.9688, {"width_shift_range": 3.5, "height_shift_range": 2}),
    "samplewise": (-1.70299e-08, -0.861892, {"samplewise_std_normalization": True}),
    "featurewise": (-0.00265635, -0.86584, {"featurewise_std_normalization": True, "rescale": 0.1}),
    "whitened": (-0.000552869, -0.0534321, {"zca_whitening": True}),
}


@pytest.mark.parametrize("case", BATCHES)
def test_a_seed_gives_the_batches_that_it_gives_in_keras(case):
    mean, one, arguments = BATCHES[case]
    generator = Generator(**arguments)
    generator.fit(X)
    batches = generator.flow(X, Y, batch_size=4, seed=5)
    next(batches)
    x, y = next(batches)
    assert x.dtype == np.float32
    assert y.tolist() == [0, 3]
    np.testing.assert_allclose([x.mean(), x[1, 2, 3, 1]], [mean, one], rtol=2e-4, atol=2e-6)


def test_channels_first_changes_the_same_pixels():
    arguments = {"rotation_range": 30, "width_shift_range": 0.2, "horizontal_flip": True}
    last = next(Generator(**arguments).flow(X, batch_size=6, seed=1))
    first = Generator(**arguments, data_format="channels_first")
    moved = next(first.flow(X.transpose(0, 3, 1, 2), batch_size=6, seed=1))
    np.testing.assert_allclose(moved.transpose(0, 2, 3, 1), last, rtol=1e-5)


def test_batches_go_on_without_an_end_and_reset_begins_anew():
    batches = Generator().flow(X, Y, batch_size=4, shuffle=False)
    assert len(batches) == 2
    assert [batches.next()[1].tolist() for _ in range(3)] == [[0, 1, 2, 3], [4, 5], [0, 1, 2, 3]]
    batches.reset()
    assert next(batches)[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(IndexError, match="batch 2 was asked for, there are 2"):
        batches[2]


def test_without_a_seed_the_seed_of_numpy_decides():
    generator = Generator(rotation_range=30)
    found = []
    for _ in range(2):
        np.random.seed(7)
        found.append(next(generator.flow(X, batch_size=3)))
        found.append(generator.random_transform(X[0]))
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])


def test_images_of_the_user_stay_as_they_are():
    x = X.copy()
    generator = Generator(rescale=0.5, samplewise_center=True, featurewise_center=True)
    generator.fit(x)
    next(generator.flow(x))
    generator.standardize(x[0])
    np.testing.assert_array_equal(x, X)


def test_other_inputs_and_weights_go_along():
    batches = Generator().flow(
        (X, Y * 10), Y, sample_weight=Y / 2, batch_size=4, shuffle=False, subset=None
    )
    (x, more), y, weights = next(batches)
    assert (x.shape, more.tolist()) == ((4, 9, 7, 3), [0, 10, 20, 30])
    assert (y.tolist(), weights.tolist()) == ([0, 1, 2, 3], [0.0, 0.5, 1.0, 1.5])


def test_parts_are_apart_and_need_all_classes():
    generator = Generator(validation_split=0.5)
    labels = Y % 2
    parts = [generator.flow(X, labels, subset=s, shuffle=False) for s in ("validation", "training")]
    np.testing.assert_array_equal(np.concatenate([p.x for p in parts]), X)
    with pytest.raises(ValueError, match=r"\[0, 1, 2\] and \[3, 4, 5\]; shuffle the data"):
        generator.flow(X, Y, subset="training")
    assert generator.flow(X, Y, subset="training", ignore_class_split=True).n == 3
    with pytest.raises(ValueError, match="subset='test'; use 'training'"):
        generator.flow(X, Y, subset="test")


def test_models_are_trained_with_it():
    model = tk.Sequential(
        [tk.Input((9, 7, 3)), tk.layers.Flatten(), tk.layers.Dense(6, activation="softmax")]
    )
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    batches = Generator(rescale=1 / 255, rotation_range=10).flow(X, Y, batch_size=4, seed=0)
    history = model.fit(batches, epochs=2, validation_data=batches, verbose=0)
    assert len(history.history["val_loss"]) == 2
    assert model.predict(batches, verbose=0).shape == (6, 6)
    assert model.evaluate(batches, verbose=0, return_dict=True).keys() == {"loss", "accuracy"}
    again = pickle.loads(pickle.dumps(batches))
    assert next(again)[0].shape == (4, 9, 7, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"fill_mode": "edge"}, "fill_mode='edge'; use one of 'nearest'"),
        ({"interpolation_order": 3}, "interpolation_order=3; use one of 0, 1"),
        ({"validation_split": 1.5}, "validation_split=1.5 must lie between 0 and 1"),
        ({"zoom_range": (1, 2, 3)}, "zoom_range must be two numbers"),
        ({"brightness_range": 0.5}, "brightness_range must be two numbers, got 0.5"),
        ({"data_format": "NHWC"}, "data_format 'NHWC'; use"),
    ],
)
def test_other_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Generator(**arguments)


def test_data_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"must be \(images, height, width, channels\), got \(6,"):
        Generator().flow(X[..., 0])
    with pytest.raises(tk.errors.InvalidArgumentError, match="x has 6 images, y has length 4"):
        Generator().flow(X, Y[:4])
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"four axes together, x has shape"):
        Generator().fit(X[0])
    with pytest.raises(ValueError, match="batch_size=0 must be positive"):
        Generator().flow(X, batch_size=0)


def test_what_fit_finds_is_left_out_with_a_warning_before():
    generator = Generator(featurewise_center=True)
    with pytest.warns(UserWarning, match="featurewise_center needs numbers of the data; call fit"):
        np.testing.assert_array_equal(generator.standardize(X[0]), X[0])


# ---------------------------------------------------------------------- files


@pytest.fixture
def folder(tmp_path, rng):
    pytest.importorskip("PIL")
    for name, count in (("cats", 6), ("dogs", 4)):
        (tmp_path / name).mkdir()
        for i in range(count):
            images.save_img(tmp_path / name / f"{i}.png", rng.uniform(0, 255, (10, 8, 3)))
    (tmp_path / "cats" / "notes.txt").write_text("no image")
    return tmp_path


def test_files_of_folders_are_counted_and_labelled(folder, capsys):
    batches = Generator(rescale=1 / 255).flow_from_directory(
        folder, target_size=(5, 6), batch_size=3, class_mode="binary", shuffle=False
    )
    assert capsys.readouterr().out == "Found 10 images belonging to 2 classes.\n"
    assert batches.class_indices == {"cats": 0, "dogs": 1}
    assert batches.filenames[6] == os.path.join("dogs", "0.png")
    assert (batches.samples, batches.num_classes, len(batches)) == (10, 2, 4)
    assert batches.image_shape == (5, 6, 3)
    x, y = batches[2]
    assert (x.shape, y.tolist(), str(y.dtype)) == ((3, 5, 6, 3), [1, 1, 1], "float32")
    assert 0 <= x.min() < x.max() <= 1
    assert batches.labels.tolist() == batches.classes.tolist() == [0] * 6 + [1] * 4


@pytest.mark.parametrize(
    ("mode", "labels"),
    [
        ("categorical", [[1, 0], [1, 0], [0, 1]]),
        ("sparse", [0, 0, 1]),
        ("input", None),
        (None, None),
    ],
)
def test_labels_come_as_class_mode_says(folder, mode, labels):
    batches = Generator().flow_from_directory(
        folder, target_size=(4, 4), batch_size=8, class_mode=mode, shuffle=False, seed=1
    )
    batch = batches[0]
    if mode is None:
        assert batch.shape == (8, 4, 4, 3)
    elif mode == "input":
        np.testing.assert_array_equal(*batch)
    else:
        assert batch[1][4:7].tolist() == labels


def test_parts_of_folders_share_out_each_class(folder):
    generator = Generator(validation_split=0.5)
    parts = {
        part: generator.flow_from_directory(folder, subset=part).filenames
        for part in ("training", "validation")
    }
    assert [os.path.basename(name) for name in parts["validation"]] == [
        "0.png", "1.png", "2.png", "0.png", "1.png",
    ]  # fmt: skip
    assert len(parts["training"]) == 5
    assert not set(parts["training"]) & set(parts["validation"])


def test_changed_images_are_written_for_a_look(folder, tmp_path):
    seen = tmp_path / "seen"
    seen.mkdir()
    batches = Generator(rotation_range=20).flow_from_directory(
        folder, classes=["dogs"], target_size=(4, 4), save_to_dir=seen, save_prefix="turned"
    )
    next(batches)
    assert len(list(seen.glob("turned_*.png"))) == 4


def test_folders_and_words_that_do_not_fit_are_refused(folder):
    generator = Generator()
    with pytest.raises(tk.errors.NotFoundError, match="there is no folder"):
        generator.flow_from_directory(folder / "birds")
    with pytest.raises(tk.errors.NotFoundError, match=r"classes \['birds'\] are not the folders"):
        generator.flow_from_directory(folder, classes=["birds"])
    with pytest.raises(ValueError, match="class_mode='many'; use one of 'categorical'"):
        generator.flow_from_directory(folder, class_mode="many")
    with pytest.raises(ValueError, match="color_mode='cmyk'; use one of 'rgb'"):
        generator.flow_from_directory(folder, color_mode="cmyk")


# ---------------------------------------------------------------------- tables


@pytest.fixture
def table(folder):
    pandas = pytest.importorskip("pandas")
    names = [f"cats/{i}.png" for i in range(4)] + [f"dogs/{i}.png" for i in range(4)]
    return pandas.DataFrame(
        {
            "filename": names,
            "class": ["cat"] * 4 + ["dog"] * 4,
            "age": np.arange(8.0),
            "tags": [["small"], ["small", "loud"]] * 4,
        }
    )


def rows(table, folder, **arguments):
    batches = Generator(validation_split=0.25).flow_from_dataframe(
        table, folder, target_size=(4, 4), shuffle=False, **arguments
    )
    return batches, next(batches)


def test_labels_of_tables_come_as_class_mode_says(table, folder, capsys):
    assert rows(table, folder)[1][1].tolist() == [[1, 0]] * 4 + [[0, 1]] * 4
    assert capsys.readouterr().out == (
        "Found 8 validated image filenames belonging to 2 classes.\n"
    )
    assert rows(table, folder, class_mode="binary")[1][1].tolist() == [0] * 4 + [1] * 4
    assert rows(table, folder, class_mode="raw", y_col="age")[1][1].tolist() == list(range(8))
    assert rows(table, folder, class_mode="other", y_col="age")[0].class_mode == "raw"
    many = rows(table, folder, class_mode="multi_output", y_col=["age", "age"])[1][1]
    assert [column.tolist() for column in many] == [list(range(8))] * 2
    assert rows(table, folder, y_col="tags")[1][1][:2].tolist() == [[0, 1], [1, 1]]
    assert rows(table, folder, class_mode=None)[1].shape == (8, 4, 4, 3)
    weights = rows(table, folder, class_mode="sparse", weight_col="age")[1][2]
    assert weights.tolist() == list(range(8))


def test_classes_and_parts_of_tables_leave_rows_out(table, folder):
    assert rows(table, folder, classes=["dog"])[0].filenames == table["filename"].tolist()[4:]
    assert rows(table, folder, y_col="tags", classes=["loud"])[0].samples == 4
    assert rows(table, folder, subset="validation")[0].samples == 2
    assert rows(table, folder, subset="training")[0].samples == 6


def test_names_without_a_file_are_left_out_with_a_warning(table, folder):
    table.loc[0, "filename"] = "cats/77.png"
    with pytest.warns(UserWarning, match=r"1 names in column 'filename' are no image files"):
        batches, _ = rows(table, folder)
    assert batches.samples == 7


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"y_col": "kind"}, ValueError, r"no columns \['kind'\]; it has \['filename'"),
        ({"x_col": "age"}, TypeError, "names in column 'age' must be texts"),
        ({"y_col": "age"}, TypeError, r"make texts of numbers: table\[column\].astype\(str\)"),
        ({"y_col": "age", "class_mode": "sparse"}, TypeError, "for numbers use class_mode='raw'"),
        ({"class_mode": "multi_output"}, TypeError, "needs a list as y_col, got 'class'"),
        ({"class_mode": "binary", "classes": ["dog"]}, ValueError, "two classes, there are 1"),
        ({"class_mode": "many"}, ValueError, "class_mode='many'; use one of"),
    ],
)
def test_columns_that_do_not_fit_are_refused(table, folder, arguments, error, words):
    with pytest.raises(error, match=words):
        rows(table, folder, **arguments)
