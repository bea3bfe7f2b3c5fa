"""Tracing, signatures, retracing, captured variables, methods, nested functions."""

import functools
import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import trainkit as tk


def counted(function, **options):
    """`function` traced, and the list that grows with each trace."""
    traces = []

    @functools.wraps(function)
    def noted(*args, **kwargs):
        traces.append(1)
        return function(*args, **kwargs)

    return tk.function(noted, **options), traces


# ---------------------------------------------------------------------- signatures


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: tk.ones([2]), lambda: tk.zeros([2])),
        (lambda: 3, lambda: 3),
        (lambda: "relu", lambda: "relu"),
        (lambda: None, lambda: None),
        (lambda: {"b": tk.ones([2]), "a": 1}, lambda: {"b": tk.zeros([2]), "a": 1}),
        (lambda: [tk.ones([2]), (1, 2)], lambda: [tk.zeros([2]), (1, 2)]),
        (lambda: np.ones(3), lambda: np.zeros(3)),
        (lambda: float("nan"), lambda: float("nan")),
    ],
    ids=["tensor", "int", "str", "none", "dict", "nest", "array", "nan"],
)
def test_equal_kinds_of_arguments_share_a_trace(first, second):
    f, traces = counted(lambda x: 0)
    f(first())
    f(second())
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: tk.ones([2]), lambda: tk.ones([3])),
        (lambda: tk.ones([2]), lambda: tk.ones([2], tk.float64)),
        (lambda: tk.ones([2]), lambda: tk.ones([2, 1])),
        (lambda: 3, lambda: 4),
        (lambda: 1, lambda: True),
        (lambda: 1, lambda: 1.0),
        (lambda: 1, lambda: tk.constant(1)),
        (lambda: [1, 2], lambda: (1, 2)),
        (lambda: [1], lambda: [1, 2]),
        (lambda: {"a": 1}, lambda: {"b": 1}),
        (object, object),
    ],
    ids=[
        "shape",
        "dtype",
        "rank",
        "value",
        "bool",
        "float",
        "tensor",
        "kind",
        "length",
        "key",
        "id",
    ],
)
def test_other_kinds_of_arguments_make_a_trace(first, second):
    f, traces = counted(lambda x: 0)
    kept = [first(), second()]
    f(kept[0])
    f(kept[1])
    assert len(traces) == 2


def test_each_trace_keeps_its_own_python_values():
    f, traces = counted(lambda x, n: x * n)
    x = tk.constant(3.0)
    assert [float(f(x, n)) for n in (2, 5, 2, 5)] == [6, 15, 6, 15]
    assert len(traces) == 2


def test_objects_count_by_identity_and_are_not_kept_alive():
    class Settings:
        scale = 2.0

    f, traces = counted(lambda x, s: x * s.scale)
    one, two = Settings(), Settings()
    two.scale = 5.0
    x = tk.constant(1.0)
    assert [float(f(x, s)) for s in (one, two, one)] == [2, 5, 2]
    assert len(traces) == 2
    gone = weakref.ref(two)
    del two
    gc.collect()
    assert gone() is None


def test_calls_by_position_by_name_and_with_defaults_share_a_trace():
    def scaled(x, factor=2.0, *, shift=1.0):
        return x * factor + shift

    f, traces = counted(scaled)
    x = tk.constant(3.0)
    same = [f(x), f(x, 2.0), f(x=x), f(x, factor=2.0, shift=1.0), f(factor=2.0, x=x)]
    assert [float(y) for y in same] == [7.0] * 5
    assert len(traces) == 1
    assert float(f(x, shift=5.0)) == 11.0
    assert len(traces) == 2


def test_variable_arguments_of_a_function():
    @tk.function
    def total(a, *rest, b=2.0, **named):
        return a * b + sum(rest) + 10 * sum(named[k] for k in sorted(named))

    one = tk.constant(1.0)
    result = total(one, one, one, b=tk.constant(3.0), q=one, p=tk.constant(4.0))
    assert float(result) == 3 + 2 + 50
    # the order of keywords makes no difference to which value goes where
    assert float(total(one, p=tk.constant(4.0), q=one)) == 2 + 50


