"""TensorFlow's names, and what TensorBoard reads of a profile."""

import gzip
import json

import pytest

import trainkit as tk
from trainkit.core.errors import FailedPreconditionError, UnimplementedError
from trainkit.profiler import profiling
from trainkit.summary.protos import varint as _varint

experimental = tk.profiler.experimental


def read(logdir):
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.plugin_event_accumulator"
    )
    found = accumulators.EventAccumulator(str(logdir))
    found.Reload()
    return found


@tk.function(jit_compile=False)
def product(x):
    return tk.matmul(x, x)


def test_a_profile_as_tensorboard_reads_it(tmp_path):
    x = tk.ones((200, 200))
    product(x)
    experimental.start(tmp_path)
    for _ in range(3):
        product(x)
    tk.ops.exp(x)
    experimental.stop()

    found = read(tmp_path)
    make_ndarray = pytest.importorskip("tensorboard.util.tensor_util").make_ndarray
    text = make_ndarray(found.Tensors("profile")[0].tensor_proto).item().decode()
    assert found.SummaryMetadata("profile").plugin_data.plugin_name == "text"
    assert "| op | exp | (200, 200) | 1 |" in text
    assert text.count("\n| --- |") == 2
    (node,) = [n for n in found.Graph().node if n.op.lower() == "matmul"]

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    older = EventAccumulator(str(tmp_path))
    older.Reload()
    (tag,) = older.Tags()["run_metadata"]
    (device,) = older.RunMetadata(tag).step_stats.dev_stats
    assert device.device == "/device:CPU:0"
    (stats,) = device.node_stats
    assert stats.node_name == node.name == "product/MatMul"
    assert list(node.input) == ["product/x", "product/x"]
    assert stats.all_end_rel_micros == stats.op_end_rel_micros >= 1

    (trace,) = tmp_path.glob("plugins/profile/*/*.trace.json.gz")
    with gzip.open(trace, "rt") as file:
        names = [event["name"] for event in json.load(file)["traceEvents"]]
    assert names.count("product") == 3


def test_programs_of_one_name_are_told_apart(tmp_path):
    with experimental.Profile(tmp_path):
        product(tk.ones((2, 2)))
        product(tk.ones((3, 3)))
    names = [node.name for node in read(tmp_path).Graph().node]
    assert {"product/MatMul", "product_1/MatMul"} <= set(names)


def test_nothing_is_written_that_is_not_to_be_saved(tmp_path):
    experimental.start(tmp_path)
    experimental.stop(save=False)
    assert list(tmp_path.iterdir()) == []


def test_profile_is_start_and_stop(tmp_path):
    with experimental.Profile(tmp_path, experimental.ProfilerOptions(device_tracer_level=0)):
        with pytest.raises(FailedPreconditionError, match="a profile runs already"):
            experimental.start(tmp_path)
        assert profiling.running() is not None
    assert profiling.running() is None
    assert list(tmp_path.glob("*tfevents*"))
    with pytest.raises(FailedPreconditionError, match="no profile runs"):
        experimental.stop()


@pytest.mark.parametrize(
    "options", [{"python_tracer_level": 1}, {"delay_ms": 5}, {"host_tracer_level": 0}]
)
def test_options_that_are_not_supported(options, tmp_path):
    ((name, value),) = options.items()
    with pytest.raises(UnimplementedError, match=f"{name}={value} is not supported"):
        experimental.start(tmp_path, experimental.ProfilerOptions(**options))
    assert profiling.running() is None


def test_a_span_of_your_own():
    with experimental.Trace("before", step_num=1):
        pass
    with tk.profiler.profile() as p:
        with experimental.Trace("train", step_num=2, _r=1) as trace:
            tk.ones(3) + 1.0
            trace.set_metadata(loss=0.5)
    (row,) = [row for row in p.rows if row.kind == "user"]
    assert row.name == "train step_num=2 loss=0.5"
    assert row.self_seconds < row.total_seconds


def test_what_needs_another_process_says_what_to_use():
    with pytest.raises(AttributeError, match="a process profiles itself"):
        _ = experimental.server
    with pytest.raises(AttributeError, match="no attribute 'clown'"):
        _ = experimental.clown


@pytest.mark.parametrize(("value", "code"), [(0, b"\0"), (127, b"\x7f"), (300, b"\xac\x02")])
def test_whole_numbers_of_protocol_buffers(value, code):
    assert _varint(value) == code
