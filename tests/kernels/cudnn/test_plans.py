"""Plans of cuDNN: what they are known by, when they are built, chosen and kept."""

import threading

import numpy as np
import pytest

import trainkit as tk
from tests.stand_in import cudnn
from trainkit.cli.checks import environment
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.kernels.cudnn import deferred, frontend, plan_choice, plans
from trainkit.kernels.threads import pools


def convolved(size=6, dtype="float32", filters=3, **settings):
    x = tk.cast(tk.ones((2, size, size, 4)), dtype)
    kernel = tk.cast(tk.ones((3, 3, 4, filters)), dtype)
    return tk.ops.conv(x, kernel, **settings)


def test_a_plan_is_built_once_for_what_it_computes(cudnn_state):
    for _ in range(3):
        convolved()
    assert (len(cudnn_state.built), len(cudnn_state.executed)) == (1, 3)
    for other in (
        {"size": 7},
        {"dtype": "float16"},
        {"dtype": "bfloat16"},
        {"filters": 4},
        {"strides": 2},
        {"padding": "same"},
        {"padding": ((1, 0), (0, 0))},
        {"dilation_rate": 2},
    ):
        before = plans.count()
        convolved(**other)
        convolved(**other)
        assert plans.count() == before + 1, other
    assert len(cudnn_state.built) == plans.count()


@pytest.mark.parametrize("enabled", [False, True])
def test_tensor_cores_take_float32_where_that_is_allowed(enabled, cudnn_state):
    note = cudnn.numerical_note
    always = {note.REDUCED_PRECISION_REDUCTION, note.DOWN_CONVERT_INPUTS}
    convolved()
    assert set(cudnn_state.unwanted) == always | {note.TENSOR_CORE}
    convolved(dtype="bfloat16")
    assert set(cudnn_state.unwanted) == always
    tk.config.experimental.enable_tensor_float_32_execution(enabled)
    try:
        convolved()
        assert len(cudnn_state.built) == 2 + enabled
        assert set(cudnn_state.unwanted) == always
    finally:
        tk.config.experimental.enable_tensor_float_32_execution(False)


def test_results_that_must_not_vary_come_from_plans_that_do_not(cudnn_state, monkeypatch):
    convolved()
    assert cudnn.numerical_note.NONDETERMINISTIC not in cudnn_state.unwanted
    monkeypatch.setattr(pools, "determined", lambda: True)
    convolved()
    assert cudnn.numerical_note.NONDETERMINISTIC in cudnn_state.unwanted
    assert plans.count() == 2


def test_turned_off_it_is_not_asked(cudnn_state):
    deferred.set_mode("off")
    assert np.all(convolved().numpy() == 36.0)
    assert (cudnn_state.built, cudnn_state.handles) == ([], 0)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("", "heuristic"),
        ("0", "off"),
        ("Off", "off"),
        ("measure", "measure"),
        ("Force", "force"),
        ("1", "heuristic"),
    ],
)
def test_what_the_variable_says(text, mode):
    assert deferred._mode_of(text) == mode
    assert "TRAINKIT_CUDNN" in environment.MEANINGS


def test_a_mode_that_is_none(cudnn_state):
    with pytest.raises(InvalidArgumentError, match="heuristic, measure, force, off, got 'fast'"):
        deferred.set_mode("fast")


def test_without_the_frontend_the_body_serves(cudnn_state, monkeypatch):
    monkeypatch.setattr(frontend, "_import_frontend", lambda: (None, "ImportError: no such module"))
    assert np.all(convolved().numpy() == 36.0)
    assert not deferred.is_there()
    assert frontend.why_missing() == "ImportError: no such module"
    deferred.prepare(None)  # nothing to prepare
    assert cudnn_state.built == []


# ---------------------------------------------------------------------- captures


