"""Functions of unknown sizes are fused: the bits of eager code, in one program for many sizes."""

import threading
import warnings

import numpy as np
import pytest

import trainkit as tk
from trainkit.compiler.ir import Unsupported
from trainkit.graph.runtime import general_fusion, programs_by_size, values_of_sizes
from trainkit.graph.runtime.fusion import FusedKernel
from trainkit.graph.runtime.general_fusion import GeneralFusion

pytestmark = pytest.mark.usefixtures("on_cpu")

MATRIX = np.random.default_rng(1).standard_normal((6, 4)).astype("float32")


def gradient(f):
    def run(*xs):
        floats = [x for x in xs if x.dtype.is_floating]
        with tk.GradientTape() as tape:
            tape.watch(floats)
            loss = tk.reduce_sum(tk.sin(f(*xs)))
        return tape.gradient(loss, floats)

    return run


def normalized(x):
    mean = tk.reduce_mean(x, -1, keepdims=True)
    return (x - mean) * tk.math.rsqrt(tk.reduce_mean(tk.square(x - mean), -1, keepdims=True) + 1e-5)


def loss_of_rows(x, labels):
    logits = tk.matmul(tk.nn.relu(x * 2.0 + 1.0), tk.constant(MATRIX))
    return tk.nn.sparse_softmax_cross_entropy_with_logits(labels, logits) * 0.5


def looped(x):
    def body(i, y):
        return i + 1, tk.nn.relu(y * 1.5 - x) + y * 0.5

    return tk.while_loop(lambda i, y: i < 3, body, (tk.constant(0), x))[1]


FUNCTIONS = {
    "chain": (lambda x: tk.nn.relu(x * 2.0 + 1.0) / 3.0 - tk.sqrt(tk.abs(x)) + x * x, [[None]]),
    "NumPy's loops": (lambda x: tk.tanh(x) * tk.sigmoid(x * 2.0) - 1.0, [[None]]),
    "gradient": (gradient(lambda x, y: (x * y + 1.0) * tk.maximum(x, y)), [[None], [None]]),
    "ones": (lambda x: tk.nn.relu(x * 2.0 + 1.0) * x - tk.tanh(tk.ones_like(x)), [[None, 7]]),
    "row": (lambda x, w: tk.nn.relu(x * w + 1.0) * w - x, [[None, 7], [7]]),
    "mean of the axis": (lambda x: x - tk.reduce_mean(x * 2.0, 0) - tk.reduce_max(x), [[None, 5]]),
    "mean of all": (gradient(lambda x: tk.reduce_mean(tk.square(x) - x) * x[0]), [[None]]),
    "rows": (gradient(normalized), [[None, 40]]),
    "long rows": (lambda x: normalized(x * 2.0), [[3, None]]),
    "transposed": (lambda x: tk.transpose(x * 2.0 + 1.0) * 3.0 - tk.transpose(x), [[None, 6]]),
    "slices": (lambda x: x[1:] * 2.0 - x[:-1] * tk.square(x[1:]), [[None, 3]]),
    "every other": (lambda x: x[::2] * 2.0 - tk.square(x[::2]) + 1.0, [[None, 3]]),
    "reshaped": (
        lambda x: tk.reshape(x * 2.0 + 1.0, [tk.shape(x)[0] * 2, 3]) * 3.0 - 1.0,
        [[None, 6]],
    ),
    "joined": (lambda x: tk.nn.relu(tk.concat([x * 2.0, x + 1.0], 0)) * 3.0 - 1.0, [[None, 2]]),
    "products": (lambda x: tk.matmul(tk.transpose(x), x) * 0.5 + tk.reduce_sum(x, 0), [[None, 6]]),
    "two sizes": (lambda x: (x * 2.0 + 1.0) * tk.reduce_sum(x * x, 1, True), [[None, None]]),
    "loop": (looped, [[None, 3]]),
    "branch": (
        lambda x: tk.cond(tk.reduce_sum(x) > 0, lambda: x * 2.0 + 1.0, lambda: x * x - 1.0) * 3.0,
        [[None, 3]],
    ),
    "mask": (lambda x: tk.boolean_mask(x * 2.0 + 1.0, x[:, 0] > 0) * 2.0 + 1.0, [[None, 3]]),
}
SIZES = [5, 0, 1, 2, 700]


def arrays(shapes, n, m=None, dtype="float32"):
    """Arrays whose unknown sizes are `n`, the second one of an array `m`."""
    rng = np.random.default_rng(0)
    filled = []
    for shape in shapes:
        sizes = iter((n, m or 9))
        filled.append([next(sizes) if d is None else d for d in shape])
    return [tk.constant(rng.standard_normal(shape).astype(dtype)) for shape in filled]


