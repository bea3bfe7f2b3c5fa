"""Random windows of images that show enough of an object."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk

BOX = [[[0.25, 0.5, 0.75, 1.0]]]


def draw(size=(40, 60, 3), boxes=BOX, seed=(1, 2), **limits):
    boxes = tk.constant(boxes, tk.float32)
    window = tk.image.stateless_sample_distorted_bounding_box(size, boxes, seed, **limits)
    return [np.asarray(x) for x in window]


def test_a_window_is_a_slice_of_the_image_and_a_box_to_draw():
    image = tk.random.normal((40, 60, 3), seed=1)
    window = tk.image.sample_distorted_bounding_box(tk.shape(image), BOX, seed=3)
    begin, size, bboxes = (np.asarray(x) for x in window)
    assert begin.dtype == size.dtype == np.int32
    assert bboxes.dtype == np.float32
    assert begin[2] == 0
    assert size[2] == -1
    assert bboxes.shape == (1, 1, 4)
    part = tk.slice(image, window.begin, window.size)
    assert part.shape == (size[0], size[1], 3)
    expected = np.array([*begin[:2], *(begin + size)[:2]]) / [40, 60, 40, 60]
    np.testing.assert_allclose(bboxes[0, 0], expected, rtol=1e-6)
    assert tk.image.draw_bounding_boxes(image[None], window.bboxes, None).shape == (1, 40, 60, 3)


def test_types_of_the_size_are_those_of_the_results():
    begin, size, _ = draw(tk.constant([40, 60, 3], tk.int64))
    assert begin.dtype == size.dtype == np.int64


@settings(max_examples=60)
@given(
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    seed=st.integers(0, 10**6),
    covered=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    ratios=st.sampled_from([(0.75, 1.33), (1.0, 1.0), (0.2, 5.0)]),
    areas=st.sampled_from([(0.05, 1.0), (0.3, 0.5), (1.0, 1.0)]),
)
def test_a_window_meets_the_limits_or_is_the_image(height, width, seed, covered, ratios, areas):
    begin, size, _ = draw(
        (height, width, 3),
        seed=(seed, 0),
        min_object_covered=covered,
        aspect_ratio_range=ratios,
        area_range=areas,
    )
    top, left, h, w = *begin[:2], *size[:2]
    assert 0 <= top <= top + h <= height
    assert 0 <= left <= left + w <= width
    if (h, w) == (height, width):
        return
    assert areas[0] * height * width <= h * w <= areas[1] * height * width
    assert round(h * ratios[0]) <= w <= round(h * ratios[1])
    object_ = (np.array(BOX[0][0]) * [height, width, height, width]).astype(int)
    shown = np.minimum(object_[2:], [top + h, left + w]) - np.maximum(object_[:2], [top, left])
    area = np.prod(object_[2:] - object_[:2])
    assert area > 0
    assert np.prod(np.maximum(shown, 0)) >= covered * area


def test_one_of_several_boxes_suffices_and_windows_differ():
    boxes = [[[0.0, 0.0, 0.3, 0.3]], [[0.7, 0.7, 1.0, 1.0]]]
    corners = set()
    for seed in range(40):
        begin, size, _ = draw(
            (100, 100, 3), boxes, (seed, 1), min_object_covered=0.6, area_range=(0.1, 0.2)
        )
        corners.add((begin[0] < 30, begin[0] + size[0] > 70))
    assert {(True, False), (False, True)} <= corners


def test_the_image_where_no_attempt_serves():
    begin, size, bboxes = draw(
        (20, 30, 3), [[[0.0, 0.0, 1.0, 1.0]]], min_object_covered=1.0, area_range=(0.1, 0.2)
    )
    assert begin.tolist() == [0, 0, 0]
    assert size.tolist() == [20, 30, -1]
    np.testing.assert_array_equal(bboxes, [[[0, 0, 1, 1]]])


def test_seeds():
    np.testing.assert_array_equal(draw(seed=(1, 2))[0], draw(seed=(1, 2))[0])
    assert len({tuple(draw(seed=(n, 2))[0]) for n in range(8)}) > 1
    tk.random.set_seed(1)
    sample = tk.image.sample_distorted_bounding_box
    first = [sample((400, 600, 3), BOX).begin.numpy().tolist() for _ in range(4)]
    assert len({tuple(x) for x in first}) > 1
    tk.random.set_seed(1)
    assert first == [sample((400, 600, 3), BOX).begin.numpy().tolist() for _ in range(4)]


def test_a_graph_and_a_map_give_what_eager_calls_give():
    def crop(image, boxes, seed):
        window = tk.image.stateless_sample_distorted_bounding_box(tk.shape(image), boxes, seed)
        return tk.slice(image, window.begin, window.size), window.bboxes

    signature = [
        tk.TensorSpec((None, None, 3)),
        tk.TensorSpec((1, None, 4)),
        tk.TensorSpec((2,), tk.int32),
    ]
    graph = tk.function(crop, input_signature=signature)
    image, boxes = tk.random.normal((33, 21, 3), seed=1), tk.constant(BOX)
    for n in range(3):
        seed = tk.constant([n, 5])
        for a, b in zip(crop(image, boxes, seed), graph(image, boxes, seed), strict=True):
            np.testing.assert_array_equal(a, b)
    images = tk.data.Dataset.from_tensors((image, boxes, tk.constant([2, 5]))).map(crop)
    np.testing.assert_array_equal(next(iter(images))[0], crop(image, boxes, (2, 5))[0])


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"min_object_covered": 1.5}, "min_object_covered 1.5 is not in"),
        ({"aspect_ratio_range": (2.0, 1.0)}, r"aspect_ratio_range \(2.0, 1.0\) must be two"),
        ({"area_range": (0.5, 1.5)}, "ends above 1, the whole image"),
        ({"area_range": (0.0, 1.0)}, r"area_range \(0.0, 1.0\) must be two numbers above 0"),
        ({"max_attempts": 0}, "max_attempts must be 1 or more, got 0"),
        ({"boxes": [[[0.0, 0.0, 40.0, 60.0]]]}, "got 0 to 60. Divide pixels by height and width"),
        ({"boxes": [[[0.0, 0.0, float("nan"), 1.0]]]}, "must be shares of the image"),
        ({"boxes": np.zeros((1, 0, 4))}, "use_image_if_no_bounding_boxes=True takes"),
        ({"boxes": np.zeros((1, 4))}, r"must have the shape \(batch, boxes, 4\), got \(1, 4\)"),
        ({"size": (40, 60)}, r"image_size must be three ints, .* shape \(2,\)"),
        ({"size": (40.0, 60.0, 3.0)}, "got float32 of shape"),
        ({"size": (0, 60, 3)}, "an image of height 0 and width 60 is empty"),
    ],
)
def test_what_is_refused(limits, words):
    with pytest.raises((tk.errors.InvalidArgumentError, ValueError), match=words):
        draw(**limits)


def test_no_boxes_where_the_image_is_one():
    _, size, _ = draw(boxes=np.zeros((1, 0, 4)), use_image_if_no_bounding_boxes=True)
    assert 0 < size[0] <= 40
    assert 0 < size[1] <= 60
