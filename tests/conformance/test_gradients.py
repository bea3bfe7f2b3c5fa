"""Every primitive's gradient rules against central differences, its shape rule against results."""

import numpy as np
import pytest

from tests.conformance.table import all_cases
from trainkit.autodiff import check
from trainkit.autodiff.check import GradientError, check_gradient, numerical_gradient
from trainkit.autodiff.tape import GradientTape
from trainkit.core import devices, nest
from trainkit.core.dispatch.eval_shape import result_specs
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec, unchanged
from trainkit.core.tensor import PRIMITIVES, Tensor, convert_to_tensor
from trainkit.ops.math.complex_parts import real
from trainkit.ops.math.elementwise import cast, multiply, square
from trainkit.ops.math.reductions import sum as sum_of
from trainkit.ops.math.rounding import floor

CASES = all_cases()
TABLE = pytest.mark.parametrize("case", CASES, ids=str)


def tensors_of(case, dtypes=None):
    """The inputs as tensors, floats in the dtype that `dtypes` gives for their own."""
    tensors = []
    for x in case.inputs:
        if isinstance(x, np.ndarray):
            x = convert_to_tensor(x.astype((dtypes or {}).get(x.dtype.name, x.dtype)))
        tensors.append(x)
    return tensors


def run_taped(case, dtypes=None):
    """Inputs, results and the tape of a call."""
    inputs = tensors_of(case, dtypes)
    with GradientTape(persistent=True) as tape:
        tape.watch([x for x in inputs if isinstance(x, Tensor) and x.dtype.is_differentiable])
        results = nest.flatten(case.op(*inputs, **case.settings))
    return inputs, results, tape


def slopes(case, device):
    """The value of a case, as one number, and its derivatives along random directions."""
    with devices.device(device):
        rng = np.random.default_rng(0)
        inputs = [check._in_double(x) for x in case.inputs]
        moved = [i for i, x in enumerate(inputs) if check._is_moved(x)]
        function = check._weighted_sum(case.op, inputs, moved, case.settings, rng)
        at = [inputs[i] for i in moved]
        found = [float(function(at))]
        for _ in range(case.order):
            function = check._slope(function, [check._direction(x, rng) for x in at])
            found.append(float(function(at)))
        return found


@TABLE
def test_rules_agree_with_differences(case, device, request):
    """The stand-in has the slopes of the CPU, where they agree with differences."""
    if request.node.callspec.params["device"] == "stand-in":
        error = {"rtol": case.tolerance, "atol": case.tolerance}
        np.testing.assert_allclose(slopes(case, device), slopes(case, "/cpu:0"), **error)
        return
    check_gradient(
        case.op,
        case.inputs,
        order=case.order,
        device=device,
        tolerance=case.tolerance,
        **case.settings,
    )


@TABLE
def test_case_runs_the_primitive_that_it_names(case):
    _, _, tape = run_taped(case)
    assert case.name in [entry[0].name for entry in tape.entries]