def general(f, shapes, dtypes=("float32",) * 3):
    specs = [tk.TensorSpec(s, d) for s, d in zip(shapes, dtypes, strict=False)]
    return tk.function(f, input_signature=specs, jit_compile=True)


def programs_of(function):
    return function.get_concrete_function().graph.program().general._programs


def kernels_of(function):
    nodes = [node for program in programs_of(function) for node in program.graph.nodes]
    return [n.primitive for n in nodes if isinstance(n.primitive, FusedKernel)]


def assert_bits(expected, results):
    for a, b in zip(tk.nest.flatten(expected), tk.nest.flatten(results), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy(), strict=True)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning", "ignore:Mean of empty")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bits_are_those_of_eager_code_at_every_size(name):
    f, shapes = FUNCTIONS[name]
    compiled = general(f, shapes)
    for n in SIZES:
        xs = arrays(shapes, n)
        try:
            expected = f(*xs)
        except tk.errors.InvalidArgumentError:  # there is no maximum of nothing
            continue
        assert_bits(expected, compiled(*xs))
    if name not in ("loop", "every other"):  # of which the size is no line in n
        assert any(kernel.code.unknown for kernel in kernels_of(compiled)), name


def test_a_loops_body_is_fused_for_unknown_sizes():
    compiled = general(looped, [[None, 3]])
    compiled(*arrays([[None, 3]], 50))
    (loop,) = [n for n in compiled.get_concrete_function().graph.nodes if n.subgraphs()]
    programs = loop.settings["body"].program().general._programs
    kernels = [n.primitive for program in programs for n in program.graph.nodes]
    assert [k.code.unknown for k in kernels if isinstance(k, FusedKernel)]


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_other_dtypes_have_the_bits_of_eager_code(dtype):
    def f(x):
        y = x * 2 + 1
        return y * y - x, tk.reduce_sum(y, 0)

    compiled = general(f, [[None, 3]], [dtype])
    for n in (40, 7, 1):
        x = tk.cast(arrays([[None, 3]], n, dtype="float64")[0] * 10.0, dtype)
        assert_bits(f(x), compiled(x))
    assert kernels_of(compiled)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_means_of_short_floats_count_more_than_these_hold(dtype):
    compiled = general(gradient(lambda x: tk.reduce_mean(x * x + 1.0) * x), [[None, None]], [dtype])
    for shape in ((3, 4), (300, 400), (1, 7)):
        x = tk.cast(tk.constant(np.random.default_rng(0).normal(size=shape)), dtype)
        assert_bits(gradient(lambda x: tk.reduce_mean(x * x + 1.0) * x)(x), compiled(x))


def test_labels_are_compared_at_every_size():
    compiled = general(loss_of_rows, [[None, 6], [None]], ["float32", "int32"])
    for n in (8, 5, 50):
        x, labels = arrays([[None, 6]], n)[0], tk.constant(np.arange(n) % 4, tk.int32)
        assert_bits(loss_of_rows(x, labels), compiled(x, labels))
        with pytest.raises(tk.errors.InvalidArgumentError, match="classes"):
            compiled(x, labels + 1)
    assert any(kernel.code.may_fail for kernel in kernels_of(compiled))


def test_sizes_in_a_range_share_one_program():
    f, shapes = FUNCTIONS["chain"]
    compiled = general(f, shapes)
    for n in (5, 100, 2, 3000, 99):
        compiled(*arrays(shapes, n))
    assert len(programs_of(compiled)) == 1


def test_sizes_that_are_equal_by_chance_may_differ_later():
    def f(x, y):
        return (x * 2.0 + 1.0)[:, None] * tk.square(y)[None, :] + 1.0

    compiled = general(f, [[None], [None]])
    for n, m in ((5, 5), (5, 7), (7, 5), (1, 5), (5, 1), (1, 1), (6, 6)):
        x, y = arrays([[n], [m]], 0)
        assert_bits(f(x, y), compiled(x, y))


def test_an_unknown_size_may_be_that_of_the_other_or_one():
    def f(x, y):
        return (x * y + 1.0) * 2.0 - y

    compiled = general(f, [[None, 4], [None, 4]])
    for n, m in ((5, 5), (5, 1), (1, 5), (9, 1), (1, 1), (9, 9)):
        x, y = arrays([[n, 4], [m, 4]], 0)
        assert_bits(f(x, y), compiled(x, y))
    x, y = arrays([[3, 4], [2, 4]], 0)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"(?s)3.*2"):
        compiled(x, y)


def test_arrays_that_are_not_in_order_have_the_same_results():
    f, shapes = FUNCTIONS["row"]
    compiled = general(f, shapes)
    turned = tk.transpose(tk.constant(MATRIX[:, :4].T.copy()))
    w = tk.constant(MATRIX[0])
    assert_bits(f(turned, w[:4]), general(f, [[None, 4], [4]])(turned, w[:4]))
    for n in (4, 9):
        xs = arrays(shapes, n)
        assert_bits(f(*xs), compiled(*xs))