def test_a_call_that_does_not_fit_the_parameters_names_the_function():
    f = tk.function(lambda x: x)
    with pytest.raises(TypeError, match="too many positional arguments"):
        f(1, 2)


def test_results_keep_their_structure():
    @tk.function
    def f(x):
        return {"t": x, "none": None, "text": "hi", "list": [x + 1, (x + 2,)], "number": 3}

    y = f(tk.constant(1.0))
    assert y["none"] is None
    assert y["text"] == "hi"
    assert float(y["list"][1][0]) == 3.0
    assert isinstance(y["list"][1], tuple)
    assert int(y["number"]) == 3


def test_a_function_that_is_not_callable_is_refused():
    with pytest.raises(TypeError, match="not callable"):
        tk.function(3)


# ---------------------------------------------------------------------- input signatures


def test_input_signature_serves_all_sizes_with_one_trace():
    f, traces = counted(lambda x: x * 2, input_signature=[tk.TensorSpec([None], tk.float32)])
    for n in (1, 4, 2):
        assert f(tk.ones([n])).shape == (n,)
    assert f([1.0, 2.0]).numpy().tolist() == [2.0, 4.0]
    assert len(traces) == 1
    assert f.get_concrete_function().inputs[0].shape == (None,)


def test_input_signature_leaves_defaults_to_the_function():
    @tk.function(input_signature=[tk.TensorSpec([None], tk.float32)])
    def f(x, n=2):
        return x * n

    assert f([1.0]).numpy().tolist() == [2.0]
    assert f(x=tk.ones([2])).numpy().tolist() == [2.0, 2.0]


def test_input_signature_leaves_keyword_only_arguments_where_they_are():
    spec = tk.TensorSpec([], "float32")
    cases = [
        (lambda *a, m=5: len(a) * m, [spec], {}, 5),
        (lambda *a, m=5: len(a) * m, [spec, spec], {}, 10),
        (lambda x, *, m=5: x * m, [spec], {}, 10),
        (lambda x, *, m=5: x * m, [spec], {"m": 7}, 14),
        (lambda x, y=3.0, *a, m=5: y * m + len(a), [spec], {}, 15),
        (lambda x, *, m: x * m, [spec], {"m": 4}, 8),
        (lambda x, *, m: x * m, [spec, spec], {"m": 4.0}, 8),
        (lambda x, **others: x * len(others), [spec], {"m": 4.0, "n": 3.0}, 4),
    ]
    for body, signature, named, expected in cases:
        traced = tk.function(body, input_signature=signature)
        positional = [2.0] * (len(signature) - (len(signature) > 1 and bool(named)))
        for _ in range(2):
            assert float(traced(*positional, **named)) == expected


def test_input_signature_goes_on_with_required_keyword_only_arguments():
    spec = tk.TensorSpec([None], "float32")
    traced = tk.function(lambda x, *, m: x * m, input_signature=[spec, spec])
    traced.get_concrete_function()
    for n in (1, 3):
        np.testing.assert_allclose(traced(np.ones(n, "f4"), m=np.full(n, 2, "f4")), [2.0] * n)
    assert traced.experimental_get_tracing_count() == 1
    with pytest.raises(TypeError, match="'m' of shape"):
        traced(np.ones(3, "f4"), m=np.ones((3, 3), "f4"))


class Doubler:
    @tk.function(input_signature=[tk.TensorSpec([], "float32")])
    def run(self, *values, factor=2):
        return len(values) * factor


def test_input_signature_of_a_method_with_a_keyword_only_default():
    assert int(Doubler().run(1.0)) == 2


def test_input_signature_of_nested_arguments():
    spec = {"a": tk.TensorSpec([None], tk.float32), "b": [tk.TensorSpec([], tk.int32)]}

    @tk.function(input_signature=[spec])
    def f(d):
        return d["a"] * tk.cast(d["b"][0], tk.float32)

    assert f({"a": [1.0, 2.0], "b": [3]}).numpy().tolist() == [3.0, 6.0]
    with pytest.raises(TypeError, match="'d' nested as"):
        f({"a": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda: (tk.ones([1, 2]),), r"'x' of shape \(None,\).*given is shape \(1, 2\)"),
        (lambda: (tk.ones([2], tk.int32),), "dtype float32, given .*int32"),
        (lambda: (), "missing a required argument"),
    ],
)
def test_arguments_that_do_not_fit_the_input_signature(given, text):
    f = tk.function(lambda x: x, input_signature=[tk.TensorSpec([None], tk.float32)])
    with pytest.raises(TypeError, match=text):
        f(*given()) if given() else f.__call__()


