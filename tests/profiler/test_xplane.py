"""Spans as the Profile page of TensorBoard reads them: an `XSpace` message."""

import json
import threading

import numpy as np
import pytest
from google.protobuf import descriptor_pb2

import trainkit as tk
from trainkit.profiler import experimental
from trainkit.records.message_classes import message_classes

FIELD = descriptor_pb2.FieldDescriptorProto
# xplane.proto: the fields of each message by number, `*` for lists.
MESSAGES = {
    "XStat": {"metadata_id": (1, "int64"), "int64_value": (4, "int64"), "str_value": (5, "string")},
    "XEvent": {
        "metadata_id": (1, "int64"),
        "offset_ps": (2, "int64"),
        "duration_ps": (3, "int64"),
        "stats": (4, "*XStat"),
    },
    "XLine": {
        "id": (1, "int64"),
        "name": (2, "string"),
        "timestamp_ns": (3, "int64"),
        "events": (4, "*XEvent"),
    },
    "Name": {"id": (1, "int64"), "name": (2, "string")},
    "Entry": {"key": (1, "int64"), "value": (2, "Name")},
    "XPlane": {
        "id": (1, "int64"),
        "name": (2, "string"),
        "lines": (3, "*XLine"),
        "event_metadata": (4, "*Entry"),
        "stat_metadata": (5, "*Entry"),
    },
    "XSpace": {"planes": (1, "*XPlane"), "hostnames": (4, "*string")},
}


def _space_class():
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="x", syntax="proto3")
    scalars = {"int64": FIELD.TYPE_INT64, "string": FIELD.TYPE_STRING}
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            field = message.field.add(name=field_name, number=number, label=FIELD.LABEL_OPTIONAL)
            if kind.startswith("*"):
                field.label, kind = FIELD.LABEL_REPEATED, kind[1:]
            field.type = scalars.get(kind, FIELD.TYPE_MESSAGE)
            if kind not in scalars:
                field.type_name = f".x.{kind}"
    (space,) = message_classes(file, "XSpace")
    return space


def profiled(folder, work):
    with experimental.Profile(folder):
        work()
    (path,) = folder.glob("plugins/profile/*/*.xplane.pb")
    space = _space_class().FromString(path.read_bytes())
    assert path.name == f"{space.hostnames[0]}.xplane.pb"
    (plane,) = space.planes
    assert plane.name == "/host:CPU"
    names = {entry.key: entry.value.name for entry in plane.event_metadata}
    facts = {entry.key: entry.value.name for entry in plane.stat_metadata}
    lines = {}
    for line in plane.lines:
        lines[line.name] = [
            (
                names[event.metadata_id],
                event.offset_ps,
                event.duration_ps,
                {facts[s.metadata_id]: s.str_value or s.int64_value for s in event.stats},
            )
            for event in line.events
        ]
    return path, lines


def test_operations_have_kinds_shapes_and_lines_of_the_program(tmp_path):
    multiply = tk.function(lambda x: tk.matmul(x, x))

    def work():
        tk.exp(tk.ones((20, 30)))
        multiply(tk.ones((4, 4)))

    _, lines = profiled(tmp_path, work)
    (events,) = lines.values()
    by_name = {name: (start, length, facts) for name, start, length, facts in events}
    assert by_name["exp:Exp"][2] == {"shapes": "(20, 30)"}
    assert by_name["matmul:Matmul"][2]["source"].startswith("test_xplane.py:")
    starts = [start for _, start, _, _ in events]
    assert starts == sorted(starts)
    assert min(starts) >= 0
    assert all(length >= 0 for _, _, length, _ in events)


def test_steps_of_fit_are_numbered_and_spans_inside_are_none(tmp_path):
    x, y = np.ones((24, 3), "f"), np.ones((24, 1), "f")
    model = tk.Sequential([tk.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    _, lines = profiled(tmp_path, lambda: model.fit(x, y, batch_size=8, verbose=0))
    steps = [facts["step_num"] for _, _, _, facts in lines["MainThread"] if "_r" in facts]
    assert steps == [0, 1, 2]


def test_steps_of_a_loop_have_the_numbers_that_it_gives(tmp_path):
    def work():
        for step in (7, 8):
            with experimental.Trace("train", step_num=step):
                tk.exp(1.0)
        with experimental.Trace("other"):
            pass

    _, lines = profiled(tmp_path, work)
    steps = {name: facts for name, _, _, facts in lines["MainThread"] if name[:5] in "train other"}
    assert steps["train step_num=7"] == {"step_num": 7, "_r": 1}
    assert steps["train step_num=8"] == {"step_num": 8, "_r": 1}
    assert steps["other"] == {}


def test_each_thread_is_a_line(tmp_path):
    def work():
        tk.exp(1.0)
        thread = threading.Thread(target=lambda: tk.exp(2.0), name="helper")
        thread.start()
        thread.join()

    _, lines = profiled(tmp_path, work)
    assert {"MainThread", "helper"} <= set(lines)
    assert any(name == "exp:Exp" for name, *_ in lines["helper"])


def test_the_plugin_lists_operations_and_steps(tmp_path):
    convert = pytest.importorskip("xprof.convert.raw_to_tool_data")
    model = tk.Sequential([tk.layers.Dense(4, activation="relu"), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((24, 3), "f"), np.ones((24, 1), "f")
    path, _ = profiled(tmp_path, lambda: model.fit(x, y, batch_size=8, verbose=0))
    table, _ = convert.xspace_to_tool_data([str(path)], "framework_op_stats", {})
    kinds = {row["c"][2]["v"] for row in json.loads(table)[0]["rows"]}
    assert any(kind.startswith("Dense") for kind in kinds), kinds
    pages, _ = convert.xspace_to_tool_data([str(path)], "overview_page", {})
    assert float(json.loads(pages)[1]["p"]["steptime_ms_average"]) >= 0
