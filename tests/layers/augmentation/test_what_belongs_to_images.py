"""Labels, bounding boxes and masks that come along with images, in dicts."""

import numpy as np
import pytest

from trainkit import layers
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.graph.tracing.function import function
from trainkit.keras.utils.bounding_boxes import convert_format

HEIGHT, WIDTH, COUNT = 24, 32, 6
rng = np.random.default_rng(5)
# A rectangle in each image, left, top, right and bottom.
LEFT, TOP = rng.integers(2, 16, COUNT), rng.integers(2, 12, COUNT)
CORNERS = np.stack(
    [LEFT, TOP, LEFT + rng.integers(5, 12, COUNT), TOP + rng.integers(5, 9, COUNT)], -1
)
MASKS = np.zeros((COUNT, HEIGHT, WIDTH, 1), "int32")
for mask, (left, top, right, bottom) in zip(MASKS, CORNERS, strict=True):
    mask[top:bottom, left:right] = 3
BOXES = CORNERS[:, None].astype("float32")
NAMES = np.arange(COUNT)[:, None]
FORMATS = ["xyxy", "rel_center_xywh", "yxyx"]
SAMPLED = {"interpolation": "nearest", "fill_mode": "constant"}

MOVING = {
    "flip": lambda **more: layers.RandomFlip("horizontal", seed=1, **more),
    "flip both": lambda **more: layers.RandomFlip(seed=2, **more),
    "translation": lambda **more: layers.RandomTranslation(0.3, 0.4, seed=1, **SAMPLED, **more),
    "far away": lambda **more: layers.RandomTranslation((1, 1), 0.0, seed=1, **SAMPLED, **more),
    "zoom": lambda **more: layers.RandomZoom(0.4, 0.3, seed=1, **SAMPLED, **more),
    "rotation": lambda **more: layers.RandomRotation(0.3, seed=1, **SAMPLED, **more),
    "perspective": lambda **more: layers.RandomPerspective((1, 1), 0.4, "nearest", seed=1, **more),
    "crop": lambda **more: layers.RandomCrop(17, 20, seed=1, **more),
    "crop of less": lambda **more: layers.RandomCrop(40, 20, seed=1, **more),
    "center": lambda **more: layers.CenterCrop(17, 20, **more),
    "center of less": lambda **more: layers.CenterCrop(40, 30, **more),
    "resizing": lambda **more: layers.Resizing(12, 40, "nearest", **more),
    "resizing, cropped": lambda **more: layers.Resizing(
        30, 20, "nearest", crop_to_aspect_ratio=True, **more
    ),
    "resizing, padded": lambda **more: layers.Resizing(
        48, 40, "nearest", pad_to_aspect_ratio=True, **more
    ),
    "policy": lambda **more: layers.RandAugment((0, 5), 3, 0.2, "nearest", seed=4, **more),
}
STILL = {
    "brightness": lambda **more: layers.RandomBrightness(0.5, (0, 5), seed=1, **more),
    "contrast": lambda **more: layers.RandomContrast(0.5, (0, 5), seed=1, **more),
    "invert": lambda **more: layers.RandomInvert(1.0, (0, 5), seed=1, **more),
    "sharpness": lambda **more: layers.RandomSharpness(0.5, (0, 5), seed=1, **more),
    "blur": lambda **more: layers.RandomGaussianBlur(1.0, value_range=(0, 5), seed=1, **more),
    "hue": lambda **more: layers.RandomHue(0.5, (0, 5), seed=1, **more),
    "saturation": lambda **more: layers.RandomSaturation(0.5, (0, 5), seed=1, **more),
    "grayscale": lambda **more: layers.RandomGrayscale(0.5, seed=1, **more),
    "degeneration": lambda **more: layers.RandomColorDegeneration(0.5, (0, 5), seed=1, **more),
    "jitter": lambda **more: layers.RandomColorJitter((0, 5), 0.2, 0.2, 0.4, 0.3, seed=1, **more),
    "posterization": lambda **more: layers.RandomPosterization((1, 8), (0, 5), seed=1, **more),
    "solarization": lambda **more: layers.Solarization(0.5, 0.5, (0, 5), seed=1, **more),
    "erasing": lambda **more: layers.RandomErasing(seed=1, value_range=(0, 5), **more),
    "auto contrast": lambda **more: layers.AutoContrast((0, 5), **more),
    "equalization": lambda **more: layers.Equalization((0, 5), **more),
    "clahe": lambda **more: layers.ContrastLimitedAdaptiveHistogramEqualization(
        (0, 5), tile_grid_size=2, **more
    ),
}