def test_an_input_signature_longer_than_the_parameters_is_refused():
    with pytest.raises(TypeError, match="2 entries, '<lambda>' has 1 parameters"):
        tk.function(lambda x: x, input_signature=[tk.TensorSpec([]), tk.TensorSpec([])])


def test_reduce_retracing_widens_a_size_that_changes():
    f, traces = counted(tk.reduce_sum, reduce_retracing=True)
    assert [float(f(tk.ones([n, 3]))) for n in range(1, 7)] == [3.0 * n for n in range(1, 7)]
    assert len(traces) == 2
    float(f(tk.ones([2, 5])))
    float(f(tk.ones([3, 7])))
    assert len(traces) == 3


def test_a_trace_for_unknown_sizes_serves_later_calls():
    f, traces = counted(lambda x: x + 1)
    f.get_concrete_function(tk.TensorSpec([None, 2], tk.float32))
    f(tk.ones([3, 2]))
    f(tk.ones([4, 2]))
    assert len(traces) == 1


# ---------------------------------------------------------------------- concrete functions


def test_concrete_function_knows_inputs_outputs_and_variables():
    v = tk.Variable([1.0, 2.0], name="scale")
    count = tk.Variable(0, trainable=False)

    @tk.function
    def f(x):
        count.assign_add(1)
        return {"y": x * v}

    concrete = f.get_concrete_function(tk.TensorSpec([2], tk.float32))
    assert [tuple(x.shape) for x in concrete.inputs] == [(2,)]
    assert [x.dtype.name for x in concrete.outputs] == ["float32"]
    assert concrete.variables == (count, v)
    assert concrete.trainable_variables == (v,)
    assert concrete.output_shapes == {"y": (2,)}
    assert concrete.output_dtypes["y"] == tk.float32
    assert concrete(x=tk.ones([2]))["y"].numpy().tolist() == [1.0, 2.0]
    assert int(count) == 1
    assert f.get_concrete_function(tk.ones([2])) is concrete
    assert "x: float32 Tensor, shape=(2,)" in str(concrete)


def test_concrete_function_refuses_other_tensors():
    concrete = tk.function(lambda x: x).get_concrete_function(tk.TensorSpec([2], tk.float32))
    with pytest.raises(
        tk.errors.InvalidArgumentError, match=r"shape \(2,\).*given is shape \(3,\)"
    ):
        concrete(tk.ones([3]))
    with pytest.raises(TypeError, match="takes 1 tensors"):
        concrete(tk.ones([2]), tk.ones([2]))


def test_pretty_printed_signatures_list_each_trace():
    f = tk.function(lambda x, flag=True: x)
    f(tk.constant(1))
    f(tk.constant([1.0, 2.0]), flag=False)
    first, second = f.pretty_printed_concrete_signatures().split("\n\n")
    assert "int32 Tensor, shape=()" in first
    assert "flag: True" in first
    assert "float32 Tensor, shape=(2,)" in second
    assert f.experimental_get_tracing_count() == 2


# ---------------------------------------------------------------------- variables


def test_variables_are_captured_by_reference():
    v = tk.Variable(2.0)
    f = tk.function(lambda x: x * v)
    assert float(f(tk.constant(3.0))) == 6.0
    v.assign(5.0)
    assert float(f(tk.constant(3.0))) == 15.0


def test_program_order_of_reads_and_assignments():
    v = tk.Variable(1.0)

    @tk.function
    def f(x):
        before = v + 0.0
        v.assign(x)
        middle = v * 1.0
        v.assign_add(10.0)
        v.assign_sub(1.0)
        return before, middle, v.read_value()

    assert [float(y) for y in f(tk.constant(4.0))] == [1.0, 4.0, 13.0]
    assert [float(y) for y in f(tk.constant(5.0))] == [13.0, 5.0, 14.0]


