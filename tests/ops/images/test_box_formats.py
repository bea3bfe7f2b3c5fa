"""Bounding boxes: each format into each other, cut off, moved, compared."""

import itertools

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.keras.utils import bounding_boxes as boxes

HEIGHT, WIDTH = 40, 80
CORNERS = np.array([[[10, 4, 30, 20], [0, 0, 80, 40]], [[5, 6, 7, 8], [1, 2, 41, 32]]], "float32")
LEFT, TOP, RIGHT, BOTTOM = np.moveaxis(CORNERS, -1, 0)
SHARE = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT], "float32")
SIZED = np.stack([LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP], -1)
CENTERED = np.stack([(LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2, RIGHT - LEFT, BOTTOM - TOP], -1)
WRITTEN = {
    "xyxy": CORNERS,
    "yxyx": CORNERS[..., [1, 0, 3, 2]],
    "xywh": SIZED,
    "center_xywh": CENTERED,
    "center_yxhw": CENTERED[..., [1, 0, 3, 2]],
    "rel_xyxy": CORNERS / SHARE,
    "rel_yxyx": (CORNERS / SHARE)[..., [1, 0, 3, 2]],
    "rel_xywh": SIZED / SHARE,
    "rel_center_xywh": CENTERED / SHARE,
}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(WRITTEN, WRITTEN)))
def test_each_format_becomes_each_other(source, target):
    got = boxes.convert_format(WRITTEN[source], source, target.upper(), HEIGHT, WIDTH)
    np.testing.assert_allclose(got.numpy(), WRITTEN[target], rtol=1e-6, atol=1e-5)
    one = boxes.convert_format(WRITTEN[source][0], source, target, HEIGHT, WIDTH, "float64")
    assert one.dtype == "float64"
    np.testing.assert_allclose(one.numpy(), WRITTEN[target][0], rtol=1e-6, atol=1e-5)


def test_a_dict_keeps_what_else_it_has_and_stays_as_it_was():
    given = {"boxes": CORNERS, "labels": np.array([[1, 2], [3, 4]]), "confidence": 1.0}
    got = boxes.convert_format(given, "xyxy", "rel_xywh", HEIGHT, WIDTH)
    assert set(got) == set(given)
    assert got["confidence"] == 1.0
    assert given["boxes"] is CORNERS
    np.testing.assert_allclose(got["boxes"].numpy(), WRITTEN["rel_xywh"], rtol=1e-6)


def test_a_graph_with_any_number_of_boxes_converts_too():
    @tk.function(input_signature=[tk.TensorSpec((None, None, 4), "float32")])
    def both(x):
        moved = boxes.convert_format(x, "xyxy", "center_xywh")
        return moved, boxes.compute_iou(x, x, "xyxy")

    moved, iou = both(CORNERS)
    np.testing.assert_allclose(moved.numpy(), CENTERED)
    np.testing.assert_allclose(iou.numpy(), boxes.compute_iou(CORNERS, CORNERS, "xyxy").numpy())


def test_boxes_are_cut_off_and_empty_ones_lose_their_label():
    given = np.array([[-5, -5, 10, 90], [70, 10, 90, 20], [85, 0, 95, 10], [0, 0, 0, 0]], "float32")
    labels = np.array([1, 2, 3, 4])
    cut = boxes.clip_to_image_size({"boxes": given, "labels": labels}, HEIGHT, WIDTH)
    expected = [[0, 0, 10, 40], [70, 10, 80, 20], [80, 0, 80, 10], [0, 0, 0, 0]]
    np.testing.assert_array_equal(cut["boxes"].numpy(), expected)
    np.testing.assert_array_equal(cut["labels"].numpy(), [1, 2, -1, -1])
    shares = boxes.clip_to_image_size(
        {"boxes": given / SHARE, "labels": labels}, bounding_box_format="rel_xyxy"
    )
    np.testing.assert_allclose(shares["boxes"].numpy(), expected / SHARE, rtol=1e-6)
    np.testing.assert_array_equal(shares["labels"].numpy(), [1, 2, -1, -1])
    np.testing.assert_array_equal(labels, [1, 2, 3, 4])


