"""Requests and answers in TensorFlow Serving's REST format, and the same with npy and npz.

Source: TensorFlow Serving, "RESTful API", the predict, status and metadata calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from trainkit.cli.serving.array_bodies import (
    JSON,
    NPY,
    NPZ,
    BodyError,
    array_of_json,
    array_of_npy,
    arrays_of_npz,
    json_of,
    loaded_json,
    npy_of,
    npz_of,
)
from trainkit.cli.serving.servable import InputError, Servable, named_arrays, specs_of

_TYPES = {
    "bool": "DT_BOOL", "float16": "DT_HALF", "bfloat16": "DT_BFLOAT16", "float32": "DT_FLOAT",
    "float64": "DT_DOUBLE", "complex64": "DT_COMPLEX64", "complex128": "DT_COMPLEX128",
}  # fmt: skip
CONTENT_TYPES = (JSON, NPY, NPZ)

Compute = Callable[[Any, dict[str, Any]], dict[str, Any]]
Answer = tuple[str, bytes]


def as_json(value: Any) -> bytes:
    """A JSON text; it never holds NaN."""
    return json.dumps(value, allow_nan=False).encode()


def predict(
    servable: Servable,
    compute: Compute,
    body: bytes,
    content_type: str,
    accept: str = "",
    max_bytes: int = 1 << 30,
) -> Answer:
    """The answer to a request, as its media type and its bytes.

    JSON is `{"instances": [...]}`, one entry for each example, or `{"inputs": ...}`, whole arrays;
    with several inputs an entry, or `inputs`, is an object by name. `"signature_name"` picks a
    signature. The answer has `"predictions"` or `"outputs"`, of one result the values alone. An npy
    is the only input, an npz has all of them by name; the answer is npy for one result, else npz.

    Args:
        servable: the model.
        compute: from a signature and its arrays by name to the results by name.
        body: of the request.
        content_type: one of `CONTENT_TYPES`.
        accept: media type of the answer; by default that of the request.
        max_bytes: how many bytes an npz may unpack to.

    Raises:
        BodyError: the body can't be read.
        InputError: it holds what the model does not take.
    """
    if content_type == JSON:
        request = loaded_json(body)
        signature = servable.signature(_signature_name(request))
        arrays, by_row = _arrays_in(request, signature)
    elif content_type == NPY:
        signature = servable.signature()
        names = list(specs_of(signature))
        if len(names) != 1:
            raise InputError(f"the model takes {', '.join(names) or 'nothing'}; send them as npz")
        arrays, by_row = {names[0]: array_of_npy(body)}, False
    else:
        signature = servable.signature()
        arrays, by_row = arrays_of_npz(body, max_bytes), False
    results = compute(signature, named_arrays(signature, arrays))
    if content_type == JSON and accept not in (NPY, NPZ):
        count = len(next(iter(arrays.values()), ())) if by_row else 0
        return JSON, as_json(_answer(results, by_row, count))
    if accept == JSON:
        return JSON, as_json(_answer(results, False, 0))
    if len(results) == 1 and accept != NPZ:
        return NPY, npy_of(next(iter(results.values())))
    if accept == NPY:
        raise InputError(f"the model gives {', '.join(results)}; ask for them as npz")
    return NPZ, npz_of(results)


def _signature_name(request: Any) -> str | None:
    if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
        raise BodyError('the body needs either {"instances": [...]} or {"inputs": ...}')
    unknown = set(request) - {"instances", "inputs", "signature_name"}
    if unknown:
        raise BodyError(
            f"the body has {', '.join(sorted(unknown))[:80]}; it may have instances or inputs, and "
            "signature_name"
        )
    name = request.get("signature_name")
    if name is not None and not isinstance(name, str):
        raise BodyError(f"signature_name is {json.dumps(name)[:40]}, not a text")
    return name or None


def _arrays_in(request: dict[str, Any], signature: Any) -> tuple[dict[str, Any], bool]:
    """The arrays by name, and whether they came example by example."""
    names = list(specs_of(signature))
    if "inputs" in request:
        values = request["inputs"]
        if not isinstance(values, dict):
            values = {_only(names): values}
        return {name: array_of_json(name, value) for name, value in values.items()}, False
    rows = request["instances"]
    if not isinstance(rows, list) or not rows:
        raise BodyError("instances has to be a list of at least one example")
    if not any(isinstance(row, dict) for row in rows):
        name = _only(names)
        return {name: array_of_json(name, rows)}, True
    first = rows[0] if isinstance(rows[0], dict) else {}
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(first):
            raise BodyError(
                f"instance {number} has other inputs than the first one: "
                f"{', '.join(row) if isinstance(row, dict) else 'no names'} and {', '.join(first)}"
            )
    return {name: array_of_json(name, [row[name] for row in rows]) for name in first}, True


def _only(names: list[str]) -> str:
    if len(names) != 1:
        raise InputError(
            f"the model takes {len(names)} inputs, {', '.join(names)}; give values by name"
        )
    return names[0]


def _answer(results: dict[str, Any], by_row: bool, count: int) -> dict[str, Any]:
    """Results as JSON, example by example if they were asked for so."""
    values = {name: json_of(array) for name, array in results.items()}
    if not by_row:
        return {"outputs": next(iter(values.values())) if len(values) == 1 else values}
    wrong = [n for n, array in results.items() if not array.ndim or len(array) != count]
    if wrong:
        raise InputError(
            f"the result {wrong[0]!r} has no row for each of {count} instances; ask with inputs"
        )
    if len(values) == 1:
        return {"predictions": next(iter(values.values()))}
    return {"predictions": [{n: rows[i] for n, rows in values.items()} for i in range(count)]}


# ---------------------------------------------------------------------- about the model


def status_of(servable: Servable) -> dict[str, Any]:
    """What `GET /v1/models/NAME` answers: version 1 is there."""
    state = {"error_code": "OK", "error_message": ""}
    return {"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": state}]}


def metadata_of(servable: Servable) -> dict[str, Any]:
    """What `GET /v1/models/NAME/metadata` answers: names, types and shapes of all signatures."""
    signatures = {
        name: {
            "inputs": {label: _info(label, spec) for label, spec in specs_of(signature).items()},
            "outputs": {
                label: _info(label, spec) for label, spec in signature.structured_outputs.items()
            },
            "method_name": "tensorflow/serving/predict",
        }
        for name, signature in servable.signatures.items()
    }
    return {
        "model_spec": {"name": servable.name, "signature_name": "", "version": "1"},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def _info(label: str, spec: Any) -> dict[str, Any]:
    unknown = spec.shape.rank is None
    sizes = [] if unknown else [{"size": str(-1 if n is None else n), "name": ""}
                                for n in spec.shape]  # fmt: skip
    dtype = _TYPES.get(spec.dtype.name, f"DT_{spec.dtype.name.upper()}")
    shape = {"dim": sizes, "unknown_rank": unknown}
    return {"name": label, "dtype": dtype, "tensor_shape": shape}
