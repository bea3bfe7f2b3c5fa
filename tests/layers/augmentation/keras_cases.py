"""Fixed transformations of fixed images: what trainkit gives, and what Keras gave.

`python -m tests.layers.augmentation.keras_cases`, where the real Keras is installed, writes
`keras_numbers.json`: a few numbers of each result.
"""

import json
import pathlib

import numpy as np

NUMBERS = pathlib.Path(__file__).with_name("keras_numbers.json")
SHAPE = (2, 5, 6, 3)
FEW = 12


def pixels(shape=SHAPE):
    count = int(np.prod(shape))
    return ((np.arange(count) * 37 + 11) % 251).reshape(shape).astype("float32")


def floats(*rows):
    return np.array(rows, "float32")


IMAGES = pixels()
MASKS = (IMAGES[..., :1] % 4).astype("int32")
BOXES = {
    "boxes": floats([[1, 1, 4, 3], [2, 0, 5, 4]], [[0, 1, 3, 5], [1.5, 2.5, 3, 4]]),
    "labels": np.array([[1, 2], [3, 4]], "int32"),
}
BOTH = np.array([True, False])
START = floats(*[[[0, 0], [5, 0], [0, 4], [5, 4]]] * 2)
END = floats([[0, 0], [4, 1], [1, 3], [5, 4]], [[1, 0], [5, 0], [0, 4], [3, 3]])
EDGES = np.broadcast_to((np.arange(6) > 3)[:, None], SHAPE)


def each(*numbers):
    return floats(*numbers).reshape(-1, 1, 1, 1)


def transformations(layers):
    """Name: (layer, transformation, what it changes, least and greatest value of the images)."""
    boxed = {"bounding_box_format": "xyxy"}
    cases = {
        "flip": (
            layers.RandomFlip("horizontal", **boxed),
            {"flips": BOTH.reshape(2, 1, 1, 1)},
            "ib",
        ),
        "flip both": (layers.RandomFlip(**boxed), {"flips": BOTH.reshape(2, 1, 1, 1)}, "ib"),
        "zoom": (
            layers.RandomZoom(0.5, 0.5, **boxed),
            {"height_zoom": floats([1.3], [0.7]), "width_zoom": floats([0.8], [1.2])},
            "ib",
        ),
        "shear": (
            layers.RandomShear(0.5, 0.5, **boxed),
            {"shear_factor": floats([0.3, 0.2], [-0.4, 0.1])},
            "imb",
        ),
        "perspective": (
            layers.RandomPerspective(**boxed),
            {"apply_perspective": np.array([True, True]), "start_points": START, "end_points": END},
            "imb",
        ),
        "brightness": (layers.RandomBrightness(0.5), {"rgb_delta": each(20, -30)}, "i"),
        "contrast": (layers.RandomContrast(0.5), {"contrast_factor": each(0.5, 1.4)}, "i"),
        "hue": (layers.RandomHue(0.5), {"factor": floats(0.3, -0.2)}, "i"),
        "degeneration": (layers.RandomColorDegeneration(0.5), {"factor": each(0.3, -0.2)}, "i"),
        "invert": (layers.RandomInvert(0.5, (10, 200)), {"apply_inversion": BOTH}, "i"),
        "posterization": (
            layers.RandomPosterization(4),
            {"shift_factor": np.array([4, 6], "uint8")},
            "i",
        ),
        "sharpness": (layers.RandomSharpness(0.5), {"factor": floats(0.1, 0.9)}, "i"),
        "blur": (
            layers.RandomGaussianBlur(0.5, 5),
            {"should_apply_blur": BOTH, "blur_factor": floats(0.8, 0.5)},
            "i",
        ),
        "erasing": (
            layers.RandomErasing(),
            {"apply_erasing": BOTH, "batch_masks": EDGES, "fill_value": np.full_like(IMAGES, 9)},
            "i",
        ),
        "mix up": (
            layers.MixUp(),
            {"mix_weight": floats(0.3, 0.8), "permutation_order": np.array([1, 0])},
            "i",
        ),
        "auto contrast": (layers.AutoContrast(), None, "i"),
        "equalization": (layers.Equalization(), {}, "i"),
        "equalization, 16 bins": (layers.Equalization(bins=16), {}, "i"),
        "clahe": (
            layers.ContrastLimitedAdaptiveHistogramEqualization(tile_grid_size=(2, 3)),
            None,
            "i",
        ),
    }
    for fill_mode in ("reflect", "constant", "nearest"):
        cases[f"translation, {fill_mode}"] = (
            layers.RandomTranslation(0.5, 0.5, fill_mode, fill_value=7.0, **boxed),
            {"translations": floats([1.5, -1], [0, 2])},
            "imb",
        )
    return cases