def written(boxes, box_format, height=HEIGHT, width=WIDTH):
    return convert_format(boxes, "xyxy", box_format, height, width).numpy()


def everything(box_format="xyxy"):
    """A dict of a batch: three channels, so that layers for colors take it too."""
    return {
        "images": np.repeat(MASKS, 3, -1).astype("float32"),
        "labels": np.eye(COUNT, dtype="float32"),
        "segmentation_masks": MASKS.copy(),
        "bounding_boxes": {"boxes": written(BOXES, box_format), "labels": NAMES.copy()},
        "weights": np.ones(COUNT, "float32"),
    }


def one_of(data, i):
    return {
        key: one_of(value, i) if isinstance(value, dict) else value[i]
        for key, value in data.items()
    }


def leaves(data):
    for key, value in sorted(data.items()):
        yield from leaves(value) if isinstance(value, dict) else [(key, np.asarray(value))]


def assert_same(one, two, **tolerance):
    for (key, a), (other, b) in zip(leaves(one), leaves(two), strict=True):
        assert key == other
        np.testing.assert_allclose(a, b, err_msg=key, **tolerance)


@pytest.mark.parametrize("box_format", FORMATS)
@pytest.mark.parametrize("name", [name for name in MOVING if name != "policy"])
def test_masks_and_boxes_go_where_the_pixels_go(name, box_format):
    data = everything(box_format)
    result = MOVING[name](bounding_box_format=box_format)(data, training=True)
    masks = result["segmentation_masks"].numpy()
    assert masks.dtype == "int32"
    assert set(np.unique(masks)) <= {0, 3}
    height, width = masks.shape[1:3]
    assert result["images"].shape == (COUNT, height, width, 3)
    if "of less" not in name:  # which blend pixels
        np.testing.assert_array_equal(result["images"].numpy()[..., :1], masks)
    boxes = convert_format(result["bounding_boxes"]["boxes"], box_format, "xyxy", height, width)
    names = result["bounding_boxes"]["labels"].numpy()
    for i, ((box,), (name_of,)) in enumerate(zip(boxes.numpy(), names, strict=True)):
        rows, columns = np.nonzero(masks[i, :, :, 0])
        if name_of == -1:
            assert len(rows) == 0
            continue
        assert name_of == i
        if len(rows):
            around = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            np.testing.assert_allclose(box, around, atol=2.01, err_msg=f"image {i}")


@pytest.mark.parametrize("box_format", FORMATS)
def test_a_policy_moves_all_by_the_same_picks(box_format):
    data = everything(box_format)
    layer = MOVING["policy"](bounding_box_format=box_format)
    drawn = layer.get_random_transformation(data)
    names = [layer._names[i] for i in drawn["layer_idxes"].numpy()]
    assert {"random_rotation", "random_translation", "random_shear"} & set(names)
    masks, boxes = MASKS, data["bounding_boxes"]
    for name in names:
        part, own = getattr(layer, name), drawn["transforms"].get(name)
        masks = part.transform_segmentation_masks(masks, own)
        boxes = part.transform_bounding_boxes(boxes, own)
    again = MOVING["policy"](bounding_box_format=box_format)(data, training=True)
    assert_same(
        {"segmentation_masks": again["segmentation_masks"], **again["bounding_boxes"]},
        {"segmentation_masks": masks, **boxes},
        rtol=1e-5,
        atol=1e-5,
    )
    assert (np.asarray(masks) != MASKS).any()


