"""Values and gradients of Keras 3.15 on TensorFlow 2.21, stored here; see README.md."""

import importlib.util
import pathlib
import sys
import warnings

import pytest

HERE = pathlib.Path(__file__).parent


def _runner():
    spec = importlib.util.spec_from_file_location("run_golden", HERE / "run_golden.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_golden"] = module  # the runner's own functions look it up
    spec.loader.exec_module(module)
    return module


RUNNER = _runner()
CASES, ARRAYS = RUNNER.load(HERE)

# Keras's compute_output_shape turns the axes of "..." around; the output stored beside it does not.
TURNED = "layers/EinsumDense/ellipsis"


def _marked(case):
    wrong = pytest.mark.xfail(reason="the expected shape is not that of the expected output")
    return pytest.param(case, id=case["id"], marks=[wrong] if case["id"] == TURNED else [])


@pytest.fixture(scope="module")
def tk():
    return RUNNER.open_impl("trainkit")


@pytest.mark.parametrize("case", [_marked(case) for case in CASES])
def test_case_gives_what_keras_and_tensorflow_give(tk, case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a case may do what one is warned of
        status, reason = RUNNER.run_case(tk, case, ARRAYS, limit=120)
    assert status == "passed", f"{case['id']}: {reason}"


def test_the_one_case_that_fails_contradicts_itself(tk):
    case = next(case for case in CASES if case["id"] == TURNED)
    shape = ARRAYS[f"{TURNED}:c0/out0"].shape
    assert tuple(case["expected"]["output_shape"][1:]) == (2, 3, 4)
    assert shape == (2, 3, 2, 4)
    right = {**case, "expected": {**case["expected"], "output_shape": [None, *shape[1:]]}}
    assert RUNNER.run_case(tk, right, ARRAYS) == ("passed", "")


def test_a_wrong_value_is_caught(tk):
    case = next(c for c in CASES if c["id"] == "tf_names/reduce_mean_int" or c["run"] == "call")
    name = f"{case['id']}:out0"
    key = name if name in ARRAYS else next(k for k in ARRAYS if k.startswith(f"{case['id']}:out"))
    wrong = {**ARRAYS, key: ARRAYS[key] + 1}
    status, reason = RUNNER.run_case(tk, case, wrong)
    assert (status, bool(reason)) == ("failed", True)


def test_no_case_is_left_out():
    assert len(CASES) == 1011
