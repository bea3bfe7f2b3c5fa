"""Images with boxes, masks and labels: the pixels that are painted, and pictures of galleries."""

import io
import sys

import numpy as np
import pytest
from matplotlib import pyplot

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.keras import visualization

GRAY = np.full((2, 30, 40, 3), 100, "uint8")
BOXES = {
    "boxes": np.array([[[5, 6, 20, 25], [0, 0, 3, 3]], [[30, 10, 60, 20], [1, 1, 2, 2]]]),
    "labels": np.array([[0, -1], [1, 7]]),
}
RED = (255, 0, 0)


@pytest.fixture(autouse=True)
def _without_screen(monkeypatch):
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def frame(left, top, right, bottom):
    """Which pixels of an image lie on a frame, one pixel wide."""
    rows, columns = np.mgrid[:30, :40]
    inside = (rows >= top) & (rows <= bottom) & (columns >= left) & (columns <= right)
    edge = (rows == top) | (rows == bottom) | (columns == left) | (columns == right)
    return inside & edge


def test_frames_are_painted_and_all_else_stays():
    drawn = visualization.draw_bounding_boxes(GRAY, BOXES, "xyxy", color=RED, line_thickness=1)
    assert drawn.dtype == "uint8"
    painted = (drawn == RED).all(-1)
    np.testing.assert_array_equal(painted[0], frame(5, 6, 20, 25))
    np.testing.assert_array_equal(painted[1], frame(30, 10, 60, 20) | frame(1, 1, 2, 2))
    assert (drawn[~painted] == 100).all()
    assert (GRAY == 100).all()


def test_formats_tensors_floats_and_channels_first_give_the_same():
    plain = visualization.draw_bounding_boxes(GRAY, BOXES, "xyxy")
    shares = {**BOXES, "boxes": BOXES["boxes"] / np.array([40, 30, 40, 30])}
    np.testing.assert_array_equal(
        visualization.draw_bounding_boxes(convert_to_tensor(GRAY), shares, "rel_xyxy"), plain
    )
    np.testing.assert_array_equal(
        visualization.draw_bounding_boxes(np.float32(GRAY), BOXES, "xyxy"), plain
    )
    first = visualization.draw_bounding_boxes(
        np.moveaxis(GRAY, -1, 1), BOXES, "xyxy", data_format="channels_first"
    )
    np.testing.assert_array_equal(np.moveaxis(first, 1, -1), plain)
    small = visualization.draw_bounding_boxes(GRAY / np.float32(255), BOXES, "xyxy")
    assert np.abs(small.astype(int) - plain).max() <= 1


def test_thick_lines_lie_about_the_edge():
    boxes = {"boxes": np.array([[[10, 10, 20, 20]]]), "labels": np.array([[0]])}
    drawn = visualization.draw_bounding_boxes(GRAY[:1], boxes, "xyxy", color=RED, line_thickness=3)
    painted = (drawn[0] == RED).all(-1)
    assert painted[9:12, 9:22].all()
    assert painted[19:22, 9:22].all()
    assert not painted[12:19, 12:19].any()
    assert painted.sum() == 13 * 13 - 7 * 7


def test_names_are_written_above_or_inside_and_only_where_there_are_some():
    images = np.zeros((1, 60, 80, 3), "uint8")
    boxes = {"boxes": np.array([[[5, 40, 70, 55]]]), "labels": np.array([[1]])}
    bare = visualization.draw_bounding_boxes(images, boxes, "xyxy", {2: "other"}, RED)
    named = visualization.draw_bounding_boxes(images, boxes, "xyxy", {1: "cat"}, RED)
    changed = (named != bare).any(-1)[0]
    assert changed[15:36].any()
    assert not changed[40:].any()
    sure = visualization.draw_bounding_boxes(
        images, {**boxes, "confidences": np.array([[0.5]])}, "xyxy", {1: "cat"}, RED
    )
    assert ((sure != bare).any(-1)).sum() > changed.sum()
    at_top = {"boxes": np.array([[[5, 2, 70, 55]]]), "labels": np.array([[1]])}
    inside = visualization.draw_bounding_boxes(images, at_top, "xyxy", {1: "cat"}, RED)
    plain = visualization.draw_bounding_boxes(images, at_top, "xyxy", None, RED)
    assert (inside != plain).any(-1)[0, 4:40, 8:].any()


def test_masks_are_blended_with_numbers_of_keras():
    images = np.arange(24, dtype="float32").reshape(1, 2, 4, 3) * 10
    masks = np.array([[[[0], [1], [2], [3]], [[-1], [2], [1], [0]]]])
    drawn = visualization.draw_segmentation_masks(images, masks, 3)
    assert drawn.dtype == "uint8"
    np.testing.assert_array_equal(drawn.reshape(-1, 3), KERAS_MASKS)
    np.testing.assert_array_equal(
        visualization.draw_segmentation_masks(
            np.moveaxis(images, -1, 1), np.moveaxis(masks, -1, 1), 3, data_format="channels_first"
        ),
        drawn,
    )
    found = visualization.draw_segmentation_masks(images, masks, blend=False)[0, 0, 3]
    np.testing.assert_array_equal(found, 3 * np.array([2**25 - 1, 2**15 - 1, 2**21 - 1]) % 255)
    solid = visualization.draw_segmentation_masks(
        images, masks, 2, [(1, 2, 3), (4, 5, 6)], blend=False
    )
    assert solid.dtype == "float32"
    np.testing.assert_array_equal(
        solid[0, 0], [[1, 2, 3], [4, 5, 6], images[0, 0, 2], images[0, 0, 3]]
    )