@pytest.mark.parametrize("name", STILL)
def test_light_and_color_leave_what_belongs_to_images(name):
    data = everything()
    data["images"] = data["images"] * np.array([1.0, 0.5, 0.2], "float32")
    result = STILL[name](bounding_box_format="xyxy")(data, training=True)
    assert not np.array_equal(result.pop("images").numpy(), data.pop("images"))
    assert_same(result, data)
    assert result["segmentation_masks"].dtype == "int32"


@pytest.mark.parametrize("name", [*MOVING, *STILL])
def test_a_graph_gives_the_same_and_the_input_stays(name):
    make = {**MOVING, **STILL}[name]
    data = everything()
    result = make(bounding_box_format="xyxy")(data, training=True)
    assert list(result) == list(data)
    assert_same(data, everything())
    layer = make(bounding_box_format="xyxy")
    traced = function(lambda x: layer(x, training=True))(data)
    assert_same(traced, result, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", [*MOVING, *STILL])
def test_one_image_comes_as_in_a_batch_of_one(name):
    make = {**MOVING, **STILL}[name]
    data = everything()
    single = make(bounding_box_format="xyxy")(one_of(data, 2), training=True)
    batch = {
        key: {k: v[2:3] for k, v in value.items()} if isinstance(value, dict) else value[2:3]
        for key, value in data.items()
    }
    batch = make(bounding_box_format="xyxy")(batch, training=True)
    assert_same(single, one_of(batch, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in MOVING if "resizing" not in n and "center" not in n])
def test_without_training_all_stays(name):
    result = MOVING[name](bounding_box_format="xyxy")(everything(), training=False)
    assert_same(result, everything())


def test_boxes_may_be_lists_of_different_lengths():
    layer = layers.RandomFlip("horizontal", seed=1, bounding_box_format="xyxy")
    boxes = {
        "boxes": [[[1, 2, 3, 4], [5, 6, 7, 8]], [], [[0, 0, 9, 9]]],
        "labels": [[1, 2], [], [3]],
    }
    result = layer({"images": np.zeros((3, 10, 10, 1)), "bounding_boxes": boxes}, training=True)
    np.testing.assert_array_equal(
        result["bounding_boxes"]["labels"].numpy(), [[1, 2], [-1, -1], [3, -1]]
    )
    assert result["bounding_boxes"]["boxes"].shape == (3, 2, 4)
    one = {"boxes": [[1, 2, 3, 4]], "labels": [7]}
    result = layer({"images": np.zeros((10, 10, 1)), "bounding_boxes": one}, training=True)
    assert result["bounding_boxes"]["labels"].numpy().tolist() == [7]


def test_a_crop_takes_the_same_boxes_for_all_images():
    layer = layers.CenterCrop(3, 4, bounding_box_format="xyxy")
    shared = {"boxes": np.array([[1.0, 2, 8, 9]]), "labels": np.array([0])}
    result = layer({"images": np.zeros((2, 9, 10, 1)), "bounding_boxes": shared})
    np.testing.assert_array_equal(result["bounding_boxes"]["boxes"].numpy(), [[0, 0, 4, 3]])
    turned = layers.RandomRotation(0.1, bounding_box_format="xyxy")
    with pytest.raises(ShapeError, match="each of 2 images"):
        turned({"images": np.zeros((2, 9, 10, 1)), "bounding_boxes": shared}, training=True)


def test_the_number_of_boxes_becomes_the_same():
    layer = layers.MaxNumBoundingBoxes(3, fill_value=-5, bounding_box_format="xyxy")
    for count in (1, 3, 5):
        boxes = {"boxes": np.ones((2, count, 4)), "labels": np.ones((2, count), "int64")}
        result = layer({"images": MASKS[:2], "bounding_boxes": boxes})
        kept = min(count, 3)
        assert result["images"].dtype == "int32"
        filled = result["bounding_boxes"]
        assert filled["boxes"].shape == (2, 3, 4)
        assert (filled["boxes"].numpy()[:, :kept] == 1).all()
        assert (filled["boxes"].numpy()[:, kept:] == -5).all()
        assert (filled["labels"].numpy()[:, kept:] == -5).all()
        assert filled["labels"].dtype == "int64"


def test_mixed_labels_follow_the_share_of_the_pixels():
    images = np.broadcast_to(np.arange(COUNT, dtype="float32")[:, None, None, None], MASKS.shape)
    data = {"images": images, "labels": np.eye(COUNT, dtype="float32")}
    result = layers.MixUp(1.0, seed=3)(data, training=True)
    numbers = result["labels"].numpy() @ np.arange(COUNT)
    np.testing.assert_allclose(result["images"].numpy()[:, 0, 0, 0], numbers, rtol=1e-5)
    assert (np.count_nonzero(result["labels"].numpy(), axis=1) == 2).any()
    masks = {**data, "segmentation_masks": images.astype("int32")}
    cut = layers.CutMix(seed=3)(masks, training=True)
    np.testing.assert_array_equal(cut["segmentation_masks"].numpy(), cut["images"].numpy())
    assert cut["segmentation_masks"].dtype == "int32"
    for i, image in enumerate(cut["images"].numpy()):
        own = (image == i).mean()
        np.testing.assert_allclose(cut["labels"].numpy()[i, i], own, atol=0.1)
        np.testing.assert_allclose(cut["labels"].numpy()[i].sum(), 1.0, rtol=1e-5)


def test_mixed_images_have_the_boxes_of_both():
    layer = layers.MixUp(seed=1, bounding_box_format="xyxy")
    data = everything()
    result = layer(data, training=True)["bounding_boxes"]
    assert result["boxes"].shape == (COUNT, 2, 4)
    np.testing.assert_array_equal(result["boxes"].numpy()[:, :1], BOXES)
    other = result["labels"].numpy()[:, 1]
    assert sorted(other) == list(range(COUNT))
    np.testing.assert_array_equal(result["boxes"].numpy()[:, 1], BOXES[other, 0])


def test_elastic_masks_drift_with_their_images():
    layer = layers.RandomElasticTransform((1, 1), (1, 1), "nearest", seed=1)
    data = everything()
    del data["bounding_boxes"]
    result = layer(data, training=True)
    masks = result["segmentation_masks"].numpy()
    assert (masks != MASKS).any()
    np.testing.assert_array_equal(result["images"].numpy()[..., :1], masks)


@pytest.mark.parametrize(
    ("layer", "change", "error", "text"),
    [
        (layers.RandomFlip(), {}, InvalidArgumentError, "bounding_box_format='xyxy'"),
        (
            layers.RandomElasticTransform(bounding_box_format="xyxy"),
            {},
            NotImplementedError,
            "foll",
        ),
        (layers.CutMix(bounding_box_format="xyxy"), {}, NotImplementedError, "MixUp"),
        (
            layers.RandomFlip(bounding_box_format="xyxy"),
            {"bounding_boxes": {"boxes": BOXES}},
            InvalidArgumentError,
            "'labels'",
        ),
        (
            layers.RandomFlip(bounding_box_format="xyxy"),
            {"bounding_boxes": {"boxes": BOXES[0, 0], "labels": NAMES}},
            ShapeError,
            r"boxes \(4,\)",
        ),
        (
            layers.RandomFlip(bounding_box_format="xyxy"),
            {"bounding_boxes": {"boxes": [[[1, 2, 3, 4]]], "labels": [[1, 2]]}},
            InvalidArgumentError,
            "labels",
        ),
        (layers.RandomFlip(bounding_box_format="xy"), {}, InvalidArgumentError, "rel_xyxy"),
        (layers.RandomFlip(), {"images": MASKS[0, 0]}, ShapeError, "images have 3 axes"),
    ],
)
def test_what_does_not_fit_is_named(layer, change, error, text):
    with pytest.raises(error, match=text):
        layer({**everything(), **change}, training=True)