def test_crop_and_pad_are_each_others_inverse_inside():
    moved = boxes.pad(CORNERS, top=3, left=7)
    np.testing.assert_array_equal(moved.numpy(), CORNERS + np.array([7, 3, 7, 3]))
    back = boxes.crop(moved, 3, 7, HEIGHT, WIDTH)
    np.testing.assert_array_equal(back.numpy(), CORNERS)
    np.testing.assert_array_equal(
        boxes.crop(CORNERS, 5, 20, 10, 20).numpy()[0], [[0, 0, 10, 10], [0, 0, 20, 10]]
    )


def affine(angle=0.0, x=0.0, y=0.0, scale=1.0, shear=0.0, **more):
    two = np.ones(2, "float32")
    return boxes.affine_transform(
        CORNERS, two * angle, two * x, two * y, two * scale, two * shear, two * 0, 41, 81, **more
    ).numpy()


def test_affine_boxes_move_as_their_corners_do():
    np.testing.assert_allclose(affine(), CORNERS, atol=1e-4)
    np.testing.assert_allclose(
        affine(x=0.25, y=-0.5), CORNERS + np.array([20, -20, 20, -20]), atol=1e-4
    )
    np.testing.assert_allclose(
        affine(angle=180.0), np.array([80, 40, 80, 40]) - CORNERS[..., [2, 3, 0, 1]], atol=1e-4
    )
    about = {"center_x": 0.0, "center_y": 0.0}
    np.testing.assert_allclose(affine(scale=2.0, **about), CORNERS * 2, atol=1e-4)
    # A quarter turn about the corner: (x, y) becomes (-y, x) or (y, -x).
    turned = affine(angle=90.0, **about)
    np.testing.assert_allclose(turned, np.stack([TOP, -RIGHT, BOTTOM, -LEFT], -1), atol=1e-4)
    # Numbers of Keras 3.15 for a turn, a shear and a scale together.
    np.testing.assert_allclose(
        affine(angle=30.0, x=0.1, y=0.2, scale=1.5, shear=10.0)[0, 0], KERAS_AFFINE, rtol=1e-4
    )


KERAS_AFFINE = [0.6793232, 11.1076946, 44.9698753, 46.8923035]


def reference_iou(a, b):
    across = np.clip(np.minimum(a[2], b[2]) - np.maximum(a[0], b[0]), 0, None)
    down = np.clip(np.minimum(a[3], b[3]) - np.maximum(a[1], b[1]), 0, None)
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    return across * down / (sum(areas) - across * down)


@pytest.mark.parametrize("source", ["xyxy", "center_yxhw", "rel_xywh"])
def test_intersection_over_union_of_all_pairs(source):
    one, two = WRITTEN[source], WRITTEN[source][:, ::-1][:, :1]
    shape = (HEIGHT, WIDTH, 3)
    got = boxes.compute_iou(one, two, source, image_shape=shape).numpy()
    assert got.shape == (2, 2, 1)
    for b, i in itertools.product(range(2), range(2)):
        want = reference_iou(CORNERS[b, i], CORNERS[b, 1])
        np.testing.assert_allclose(got[b, i, 0], want, rtol=1e-4)
    mixed = boxes.compute_iou(one, two[0], source, image_shape=shape).numpy()
    np.testing.assert_allclose(mixed[0], got[0], rtol=1e-5)
    flat = boxes.compute_iou(one[0], two[0], source, image_shape=shape).numpy()
    np.testing.assert_allclose(flat, got[0], rtol=1e-5)