def test_variables_are_updated_from_batches_of_any_size():
    def step(w, x):
        w.assign(w * 0.9 - tk.reduce_mean(x * w + 1.0, 0) * 0.1)
        return w.value() * 2.0

    one, other = (tk.Variable(MATRIX[0]) for _ in range(2))
    compiled = tk.function(
        lambda x: step(one, x), input_signature=[tk.TensorSpec([None, 4])], jit_compile=True
    )
    for n in (5, 1, 20, 3, 5):
        x = arrays([[n, 4]], 0)[0]
        assert_bits(step(other, x), compiled(x))
    np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_threads_with_arrays_of_different_sizes_do_not_meet():
    def f(x):
        return tk.reduce_sum(tk.tanh(x * 2.0 + 1.0) * x, 1) * 3.0

    compiled = general(f, [[None, 8]])
    cases = [(x := arrays([[n, 8]], 0)[0], f(x)) for n in (3, 50, 200, 7)]
    compiled(cases[0][0])
    wrong = []

    def work(x, expected):
        for _ in range(50):
            if not np.array_equal(compiled(x).numpy(), expected.numpy()):
                wrong.append(x.shape)

    workers = [threading.Thread(target=work, args=case) for case in cases]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_sizes_beyond_the_last_program_share_what_is_compiled_without_sizes(monkeypatch):
    monkeypatch.setattr(programs_by_size, "_MOST_PROGRAMS", 1)
    f, shapes = FUNCTIONS["slices"]
    compiled = general(f, shapes)
    for n in (1, 40, 7, 1):
        xs = arrays(shapes, n)
        assert_bits(f(*xs), compiled(*xs))
    assert len(programs_of(compiled)) == 1


def test_a_function_that_needs_to_know_a_size_is_traced_for_each():
    @tk.function(reduce_retracing=True)
    def f(x):
        total = x[0]
        for i in range(1, x.shape[0]):
            total = total + x[i]
        return total

    for n in (2, 3, 4, 3):
        assert float(f(tk.ones([n]))) == n
    assert f.experimental_get_tracing_count() == 3


def test_the_warning_of_many_traces_names_no_argument_that_was_given():
    @tk.function(reduce_retracing=True)
    def f(x):
        return sum((x[i] for i in range(x.shape[0])), tk.constant(0.0))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 6):
            f(tk.ones([n]))
    (warning,) = caught
    assert "needs to know the size" in str(warning.message)
    assert "reduce_retracing" not in str(warning.message)
    assert "reduce_retracing" not in f.explain()