def test_nothing_is_built_while_a_graph_is_captured(cudnn_state):
    import cupy

    convolved()
    stream = cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.using_allocator(cupy.cuda.MemoryPool().malloc):
        x, kernel = tk.ones((2, 9, 9, 4)), tk.ones((3, 3, 4, 3))
        stream.begin_capture()
        with stream:
            with pytest.raises(UnimplementedError, match="plan of cuDNN for describe_forward"):
                tk.ops.conv(x, kernel)
        stream.end_capture()
    assert np.all(convolved(9).numpy() == 36.0)


def test_a_handle_is_made_before_the_capture_of_another_thread(cudnn_state):
    x, kernel = tk.ones((2, 6, 6, 4)), tk.Variable(tk.ones((3, 3, 4, 3)))
    run = tk.function(lambda x: tk.ops.conv(x, kernel) * 2.0)
    for _ in range(2):
        run(x)
    found = []

    def call():
        with tk.device("/gpu:0"):
            found.extend(run(x).numpy() for _ in range(4))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert all(np.all(y == 72.0) for y in found)
    assert len(found) == 4
    assert "replays of 1 CUDA graph" in run.explain()


def test_each_thread_has_a_handle_of_its_own_and_plans_are_shared(cudnn_state):
    convolved()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(convolved().numpy()))
    thread.start()
    thread.join()
    assert np.all(seen[0] == 36.0)
    assert len(cudnn_state.built) == 1
    assert cudnn_state.executed[0] == cudnn_state.executed[1]


def test_a_call_in_another_stream_goes_to_that(cudnn_state):
    import cupy

    convolved()
    with cupy.cuda.Stream(non_blocking=True):
        assert np.all(convolved().numpy() == 36.0)
    assert np.all(convolved().numpy() == 36.0)


# ---------------------------------------------------------------------- choice


def test_the_fastest_plan_is_taken_where_they_are_measured(cudnn_state, monkeypatch):
    deferred.set_mode("measure")
    cudnn_state.plans = 9
    times = iter([3.0, 1.0, 2.0, 0.5, 4.0])
    monkeypatch.setattr(plan_choice, "milliseconds", lambda xp, call: call() or next(times))
    assert np.all(convolved().numpy() == 36.0)
    assert [place for _, place in cudnn_state.executed] == [0, 1, 2, 3, 4, 3]
    convolved()
    assert cudnn_state.executed[-1][1] == 3
    assert list(times) == []


def test_plans_that_can_not_be_built_are_passed_over(cudnn_state):
    deferred.set_mode("measure")
    cudnn_state.plans = 3
    cudnn_state.refused = {("plan", 0), ("plan", 2)}
    assert np.all(convolved().numpy() == 36.0)
    assert {place for _, place in cudnn_state.executed} == {1}
    cudnn_state.refused = {("plan", i) for i in range(3)}
    assert np.all(convolved(7).numpy() == 36.0)
    assert "not this one" in plans.refused().popitem()[1]


def test_a_time_is_that_of_the_device(cudnn_state):
    import cupy

    calls = []
    assert plan_choice.milliseconds(cupy, lambda: calls.append(1)) >= 0
    assert len(calls) == 1 + plan_choice.ROUNDS


# ---------------------------------------------------------------------- failures


def test_what_has_no_plan_is_remembered_with_its_reason(cudnn_state):
    cudnn_state.refused = {"conv_fprop"}
    convolved()
    ((what, reason),) = plans.refused().items()
    assert "describe_forward ('float32', (2, 4, 6, 6), (3, 4, 3, 3)" in what
    assert reason == "no engine has"


def test_a_broken_library_warns_once_and_the_body_serves(cudnn_state, monkeypatch):
    def broken(self):
        raise RuntimeError("a part of it is missing\nand more")

    monkeypatch.setattr(cudnn.pygraph, "build_operation_graph", broken)
    with pytest.warns(UserWarning, match="builds no plan .RuntimeError: a part of it is missing."):
        assert np.all(convolved().numpy() == 36.0)
    assert np.all(convolved(7).numpy() == 36.0)


