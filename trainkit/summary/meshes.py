"""`mesh`: points and surfaces in space, which TensorBoard turns about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainkit.summary.protos import set_metadata, set_numbers
from trainkit.summary.recording import record

# Kind, number (ContentType) and dtype of each part, as TensorBoard's plugin has them.
_PARTS = (("VERTEX", 1, "float32"), ("FACE", 2, "int32"), ("COLOR", 3, "uint8"))


def mesh(
    name: str,
    vertices: Any,
    faces: Any = None,
    colors: Any = None,
    config_dict: Mapping[str, Any] | None = None,
    step: Any = None,
    description: str | None = None,
) -> Any:
    """Record point clouds, or surfaces made of triangles.

    Args:
        name: name of the mesh; a `/` groups meshes.
        vertices: coordinates of points, shape (meshes, points, 3).
        faces: the three points of each triangle, by number, shape (meshes, triangles, 3); without
            it the points alone are shown.
        colors: red, green and blue of each point from 0 to 255, shape (meshes, points, 3).
        config_dict: classes of ThreeJS with their settings, such as
            `{"material": {"cls": "PointsMaterial", "size": 0.02}}`.
        step: the step; None for the default step.
        description: shown beside the mesh, in Markdown.

    Returns:
        Whether it was recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: a shape is another, or there is no step.

    Example:
        >>> points = [[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.mesh("triangle", points, faces=[[[0, 1, 2]]], step=0))
        True
    """
    named_parts = zip(_PARTS, (vertices, faces, colors), strict=True)
    parts = [(part, data) for part, data in named_parts if data is not None]
    components = sum(1 << number for (_, number, _), _ in parts)
    config = json.dumps(dict(config_dict or {}), sort_keys=True)
    recorded: Any = True
    for (kind, number, dtype), data in parts:
        tag = f"{name}_{kind}"
        arguments = (name, number, dtype, components, config, description)
        recorded = record(_fill_mesh, tag, data, step, *arguments)
    return recorded


def _fill_mesh(
    value: Any,
    data: np.ndarray,
    name: str,
    number: int,
    dtype: str,
    components: int,
    config: str,
    description: str | None,
) -> None:
    from tensorboardX.proto.plugin_mesh_pb2 import MeshPluginData

    if data.ndim != 3 or data.shape[2] != 3:
        raise ValueError(
            f"summary {value.tag!r}: the shape is {data.shape}, expected (meshes, points or "
            "triangles, 3)."
        )
    plugin = MeshPluginData(
        version=0, name=name, content_type=number, json_config=config, shape=data.shape
    )
    # tensorboardX's message lacks the newest field, 7: which parts there are
    content = plugin.SerializeToString() + bytes((7 << 3, components))
    set_numbers(value, np.asarray(data, dtype))
    set_metadata(value, "mesh", content, description)