def test_what_was_read_before_an_assignment_keeps_its_value():
    v = tk.Variable(tk.ones([4]))
    f = tk.function(lambda: v.assign_add(tk.ones([4])))
    kept = v.value()
    f()
    f()
    assert kept.numpy().tolist() == [1.0] * 4
    assert v.numpy().tolist() == [3.0] * 4


def test_a_result_is_not_changed_by_the_next_run():
    v = tk.Variable(tk.zeros([3]))

    @tk.function
    def step():
        v.assign_add(tk.ones([3]))
        return v.read_value()

    one = step()
    two = step()
    assert one.numpy().tolist() == [1.0] * 3
    assert two.numpy().tolist() == [2.0] * 3


def test_an_assigned_input_and_the_variable_do_not_share_changes():
    v = tk.Variable(tk.zeros([2]))
    f = tk.function(lambda x: v.assign(x))
    x = tk.constant([1.0, 2.0])
    f(x)
    v.assign_add([10.0, 10.0])
    assert x.numpy().tolist() == [1.0, 2.0]


def test_a_run_that_fails_leaves_variables_alone():
    v = tk.Variable(1.0)

    @tk.function
    def f(x):
        v.assign_add(1.0)
        tk.debugging.assert_positive(x)

    f(tk.constant(1.0))
    with pytest.raises(tk.errors.InvalidArgumentError):
        f(tk.constant(-1.0))
    assert float(v) == 2.0


def test_a_variable_as_an_argument_counts_by_identity():
    @tk.function
    def f(u):
        u.assign_add(1.0)
        return u * 2.0

    v, w = tk.Variable(1.0), tk.Variable(5.0)
    assert [float(f(v)), float(f(w)), float(f(v))] == [4.0, 12.0, 6.0]
    assert f.experimental_get_tracing_count() == 2


def test_variables_are_created_on_the_first_call_and_kept():
    class Scale:
        weight = None

        @tk.function
        def __call__(self, x):
            if self.weight is None:
                self.weight = tk.Variable(tk.random.normal([2]))
            return x * self.weight

    scale = Scale()
    x = tk.ones([2])
    np.testing.assert_array_equal(scale(x).numpy(), scale.weight.numpy())
    scale.weight.assign([2.0, 3.0])
    assert scale(x).numpy().tolist() == [2.0, 3.0]


def test_a_random_initial_value_is_that_of_eager_code():
    def first(holder, x):
        if not holder:
            holder.append(tk.Variable(tk.random.normal([3])))
        return x * holder[0]

    tk.random.set_seed(4)
    eager = first([], tk.ones([3])).numpy()
    tk.random.set_seed(4)
    holder = []
    traced = tk.function(lambda x: first(holder, x))
    np.testing.assert_array_equal(traced(tk.ones([3])).numpy(), eager)


def test_the_state_of_layers_and_generators_is_kept_like_in_eager_code():
    generator = tk.random.Generator.from_seed(3)
    eager = [generator.normal([2]).numpy() for _ in range(3)]
    again = tk.random.Generator.from_seed(3)
    f = tk.function(lambda: again.normal([2]))
    np.testing.assert_array_equal([f().numpy() for _ in range(3)], eager)


# ---------------------------------------------------------------------- methods and nesting


def test_methods_have_graphs_per_instance():
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        @tk.function
        def __call__(self, x):
            return x * self.factor

        @tk.function
        def twice(self, x, *, shift=0.0):
            return self(self(x)) + shift

    a, b = Scaled(2.0), Scaled(3.0)
    x = tk.constant(1.0)
    assert [float(a(x)), float(b(x)), float(a(x))] == [2.0, 3.0, 2.0]
    assert float(b.twice(x, shift=1.0)) == 10.0
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None


def test_static_and_class_access_give_the_function_itself():
    class Holder:
        @tk.function
        def method(self, x):
            return x

        @staticmethod
        @tk.function
        def static(x):
            return x + 1.0

    assert "method" in repr(Holder.method)
    assert float(Holder.static(tk.constant(1.0))) == 2.0


def test_functions_inside_functions_become_part_of_the_outer_graph():
    inner, traces = counted(lambda x: x * x)
    outer = tk.function(lambda x: inner(x) + inner(x + 1.0))
    assert float(outer(tk.constant(2.0))) == 13.0
    assert len(traces) == 1
    assert float(inner(tk.constant(3.0))) == 9.0
    assert len(traces) == 1