def of_small_values(layers):
    """Cases for images in [0, 1]."""
    ranged = {"value_range": (0, 1)}
    return {
        "saturation": (layers.RandomSaturation(0.5, **ranged), {"factor": floats(0.5, 1.4)}, "i"),
        "solarization": (
            layers.Solarization(0.5, 0.5, **ranged),
            {"additions": each(20, 40), "thresholds": each(100, 50)},
            "i",
        ),
        "auto contrast to 1": (layers.AutoContrast(**ranged), None, "i"),
        "equalization to 1": (layers.Equalization(**ranged), {}, "i"),
    }


def whole_calls(layers):
    """Layers that draw nothing, or from a range of one number."""
    boxed = {"bounding_box_format": "xyxy"}
    return {
        "center crop": layers.CenterCrop(3, 4, **boxed),
        "center crop of less": layers.CenterCrop(8, 7, **boxed),
        "resizing": layers.Resizing(3, 9, **boxed),
        "resizing, padded": layers.Resizing(8, 8, pad_to_aspect_ratio=True, **boxed),
        "resizing, cropped": layers.Resizing(4, 7, crop_to_aspect_ratio=True, **boxed),
        "rotation": layers.RandomRotation((0.1, 0.1), **boxed),
        "boxes": layers.MaxNumBoundingBoxes(3, **boxed),
    }


def spectrograms(layers):
    """Name: (layer, signal)."""
    rng = np.random.RandomState(3)
    sound = rng.normal(size=(2, 300)).astype("float32")
    signal = rng.normal(size=(2, 60, 2)).astype("float32")
    cases = {
        "mel": (layers.MelSpectrogram(64, 32, num_mel_bins=6, sampling_rate=8000), sound),
        "mel power": (
            layers.MelSpectrogram(64, 16, 48, num_mel_bins=5, power_to_db=False, mag_exp=1.5),
            sound,
        ),
    }
    for mode in "log magnitude psd real imag stft".split():
        cases[f"stft {mode}"] = (layers.STFTSpectrogram(mode, 16, 8), signal)
        cases[f"stft {mode}, axes"] = (
            layers.STFTSpectrogram(mode, 16, 8, padding="same", expand_dims=True),
            signal,
        )
    return cases


def results(layers, tensor):
    """Name and array of each result; `tensor` makes a tensor of an array."""
    for scale, cases in ((1, transformations(layers)), (255, of_small_values(layers))):
        for name, (layer, drawn, kinds) in cases.items():
            given = None
            if drawn is not None:
                given = {key: tensor(value) for key, value in drawn.items()}
                given["input_shape"] = SHAPE
            yield f"{name}: images", layer.transform_images(tensor(IMAGES / scale), given, True)
            if "m" in kinds:
                yield f"{name}: masks", layer.transform_segmentation_masks(tensor(MASKS), given)
            if "b" in kinds:
                boxes = {key: tensor(value) for key, value in BOXES.items()}
                boxes = layer.transform_bounding_boxes(boxes, given, True)
                yield f"{name}: boxes", boxes["boxes"]
                yield f"{name}: labels", boxes["labels"]
    for name, layer in whole_calls(layers).items():
        boxes = {key: value.copy() for key, value in BOXES.items()}
        done = layer({"images": IMAGES.copy(), "bounding_boxes": boxes})
        yield f"{name}: images", done["images"]
        yield f"{name}: boxes", done["bounding_boxes"]["boxes"]
        yield f"{name}: labels", done["bounding_boxes"]["labels"]
    for name, (layer, signal) in spectrograms(layers).items():
        yield name, layer(tensor(signal))


def few(array):
    """The shape of an array, its sum, and a few of its numbers."""
    array = np.asarray(array, "float64")
    places = np.linspace(0, array.size - 1, FEW).astype(int)
    numbers = [float(np.float32(n)) for n in array.ravel()[places]]
    return {"shape": list(array.shape), "mean": float(np.float32(array.mean())), "some": numbers}


def main():
    """Write the numbers of the Keras that is installed."""
    import keras

    numbers = {
        name: few(keras.ops.convert_to_numpy(result))
        for name, result in results(keras.layers, keras.ops.convert_to_tensor)
    }
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in numbers.items()]
    NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