def test_masked_boxes_count_for_none():
    absent = np.array([[-1.0, -1, -1, -1], [0, 0, 10, 10]])
    got = boxes.compute_iou(absent, absent, "xyxy", use_masking=True, mask_val=-7).numpy()
    np.testing.assert_allclose(got, [[-7, -7], [-7, 1]], rtol=1e-5)


def test_complete_iou_is_one_for_equal_boxes_and_falls_with_distance_and_form():
    base = np.array([[10.0, 10, 30, 20]])
    others = np.array([[10.0, 10, 30, 20], [12, 10, 32, 20], [40, 40, 60, 50], [10, 10, 20, 30]])
    got = boxes.compute_ciou(base, others, "xyxy").numpy()
    np.testing.assert_allclose(got[0], 1.0, atol=1e-5)
    assert got[0] > got[1] > 0 > got[2]
    iou = reference_iou(base[0], others[3])
    v = 4 / np.pi**2 * (np.arctan(10 / 20) - np.arctan(20 / 10)) ** 2
    distance = (5**2 + 5**2) / (20**2 + 20**2)
    np.testing.assert_allclose(got[3], iou - distance - v**2 / (v - iou + 1), rtol=1e-5)


@pytest.mark.parametrize("encoding", ["center_yxhw", "center_xywh"])
@pytest.mark.parametrize("variance", [None, [0.1, 0.1, 0.2, 0.2]])
def test_deltas_lead_back_to_the_boxes(encoding, variance):
    anchors = CORNERS + np.array([1, -2, 3, 4], "float32")
    settings = {"variance": variance, "image_shape": (HEIGHT, WIDTH, 3)}
    deltas = boxes.encode_box_to_deltas(
        anchors, WRITTEN["rel_xywh"], "xyxy", "rel_xywh", encoding, **settings
    )
    back = boxes.decode_deltas_to_boxes(anchors, deltas, "xyxy", "rel_xywh", encoding, **settings)
    np.testing.assert_allclose(back.numpy(), WRITTEN["rel_xywh"], rtol=1e-4, atol=1e-5)
    levels = boxes.decode_deltas_to_boxes(
        {"a": anchors}, {"a": deltas}, "xyxy", "rel_xywh", encoding, **settings
    )
    np.testing.assert_array_equal(levels["a"].numpy(), back.numpy())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: boxes.convert_format(CORNERS, "xyxy", "xxyy"), InvalidArgumentError, "rel_xywh"),
        (lambda: boxes.convert_format(CORNERS, "xyxy", "rel_xyxy"), InvalidArgumentError, "size"),
        (lambda: boxes.convert_format(CORNERS[..., :3], "xyxy", "xywh"), ShapeError, "4 numbers"),
        (lambda: boxes.clip_to_image_size({"boxes": CORNERS}), InvalidArgumentError, "height None"),
        (
            lambda: boxes.clip_to_image_size({"boxes": CORNERS}, 1, 1, "xywh"),
            NotImplementedError,
            "'rel_xyxy'",
        ),
        (lambda: boxes.pad(CORNERS, 1, 1, bounding_box_format="xywh"), NotImplementedError, "xyxy"),
        (lambda: boxes.compute_iou(CORNERS[0, 0], CORNERS, "xyxy"), ShapeError, "boxes1"),
        (lambda: boxes.compute_ciou(CORNERS, CORNERS, "rel_xyxy"), InvalidArgumentError, "shape="),
        (
            lambda: boxes.encode_box_to_deltas(CORNERS, CORNERS, "xyxy", "xyxy", "xyxy"),
            InvalidArgumentError,
            "encoding_format",
        ),
        (
            lambda: boxes.decode_deltas_to_boxes(
                CORNERS, CORNERS, "xyxy", "xyxy", variance=[1.0, 2.0]
            ),
            ShapeError,
            "length 4",
        ),
    ],
)
def test_errors_say_what_is_supported(call, error, text):
    with pytest.raises(error, match=text):
        call()
