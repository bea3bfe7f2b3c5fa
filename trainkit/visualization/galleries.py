"""Images side by side, with labels, boxes or masks; drawn by matplotlib."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process.plotting import matplotlib
from trainkit.visualization.drawing import batch_of, draw_bounding_boxes, draw_segmentation_masks


def _in_bytes(images: Any, value_range: Any) -> Any:
    """Images of any range of values as floats in [0, 255]."""
    low, high = value_range
    return np.clip((images.astype("float32") - low) * (255.0 / (high - low)), 0, 255)


def plot_image_gallery(
    images: Any,
    y_true: Any = None,
    y_pred: Any = None,
    label_map: Any = None,
    rows: int | None = None,
    cols: int | None = None,
    value_range: Any = (0, 255),
    scale: float = 2,
    path: Any = None,
    show: bool | None = None,
    transparent: bool = True,
    dpi: float = 60,
    legend_handles: Any = None,
    data_format: str | None = None,
) -> Any:
    """Show images in rows and columns, or write such a picture to a file.

    Args:
        images: a batch (batch, height, width, 3), or with one channel.
        y_true: labels (batch,), shown above the images.
        y_pred: predicted labels (batch,), likewise.
        label_map: dict of names by label, needed for labels.
        rows: how many; by default about as many as columns.
        cols: how many; by default so many that all images are shown.
        value_range: the least and greatest value of a pixel.
        scale: height and width of an image, in inches.
        path: of a file to write, or a file object.
        show: whether the picture is shown; by default where no `path` is given.
        transparent: whether the background of the file is.
        dpi: dots per inch of the file.
        legend_handles: entries of a legend, as matplotlib takes them.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        The figure, which is closed where it was written or shown.

    Raises:
        ShapeError: the images are no batch.
        ValueError: `path` and `show` are both given, or labels without `label_map`.
        ImportError: matplotlib is not installed; the extra `plots` brings it.
    """
    op = "plot_image_gallery"
    pyplot = matplotlib("pyplot", op)
    if path is not None and show:
        raise InvalidArgumentError(f"{op}: a picture is written to `path` or shown, not both")
    if (y_true is not None or y_pred is not None) and label_map is None:
        raise InvalidArgumentError(f"{op}: labels need a label_map with their names")
    array, _ = batch_of(images, data_format, op)
    rows = rows or math.ceil(math.sqrt(len(array)))
    cols = cols or math.ceil(len(array) / rows)
    figure, grid = pyplot.subplots(
        nrows=rows,
        ncols=cols,
        figsize=(cols * scale, rows * scale),
        frameon=False,
        layout="tight",
        squeeze=False,
        sharex="row",
        sharey="col",
    )
    if legend_handles is not None:
        figure.legend(handles=legend_handles, loc="lower center")
    pixels = _in_bytes(array, value_range).astype("uint8")
    if pixels.shape[-1] == 1:
        pixels = np.repeat(pixels, 3, axis=-1)
    titles = _titles(len(pixels), label_map, Label=y_true, Pred=y_pred)
    for axes in grid.flat:
        axes.axis("off")
        axes.margins(x=0, y=0)
    for axes, image, title in zip(grid.flat, pixels, titles, strict=False):
        axes.imshow(image)
        if title:
            axes.set_title(title, fontsize=8)
    if path is not None:
        figure.savefig(path, pad_inches=0, bbox_inches="tight", transparent=transparent, dpi=dpi)
        pyplot.close(figure)
    elif show is None or show:
        pyplot.show()
        pyplot.close(figure)
    return figure


def _titles(count: int, names: Any, **labels: Any) -> list[str]:
    """What stands above each image."""
    parts: list[list[str]] = [[] for _ in range(count)]
    for word, values in labels.items():
        if values is not None:
            for part, value in zip(parts, ops.convert_to_numpy(values).tolist(), strict=False):
                part.append(f"{word}: {names.get(value, 'Unknown')}")
    return ["  ".join(part) for part in parts]


def plot_bounding_box_gallery(
    images: Any,
    bounding_box_format: str,
    y_true: Any = None,
    y_pred: Any = None,
    value_range: Any = (0, 255),
    true_color: Any = (0, 188, 212),
    pred_color: Any = (255, 235, 59),
    line_thickness: int = 2,
    font_scale: float = 1.0,
    text_thickness: int | None = None,
    class_mapping: Any = None,
    ground_truth_mapping: Any = None,
    prediction_mapping: Any = None,
    legend: bool = False,
    legend_handles: Any = None,
    rows: int | None = None,
    cols: int | None = None,
    data_format: str | None = None,
    **kwargs: Any,
) -> Any:
    """Show images with their boxes, and with those that a model found.

    Args:
        images: a batch (batch, height, width, 3).
        bounding_box_format: of all boxes, see `keras.utils.bounding_boxes.convert_format`.
        y_true: the boxes, a dict as `draw_bounding_boxes` takes it.
        y_pred: predicted boxes, likewise.
        value_range: the least and greatest value of a pixel.
        true_color: red, green and blue of the boxes.
        pred_color: those of predicted ones.
        line_thickness: in pixels.
        font_scale: size of names, 12 pixels at 1.
        text_thickness: of the strokes of names, in pixels; that of the lines by default.
        class_mapping: dict of names by label.
        ground_truth_mapping: the same for `y_true` alone.
        prediction_mapping: the same for `y_pred` alone.
        legend: whether a legend says which color is which.
        legend_handles: entries of another legend.
        rows: how many.
        cols: how many.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        **kwargs: those of `plot_image_gallery`.

    Returns:
        The figure, see `plot_image_gallery`.

    Raises:
        ShapeError: the images are no batch.
        ValueError: `legend` and `legend_handles` are both given.
        ImportError: matplotlib or, for names, Pillow is not installed.
    """
    op = "plot_bounding_box_gallery"
    patches = matplotlib("patches", op)
    if legend and legend_handles:
        raise InvalidArgumentError(f"{op}: give legend or legend_handles, not both")
    array, _ = batch_of(images, data_format, op)
    pixels = _in_bytes(array, value_range).astype("uint8")
    for boxes, color, mapping in (
        (y_true, true_color, ground_truth_mapping or class_mapping),
        (y_pred, pred_color, prediction_mapping or class_mapping),
    ):
        if boxes is not None:
            pixels = draw_bounding_boxes(
                pixels,
                boxes,
                bounding_box_format,
                mapping,
                color,
                line_thickness,
                text_thickness,
                font_scale,
                "channels_last",
            )
    if legend:
        legend_handles = [
            patches.Patch(color=np.array(color) / 255.0, label=label)
            for color, label in ((true_color, "Ground Truth"), (pred_color, "Prediction"))
        ]
    return plot_image_gallery(
        pixels,
        legend_handles=legend_handles,
        rows=rows,
        cols=cols,
        data_format="channels_last",
        **kwargs,
    )


def plot_segmentation_mask_gallery(
    images: Any,
    num_classes: int,
    value_range: Any = (0, 255),
    y_true: Any = None,
    y_pred: Any = None,
    color_mapping: Any = None,
    blend: bool = True,
    alpha: float = 0.8,
    ignore_index: int = -1,
    data_format: str | None = None,
    **kwargs: Any,
) -> Any:
    """Show images, each in a row with its masks and those that a model found.

    Args:
        images: a batch (batch, height, width, 3).
        num_classes: how many classes there are.
        value_range: the least and greatest value of a pixel.
        y_true: masks (batch, height, width, 1).
        y_pred: predicted masks, likewise.
        color_mapping: red, green and blue by class; by default colors that differ.
        blend: whether colors are blended with the image.
        alpha: share of the color, in [0, 1].
        ignore_index: the class of pixels that stay.
        data_format: `"channels_last"` (the default) or `"channels_first"`, of images and masks.
        **kwargs: those of `plot_image_gallery`.

    Returns:
        The figure, see `plot_image_gallery`.

    Raises:
        ShapeError: the images are no batch, or masks don't fit them.
        ImportError: matplotlib is not installed.
    """
    op = "plot_segmentation_mask_gallery"
    array, first = batch_of(images, data_format, op)
    columns = [_in_bytes(array, value_range)]
    for masks in (y_true, y_pred):
        if masks is not None:
            classes = np.asarray(ops.convert_to_numpy(masks)).astype("int32")
            columns.append(
                draw_segmentation_masks(
                    columns[0],
                    np.moveaxis(classes, 1, -1) if first else classes,
                    num_classes,
                    color_mapping,
                    alpha,
                    blend,
                    ignore_index,
                    "channels_last",
                )
            )
    side_by_side = np.stack([c.astype("float32") for c in columns], axis=1)
    return plot_image_gallery(
        side_by_side.reshape(-1, *array.shape[1:]),
        rows=len(array),
        cols=len(columns),
        data_format="channels_last",
        **kwargs,
    )