def test_a_function_of_cudnn_gives_nothing_while_cudnn_is_off(cudnn_state):
    module = deferred.CudnnModule("trainkit.kernels.cudnn.frontend")
    first = module.why_missing
    before = first()
    deferred.set_mode("off")
    assert first() is None
    assert module.is_there() is None  # at its first call, and when it is looked up again
    deferred.set_mode("heuristic")
    assert first() == module.why_missing() == before
    assert module.is_there() is frontend.is_there()
    deferred.set_mode("off")
    assert module.is_there() is None
    with pytest.raises(AttributeError, match="__file__"):
        _ = module.__file__


def test_where_no_handle_can_be_made_the_body_serves_in_captures_too(cudnn_state, monkeypatch):
    def fails():
        raise RuntimeError("CUDNN_STATUS_NOT_INITIALIZED")

    monkeypatch.setattr(cudnn, "create_handle", fails)
    x, kernel = tk.ones((2, 6, 6, 4)), tk.Variable(tk.ones((3, 3, 4, 3)))
    run = tk.function(lambda x: tk.ops.conv(x, kernel) * 2.0)
    with pytest.warns(UserWarning, match="CUDNN_STATUS_NOT_INITIALIZED"):
        run(x)
    for _ in range(5):
        assert np.all(run(x).numpy() == 72.0)
    assert "replays of 1 CUDA graph" in run.explain()
    assert not deferred.is_there()
    assert frontend.why_missing() == "CUDNN_STATUS_NOT_INITIALIZED"


def test_where_the_handle_of_another_thread_can_not_be_made(cudnn_state, monkeypatch):
    x, kernel = tk.ones((2, 6, 6, 4)), tk.Variable(tk.ones((3, 3, 4, 3)))
    run = tk.function(lambda x: tk.ops.conv(x, kernel) * 2.0)
    for _ in range(3):
        run(x)
    frontend._THREAD.by_device.clear()

    def fails():
        raise RuntimeError("CUDNN_STATUS_NOT_INITIALIZED")

    monkeypatch.setattr(cudnn, "create_handle", fails)
    for _ in range(4):
        assert np.all(run(x).numpy() == 72.0)
    assert "replays of 1 CUDA graph" in run.explain()


def test_a_plan_that_fails_says_how_to_go_on_without(cudnn_state, monkeypatch):
    def fails(self, *given, **named):
        raise RuntimeError("CUDNN_STATUS_EXECUTION_FAILED")

    monkeypatch.setattr(cudnn.pygraph, "execute", fails)
    with pytest.raises(RuntimeError, match=r"EXECUTION_FAILED\nTRAINKIT_CUDNN=0"):
        convolved()


# ---------------------------------------------------------------------- on disk


def test_a_plan_is_kept_for_the_next_process(cudnn_state):
    cudnn_state.keeps = True
    convolved()
    assert (len(cudnn_state.built), len(cudnn_state.stored)) == (1, 1)
    plans.clear()
    assert np.all(convolved().numpy() == 36.0)
    assert len(cudnn_state.built) == 1
    convolved(7)
    deferred.set_mode("measure")
    plans.clear()
    convolved()
    assert len(cudnn_state.built) == 3


@pytest.mark.parametrize("damage", ["torn", "other", "foreign"])
def test_a_stored_plan_that_is_damaged_or_refused_is_built_anew(damage, cudnn_state, tmp_path):
    cudnn_state.keeps = True
    convolved()
    (path,) = (tmp_path / "machine").iterdir()
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "other":
        path.write_bytes(b"x" * 70)
    else:
        cudnn_state.stored.clear()
    plans.clear()
    assert np.all(convolved().numpy() == 36.0)
    assert len(cudnn_state.built) == 2


def test_another_version_or_gpu_has_plans_of_its_own(cudnn_state, monkeypatch):
    cudnn_state.keeps = True
    convolved()
    monkeypatch.setattr(cudnn, "backend_version", lambda: 92900)
    plans.clear()
    convolved()
    assert len(cudnn_state.built) == 2