@TABLE
def test_shape_rule_agrees_with_result(case):
    inputs = tensors_of(case)
    specs = [Spec(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in inputs]
    promised = nest.flatten(result_specs(case.op, *specs, **case.settings))
    results = nest.flatten(case.op(*inputs, **case.settings))
    assert [known(p, y) for p, y in zip(promised, results, strict=True)] == [
        Spec(y.shape, y.dtype) for y in results
    ]


DTYPES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32"]


def attempt(function, *args, **kwargs):
    """The results as a list, `None` for a call that is refused."""
    try:
        return nest.flatten(function(*args, **kwargs))
    except (ValueError, TypeError):
        return None


FLOATS_ALONE = {
    *("softmax_gradient", "log_softmax_gradient", "silu_gradient", "elu_gradient"),
    *("selu_gradient", "hard_silu_gradient", "spread", "irfft_transposed", "square_sum"),
    "leaky_relu_gradient",
}
"""Steps of gradients and of lengths, which are never given anything else."""


def dtypes_of(case):
    """The dtypes that a case is run in; none for one without floats."""
    if not any(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in case.inputs):
        return []
    return DTYPES[4:] if case.name in FLOATS_ALONE else DTYPES


@pytest.mark.filterwarnings("ignore:.*is being traced:UserWarning")  # once for each dtype
@TABLE
def test_shape_rule_agrees_with_result_in_every_dtype(case):
    # A call that the rule takes and the body refuses raises wherever it is run. What must not be:
    # a graph that promises one thing and gives another, or refuses what the eager call takes.
    for dtype in dtypes_of(case):
        inputs = [
            cast(x, dtype) if isinstance(x, Tensor) and x.dtype.name == "float64" else x
            for x in tensors_of(case)
        ]
        results = attempt(case.op, *inputs, **case.settings)
        if results is None:
            continue
        specs = [Spec(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in inputs]
        promised = attempt(result_specs, case.op, *specs, **case.settings)
        assert promised is not None, f"{dtype}: the rule refuses what the body takes"
        found = [Spec(y.shape, y.dtype) for y in results]
        assert [known(p, y) for p, y in zip(promised, results, strict=True)] == found, (
            f"inputs of {dtype}: the shape rule of {case.name!r} (left) promises a graph what its "
            "body (right) does not give; correct the one that is wrong"
        )


def test_most_cases_are_run_in_every_dtype():
    ran = [case for case in CASES if dtypes_of(case) == DTYPES]
    assert len(ran) > len(CASES) / 2


def known(promised, result):
    """A promise with the sizes that depend on values filled in; the rank is always promised."""
    dims = zip(promised.shape, result.shape, strict=True)
    return Spec([m if n is None else n for n, m in dims], promised.dtype)


@TABLE
def test_gradient_has_shape_and_dtype_of_input(case):
    single = {"float64": np.float32, "complex128": np.complex64}
    inputs, results, tape = run_taped(case, single)
    targets = [y for y in results if y.dtype.is_differentiable]
    for x in inputs:
        if isinstance(x, Tensor) and x.dtype.is_differentiable:
            g = tape.gradient(targets, x)
            if g is not None:
                assert (tuple(g.shape), g.dtype) == (tuple(x.shape), x.dtype)


def slopes_by_weights(case, inputs, weights):
    """Derivatives by `weights` of a sum of the gradients that they send back through a call."""
    rng = np.random.default_rng(1)
    moved = [x for x in inputs if isinstance(x, Tensor) and x.dtype.is_differentiable]
    with GradientTape() as outer:
        outer.watch(weights)
        with GradientTape() as inner:
            inner.watch(moved)
            results = nest.flatten(case.op(*inputs, **case.settings))
            results = [y for y in results if y.dtype.is_differentiable]
        sent = inner.gradient(results, moved, output_gradients=weights)
        directions = [convert_to_tensor(rng.normal(size=x.shape)) for x in moved]
        total = [
            sum_of(multiply(real(g), d))
            for g, d in zip(sent, directions, strict=True)
            if g is not None
        ]
    return outer.gradient(total, weights)


@TABLE
def test_gradients_depend_on_what_comes_from_above_where_that_is_0_too(case):
    # A gradient is linear in it: its derivatives are the same at 0, where second derivatives are
    # lost if a rule leaves out what it would only multiply by 0.
    inputs = tensors_of(case)
    results = nest.flatten(case.op(*inputs, **case.settings))
    results = [y for y in results if y.dtype.is_differentiable]
    rng = np.random.default_rng(0)
    random = [cast(convert_to_tensor(rng.normal(size=y.shape)), y.dtype) for y in results]
    expected = slopes_by_weights(case, inputs, random)
    for zeros in ([w * 0.0 for w in random], [w * cast(real(w) > 0, w.dtype) for w in random]):
        for a, b in zip(expected, slopes_by_weights(case, inputs, zeros), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-8)


# A loop over a dataset has a rule only to say that gradients stop there; a sum over replicas takes
# several of them (tests/collectives); variables in the middle of a graph are no inputs of it
# (tests/graph/control_flow/test_variables_beside_python.py).
ELSEWHERE = {"for_each", "all_reduce", "load_variable", "store_variable"}


def test_every_differentiable_op_has_a_case():
    recorded = {name for name, found in PRIMITIVES.items() if found.recorded} - ELSEWHERE
    missing = sorted(recorded - {case.name for case in CASES})
    assert not missing, f"add rows to tests/conformance/cases_*.py for {missing}"


# ---------------------------------------------------------------------- the checker itself


def wrong_square(share):
    """A square whose gradient rule is wrong by a share."""
    name = f"wrong_square_{share}"

    @primitive(unchanged, name=name)
    def wrong(xp, x):
        """Square."""
        return x * x

    wrong.gradients(lambda g, y, x: multiply(g, multiply(x, 2 * (1 + share))))
    PRIMITIVES.pop(name)
    return wrong


def test_checker_finds_a_rule_wrong_by_a_thousandth():
    with pytest.raises(GradientError, match=r"wrong_square.*derivative 1"):
        check_gradient(wrong_square(1e-3), [np.array([1.0, -2.0])])


def test_checker_accepts_the_right_rule():
    check_gradient(wrong_square(0.0), [np.array([1.0, -2.0])], order=3)


def test_checker_finds_a_wrong_second_derivative():
    # The first slope, 2 x, is right; its own rule gives 2.002.
    slope = wrong_square(0.0)
    bent = wrong_square(5e-4)

    def double(g, y, x):
        return multiply(g, multiply(2, multiply(bent(x), 1 / x.numpy())))

    slope.gradients(double)
    with pytest.raises(GradientError, match="derivative 2"):
        check_gradient(slope, [np.array([1.0, -2.0])])


def test_checker_finds_a_missing_gradient():
    with pytest.raises(GradientError, match="input 0"):
        check_gradient(lambda x: multiply(x.numpy(), 3.0), [np.array([1.5, 2.5])])


def test_checker_accepts_no_gradient_where_the_slope_is_zero():
    check_gradient(floor, [np.array([1.5, 2.5])])


def test_checker_refuses_integers():
    with pytest.raises(ValueError, match="floating"):
        check_gradient(square, [np.array([1, 2])])


def test_numerical_gradient_gives_one_slope_per_element():
    x, n = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([2, 3])
    found = numerical_gradient(lambda a, b: multiply(square(a), 3.0), [x, n])
    np.testing.assert_allclose(found[0], 6 * x, rtol=1e-9)
    assert found[1] is None