def loss_and_gradient(x, labels):
    with tk.GradientTape() as tape:
        tape.watch(x)
        logits = tk.matmul(x, tk.constant(np.linspace(-1, 1, 160, dtype="float32").reshape(32, 5)))
        loss = tk.reduce_mean(tk.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    return loss, tape.gradient(loss, x)


def rows_and_labels(n):
    x = np.random.default_rng(n).standard_normal((n, 32)).astype("float32")
    return tk.constant(x), tk.constant(np.arange(n) % 5, "int32")


def ranges_of(function):
    general = function.get_concrete_function().graph.program().general
    return [sizes.range.ends for sizes in general._sizes]


@pytest.mark.parametrize("n", [32, 5, 4, 33])
def test_a_size_that_is_a_number_of_the_code_by_chance_begins_a_range(n):
    # 32 and 5 are axes of the weights, and division by 4 is another number than that by 5
    compiled = general(loss_and_gradient, [[None, 32], [None]], ("float32", "int32"))
    for rows in (n, 2 * n, n + 1, n - 1):
        assert_bits(loss_and_gradient(*rows_and_labels(rows)), compiled(*rows_and_labels(rows)))
    [(low, high)] = ranges_of(compiled)[0]
    assert low <= n < n + 8 <= high


def of_sizes(x):
    """What follows from the number of rows: a count, zeros, ones, and a table made of them."""
    n = tk.shape(x)[0]
    state = tk.zeros([n, 4])
    table = tk.cumsum(tk.ones_like(x, dtype="int32"), axis=1)
    return tk.concat([x * 2.0 + tk.cast(n, "float32"), state], 1), table + n, tk.size(x)


@pytest.fixture
def a_large_cache(monkeypatch):
    """Programs run as the functions that they are, whatever this machine's first cache holds."""
    monkeypatch.setattr("trainkit.graph.runtime.program.cache_bytes", lambda level: 1 << 30)


@pytest.mark.usefixtures("a_large_cache")
@pytest.mark.parametrize("shape", [[None, 3], [None, None]])
def test_what_follows_from_sizes_is_computed_once_for_each(shape):
    compiled = general(of_sizes, [shape])
    for n in (6, 7, 6, 9, 0, 1, 6, 2, 700):
        x = tk.constant(np.arange(n * 3, dtype="float32").reshape(n, 3))
        for _ in range(2):
            assert_bits(of_sizes(x), compiled(x))
    program = programs_of(compiled)[0]
    values = program.run.__globals__["sized"]
    assert (6 if shape[1:] == [3] else (6, 3)) in values
    assert "shape" not in {node.name for node in program.graph.nodes}


@pytest.mark.usefixtures("a_large_cache")
def test_values_of_few_sizes_stay_and_no_large_ones(monkeypatch):
    monkeypatch.setattr(values_of_sizes, "MOST_CHOICES", 2)
    monkeypatch.setattr(values_of_sizes, "MOST_CONSTANT_BYTES", 4000)
    compiled = general(of_sizes, [[None, 3]])
    for n in (6, 7, 8, 9, 6, 300, 301):
        x = tk.constant(np.ones((n, 3), "float32"))
        assert_bits(of_sizes(x), compiled(x))
    values = programs_of(compiled)[0].run.__globals__["sized"]
    assert set(values) == {6}


def test_what_follows_from_sizes_is_not_written_over():
    w = tk.Variable(tk.zeros([5, 4]), shape=tk.TensorShape([None, 4]))

    def assigned(x):
        zeros = tk.zeros([tk.shape(x)[0], 4]) + 1.0
        w.assign(zeros)
        w.assign_add(x * 2.0 + 1.0)
        return zeros, w * 1.0

    compiled = general(assigned, [[None, 4]])
    for n in (5, 6, 5, 6):
        x = tk.constant(np.full((n, 4), n, "float32"))
        for _ in range(2):
            zeros, value = compiled(x)
            np.testing.assert_array_equal(zeros, np.ones((n, 4)))
            np.testing.assert_array_equal(value, np.full((n, 4), 2.0 * n + 2))
            w.assign_add(tk.ones([n, 4]))


def test_an_error_of_what_follows_from_sizes_names_its_line():
    def scaled(x):
        return x * 2.0 + tk.gather(tk.range(10.0), tk.shape(x)[0])

    compiled = general(scaled, [[None]])
    for n in (6, 7):
        assert_bits(scaled(tk.zeros([n])), compiled(tk.zeros([n])))
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"gather[\s\S]*, in scaled"):
        compiled(tk.zeros([11]))
    assert len(programs_of(compiled)) == 1


@pytest.mark.parametrize(
    ("end", "other", "between"),
    [
        (18, 36, 32),
        (36, 18, 32),
        (144, 288, 256),
        (256, 192, 224),
        (15, 30, 16),
        (15, 16, 15),
        (16, 15, 16),
    ],
)
def test_ends_of_ranges_are_looked_for_at_round_sizes(end, other, between):
    assert general_fusion._roundest_between(end, other) == between


def graph_of(function):
    return function.get_concrete_function().graph.program().general.graph


def test_ranges_with_the_same_loops_have_one_code(monkeypatch):
    graph = graph_of(general(*FUNCTIONS["chain"]))
    exact = general_fusion.Sizes.like((4,), [(0, 0)])
    (low,), (high,) = (
        [
            node.primitive
            for node in GeneralFusion(graph)._merge(exact.between(*ends), True).nodes
            if isinstance(node.primitive, FusedKernel)
        ]
        for ends in (([4], [8]), ([9], [16]))
    )
    assert low.compile() is high.compile()
    for kernel, sizes in ((low, (4, 8)), (high, (9, 16))):
        monkeypatch.setattr(kernel, "interpreted", lambda *xs: "refused")
        for n in range(2, 20):
            result = kernel.kernel(np, np.ones(n, "float32"))
            assert (result == "refused") is not (sizes[0] <= n <= sizes[1])


def test_a_run_without_unknown_sizes_is_written_once():
    def f(x, w):
        return x * 2.0 + x * x, tk.sort(w * 2.0 + 1.0) * 3.0 - 1.0

    fusion = GeneralFusion(graph_of(general(f, [[None], [7]])))
    one, other = (
        [n.primitive.code for n in fusion._at((n,)).nodes if isinstance(n.primitive, FusedKernel)]
        for n in (5, 9)
    )
    assert [a is b for a, b in zip(one, other, strict=True)] == [False, True]


def test_only_outlines_of_graphs_that_are_there_decide(monkeypatch):
    # large softmaxes have a kernel of their own, so they are not fused
    function = general(lambda x: tk.nn.softmax(x * 0.5), [[None, 100]])
    fusion = GeneralFusion(graph_of(function))
    monkeypatch.setattr(fusion, "_outline", lambda sizes: [])
    sizes = general_fusion.Sizes.like((10,), [(0, 0)]).between([10], [1000])
    with pytest.raises(Unsupported, match="other operations"):
        fusion._merge(sizes, True)