def test_a_nested_function_refers_to_tensors_around_it():
    @tk.function
    def outer(x):
        @tk.function
        def inner(y):
            if y > 0.0:
                return x + y
            return x - y

        return inner(x * 2.0) * inner(-x)

    assert float(outer(tk.constant(1.0))) == 6.0
    x = tk.constant(2.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = outer(x)
    assert float(y) == 24.0
    assert float(tape.gradient(y, x)) == 24.0


def test_a_nested_function_that_outlives_its_outer_one_is_traced_anew():
    kept = []
    scale = [None]

    @tk.function
    def inner(y):
        return y * scale[0]

    @tk.function
    def outer(x):
        scale[0] = x
        kept.append(inner)
        return inner(x)

    assert float(outer(tk.constant(3.0))) == 9.0
    scale[0] = tk.constant(5.0)
    assert float(kept[0](tk.constant(1.0))) == 5.0


def test_partial_functions_lambdas_and_callable_objects():
    class Absolute:
        def __call__(self, x):
            if x > 0.0:
                return x
            return -x

    def larger(x, y):
        return x if x > y else y

    x = tk.constant(-2.0)
    assert float(tk.function(Absolute())(x)) == 2.0
    assert float(tk.function(lambda x: x if x > 0.0 else -x)(x)) == 2.0
    assert float(tk.function(functools.partial(larger, y=tk.constant(3.0)))(x)) == 3.0


def test_recursion_over_a_tensor_is_refused():
    @tk.function
    def factorial(n):
        if n == 0:
            return tk.constant(1)
        return n * factorial(n - 1)

    with pytest.raises(tk.errors.InvalidArgumentError, match=r"calls itself .* use a while loop"):
        factorial(tk.constant(3))


def test_recursion_over_a_python_value_unrolls():
    @tk.function
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert float(power(tk.constant(3.0), 4)) == 81.0


# ---------------------------------------------------------------------- switches


def test_run_functions_eagerly_runs_python():
    seen = []

    @tk.function
    def f(x):
        seen.append(hasattr(x, "numpy"))
        return x + 1

    try:
        tk.config.run_functions_eagerly(True)
        assert tk.config.functions_run_eagerly()
        f(tk.constant(1))
        f(tk.constant(1))
    finally:
        tk.config.run_functions_eagerly(False)
    f(tk.constant(1))
    assert seen == [True, True, False]


@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_all_ways_to_run_agree_bit_for_bit(jit_compile, rng):
    def f(x, w):
        y = tk.nn.relu(x @ w) * 2.0 - tk.sqrt(tk.abs(x @ w)) / 3.0
        return y, tk.reduce_sum(y, 0), tk.reduce_mean(tk.square(y))

    x = tk.constant(rng.normal(size=(7, 5)).astype("float32"))
    w = tk.constant(rng.normal(size=(5, 5)).astype("float32"))
    for a, b in zip(f(x, w), tk.function(f, jit_compile=jit_compile)(x, w), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(("jit_compile", "steps"), [(False, 2000), (True, 20_000)])
def test_replaying_does_not_grow_memory(jit_compile, steps):
    v = tk.Variable(tk.zeros([50]))

    @tk.function(jit_compile=jit_compile)
    def step(x):
        v.assign(v * 0.9 + x)
        return tk.reduce_sum(v)

    x = tk.ones([50])
    for _ in range(50):
        step(x)
    gc.collect()
    tracemalloc.start()
    try:
        step(x)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(steps):
            step(x)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 4096


def test_threads_may_call_one_function():
    from concurrent.futures import ThreadPoolExecutor

    f, traces = counted(lambda x: x * 2.0 + 1.0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: float(f(tk.constant(float(i)))), range(64)))
    assert results == [2.0 * i + 1 for i in range(64)]
    assert len(traces) == 1


SCALAR = tk.TensorSpec([], "float32")


def test_a_concrete_function_refuses_another_python_value_than_it_was_traced_with():
    concrete = tk.function(lambda x, n=2: x * n).get_concrete_function(SCALAR, 2)
    x = tk.constant(5.0)
    assert [float(y) for y in (concrete(x), concrete(x, 2), concrete(x, n=2))] == [10.0] * 3
    assert float(concrete(x, tk.constant(2))) == 10.0
    for call in (lambda: concrete(x, 3), lambda: concrete(x, n=3)):
        with pytest.raises(TypeError, match="'n': the graph was made for 2, given is 3"):
            call()
    with pytest.raises(TypeError, match="no argument 'q'"):
        concrete(x, q=2)
    with pytest.raises(TypeError, match="'x' is given twice"):
        concrete(x, x=x)


def test_a_concrete_function_refuses_another_object():
    class Scale:
        by = 2.0

    one, other = Scale(), Scale()
    concrete = tk.function(lambda x, scale: x * scale.by).get_concrete_function(SCALAR, one)
    assert float(concrete(tk.constant(1.0), one)) == float(concrete(tk.constant(1.0))) == 2.0
    with pytest.raises(TypeError, match="'scale': the graph was made for"):
        concrete(tk.constant(1.0), other)


def test_a_concrete_function_takes_nested_arguments_in_any_order_of_keys():
    @tk.function
    def f(d, *rest, z, y=1.0, **more):
        return d["b"] * 10.0 + d["a"] + z * 100.0 * y + rest[0] * 1000.0 + more["k"] * 10000.0

    concrete = f.get_concrete_function({"b": SCALAR, "a": SCALAR}, SCALAR, z=SCALAR, k=SCALAR)
    one, two, three, four, five = (tk.constant(float(n)) for n in range(1, 6))
    assert float(concrete({"b": one, "a": two}, three, z=four, k=five)) == 53412.0
    assert float(concrete({"a": two, "b": one}, three, k=five, z=four)) == 53412.0
    assert float(concrete(two, one, three, four, five)) == 53412.0  # the graph's inputs, in order
    with pytest.raises(TypeError, match="'d': the graph was made for"):
        concrete({"b": one}, three, z=four, k=five)
    with pytest.raises(TypeError, match="'z' is missing"):
        concrete({"b": one, "a": two}, three, k=five)


def test_a_concrete_function_with_any_number_of_arguments():
    concrete = tk.function(lambda *xs: xs[0] - xs[1]).get_concrete_function(SCALAR, SCALAR)
    assert float(concrete(tk.constant(3.0), tk.constant(1.0))) == 2.0
    with pytest.raises(TypeError, match=r"'xs\[1\]' is missing"):
        concrete(tk.constant(3.0))
    with pytest.raises(TypeError, match="takes 2 tensors"):
        concrete(*[tk.constant(1.0)] * 3)


class Flavoured:
    """An object that is traced by its class."""

    flavour = 1.0

    def __tf_tracing_type__(self, context):
        return Flavour(self)


class Sweet(Flavoured):
    flavour = 3.0


class Flavour(tk.types.experimental.TraceType):
    def __init__(self, thing):
        self.kind, self.thing = type(thing), thing

    def is_subtype_of(self, other):
        return self == other

    def most_specific_common_supertype(self, others):
        return self if all(self == other for other in others) else None

    def placeholder_value(self, placeholder_context=None):
        return self.thing

    def __hash__(self):
        return hash(self.kind)

    def __eq__(self, other):
        return type(other) is Flavour and self.kind is other.kind


def test_objects_say_what_they_are_traced_as():
    f = tk.function(lambda x, a, b: x * a.flavour + b.flavour)
    x = tk.constant(2.0)
    assert float(f(x, Flavoured(), Sweet())) == float(f(x, Flavoured(), Sweet())) == 5.0
    assert f.experimental_get_tracing_count() == 1
    assert float(f(x, Sweet(), Sweet())) == 9.0
    assert f.experimental_get_tracing_count() == 2
    assert isinstance(Sweet(), tk.types.experimental.SupportsTracingProtocol)


def test_a_concrete_function_shows_its_type():
    concrete = tk.function(lambda a, n: {"b": a * n}).get_concrete_function(SCALAR, 2)
    shown = concrete.function_type
    assert list(shown.parameters) == ["a", "n"]
    assert shown.parameters["a"].annotation == SCALAR
    assert shown.return_annotation == {"b": SCALAR}
    assert float(concrete.inference_fn(tk.constant(3.0))["b"]) == 6.0


def test_a_concrete_function_shows_specs_of_its_arguments():
    f = tk.function(lambda x, k=3, **more: x["u"] + x["s"][0])
    pair = tk.TensorSpec([2])
    z = tk.TensorSpec([3], "int32")
    concrete = f.get_concrete_function({"u": pair, "s": [pair]}, k=5, z=z)
    args, kwargs = concrete.structured_input_signature
    named = {"u": tk.TensorSpec([2], name="x_u"), "s": [tk.TensorSpec([2], name="x_s_0")]}
    assert args == (named, 5)
    assert kwargs == {"z": tk.TensorSpec([3], "int32", name="z")}
    # which are what another graph can be made from
    assert f.get_concrete_function(*args, **kwargs) is concrete


def test_a_concrete_function_of_any_rank():
    f = tk.function(lambda a, b: a**b)
    square = f.get_concrete_function(a=tk.TensorSpec(None, "float32"), b=2)
    assert float(square(tk.constant(10.0))) == 100.0
    assert square(tk.constant([1.0, 3.0])).numpy().tolist() == [1.0, 9.0]
    assert square(a=tk.ones((2, 1)), b=2).shape == [2, 1]
    with pytest.raises(TypeError, match="'b': the graph was made for 2, given is 3"):
        square(tk.constant(10.0), b=3)
    with pytest.raises(tk.errors.InvalidArgumentError, match="dtype"):
        square(tk.constant(10))


def test_a_leaked_tensor_is_a_type_error_too():
    leaked = []
    tk.function(lambda x: leaked.append(x + 1.0))(tk.constant(1.0))
    with pytest.raises(TypeError, match="leaked out of a trace"):
        tk.function(lambda x: x + leaked[0])(tk.constant(1.0))
    with pytest.raises(TypeError, match="leaked out of a trace"):
        leaked[0] + 1.0


def test_a_function_has_a_name():
    @tk.function
    def halved(x):
        return x / 2.0

    assert halved.name == "halved"
    assert halved.__name__ == "halved"


@pytest.mark.parametrize(
    "value",
    [
        np.ones(2),
        np.ones(2, np.int64),
        np.ones(2, np.float16),
        np.array([True, True]),
        [np.float64(1), 1.0],
    ],
)
def test_arrays_get_the_dtype_of_the_input_signature(value):
    f = tk.function(lambda x: x * 2, input_signature=[tk.TensorSpec([None], tk.float32)])
    result = f(value)
    assert result.dtype == tk.float32
    assert result.numpy().tolist() == [2.0, 2.0]
    for concrete in (
        f.get_concrete_function(),
        tk.function(lambda x: x * 2).get_concrete_function(tk.TensorSpec([2], tk.float32)),
    ):
        for result in (concrete(value), concrete(x=value)):
            assert result.dtype == tk.float32
            assert result.numpy().tolist() == [2.0, 2.0]


def test_numbers_of_numpy_get_the_dtype_of_the_input_signature():
    f = tk.function(lambda x: x * 2, input_signature=[tk.TensorSpec([], tk.float32)])
    assert f(np.float64(1.5)).numpy() == f(np.int64(1)).numpy() + 1
    g = tk.function(lambda d: d["a"], input_signature=[{"a": tk.TensorSpec([None], tk.int32)}])
    assert g({"a": np.array([1, 2])}).dtype == tk.int32


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.ones(2, np.complex64), "dtype float32, given .*complex64"),
        (1 + 2j, "dtype float32, given .*complex128"),
        ([1 + 2j, 1.0], "dtype float32, given .*complex128"),
        ([np.complex64(1 + 2j), 1.0], "without its imaginary parts"),
        (np.array(["a"]), "'x': .*is text"),
        (np.ones((2, 2)), r"given is shape \(2, 2\)"),
        (tk.constant([1.0], tk.float64), "dtype float32, given .*float64"),
        (tk.Variable([1.0], dtype=tk.float64), "dtype float32, given .*float64"),
    ],
)
def test_what_is_no_real_array_keeps_its_dtype(value, text):
    f = tk.function(lambda x: x, input_signature=[tk.TensorSpec([None], tk.float32)])
    with pytest.raises(TypeError, match=text):
        f(value)
    with pytest.raises((TypeError, ValueError)):
        f.get_concrete_function()(value)
