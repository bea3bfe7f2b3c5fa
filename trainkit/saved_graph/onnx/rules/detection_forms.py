"""Which boxes stay: `NonMaxSuppression`."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.ops.images.bounding_boxes import non_max_suppression
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.onnx_form import call_form


def write_suppression(
    to: GraphBuilder, boxes: Any, scores: Any, box_limit: Any, overlap: Any, threshold: Any,
    centered: bool = False,
) -> Value:  # fmt: skip
    """Rows (batch, class, box) of boxes that no better one of their class covers.

    Args:
        to: writes the node.
        boxes: (batch, boxes, 4).
        scores: (batch, classes, boxes).
        box_limit: boxes of a class, a number or value.
        overlap: the intersection over union above which a box is dropped.
        threshold: boxes with this score or less are dropped; minus infinity for none.
        centered: whether boxes are x, y, width and height, and not two corners.
    """
    has_threshold = isinstance(threshold, Value) or threshold > -np.inf
    inputs = [to.cast(to.as_value(x), "float32") for x in (boxes, scores)]
    limits = [_number(to, x) for x in ([overlap, threshold] if has_threshold else [overlap])]
    settings = {"center_point_box": 1} if centered else {}
    return to.op("NonMaxSuppression", *inputs, to.vector([box_limit]), *limits, shape=(None, 3),
                 dtype="int64", **settings)  # fmt: skip


def _number(to: GraphBuilder, x: Any) -> Value:
    value = to.cast(x, "float32") if isinstance(x, Value) else to.known(np.float32(x))
    return to.reshape(value, [1], (1,))


@call_form(non_max_suppression)
def _non_max_suppression(
    to: GraphBuilder, boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any,
    score_threshold: Any, name: Any,
) -> Value:  # fmt: skip
    boxes, scores = to.unsqueeze(to.as_value(boxes), [0]), to.unsqueeze(to.as_value(scores), [0, 1])
    rows = write_suppression(to, boxes, scores, max_output_size, iou_threshold, score_threshold)
    return to.op("Gather", rows, to.known(np.int64(2)), axis=1, shape=(None,))