KERAS_MASKS = [
    [0, 2, 4],
    [6, 109, 34],
    [13, 217, 65],
    [90, 100, 110],
    [120, 130, 140],
    [31, 235, 83],
    [36, 139, 64],
    [42, 44, 46],
]


def picture(**settings):
    """The pixels of a gallery, as they stand in its file."""
    file = io.BytesIO()
    figure = settings.pop("plot")(path=file, transparent=False, **settings)
    file.seek(0)
    return figure, pyplot.imread(file)


def test_a_gallery_shows_all_images_and_their_labels():
    images = np.stack([np.full((8, 8, 3), 50 * i) for i in range(5)])
    figure, pixels = picture(
        plot=visualization.plot_image_gallery,
        images=images,
        y_true=np.array([0, 1, 0, 1, 0]),
        y_pred=convert_to_tensor([1, 1, 1, 1, 1]),
        label_map={0: "cat"},
    )
    shown = [axes for axes in figure.axes if axes.images]
    assert len(shown) == 5
    for axes, image in zip(shown, images, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), image)
    assert shown[1].get_title() == "Label: Unknown  Pred: Unknown"
    assert shown[0].get_title() == "Label: cat  Pred: Unknown"
    assert pixels.ndim == 3
    assert not pyplot.get_fignums()


@pytest.mark.parametrize("first", [False, True])
def test_value_ranges_and_layouts(first):
    images = np.random.default_rng(0).uniform(-1, 1, (3, 4, 6, 1)).astype("float32")
    figure = visualization.plot_image_gallery(
        np.moveaxis(images, -1, 1) if first else images,
        value_range=(-1, 1),
        rows=1,
        cols=2,
        show=False,
        data_format="channels_first" if first else None,
    )
    assert len(figure.axes) == 2
    want = np.repeat((images[1] + 1) * 127.5, 3, -1)
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), want, atol=1.01)
    assert pyplot.get_fignums()


def test_a_gallery_of_boxes_draws_both_and_a_legend():
    figure = visualization.plot_bounding_box_gallery(
        GRAY / np.float32(255), "xyxy", BOXES, BOXES, (0, 1), legend=True, show=False
    )
    image = np.asarray(figure.axes[0].images[0].get_array())
    assert (image[6, 6:20] == (255, 235, 59)).all()
    assert abs(int(image[15, 12, 0]) - 100) <= 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "Ground Truth",
        "Prediction",
    ]


def test_a_gallery_of_masks_has_a_row_for_each_image():
    masks = np.zeros((2, 30, 40, 1), "int64")
    masks[:, :, 20:] = 1
    figure = visualization.plot_segmentation_mask_gallery(
        GRAY, 2, y_true=masks, y_pred=1 - masks, color_mapping={0: RED, 1: (0, 0, 255)}, show=False
    )
    shown = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    assert len(shown) == 6
    np.testing.assert_array_equal(shown[0], GRAY[0])
    assert shown[1][0, 0].tolist() == shown[2][0, 30].tolist() == [224, 20, 20]
    assert shown[1][0, 30].tolist() == [20, 20, 224]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda v: v.draw_bounding_boxes(GRAY[0], BOXES, "xyxy"), ShapeError, "batch"),
        (lambda v: v.draw_bounding_boxes(GRAY, [1], "xyxy"), TypeError, "dict"),
        (lambda v: v.draw_bounding_boxes(GRAY, {"boxes": 1}, "xyxy"), ValueError, "labels"),
        (
            lambda v: v.draw_bounding_boxes(GRAY, BOXES, "xyxy", line_thickness=0),
            InvalidArgumentError,
            "line_thickness",
        ),
        (lambda v: v.draw_segmentation_masks(GRAY, GRAY[..., :1] / 2), TypeError, "float64"),
        (lambda v: v.draw_segmentation_masks(GRAY, GRAY[:, :2, :, :1]), ShapeError, "2, 30, 40, 1"),
        (lambda v: v.plot_image_gallery(GRAY, path="x", show=True), ValueError, "not both"),
        (lambda v: v.plot_image_gallery(GRAY, y_true=[1, 2]), ValueError, "label_map"),
        (lambda v: v.plot_image_gallery(GRAY[0]), ShapeError, "batch"),
        (lambda v: v.plot_image_gallery(GRAY, data_format="x"), ValueError, "channels_first"),
        (
            lambda v: v.plot_bounding_box_gallery(GRAY, "xyxy", legend=True, legend_handles=[1]),
            ValueError,
            "not both",
        ),
    ],
)
def test_errors_name_the_argument(call, error, text):
    with pytest.raises(error, match=text):
        call(visualization)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'matplotlib>=3\.8'"):
        visualization.plot_image_gallery(GRAY)
