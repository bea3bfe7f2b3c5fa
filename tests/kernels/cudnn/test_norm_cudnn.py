"""Normalization by cuDNN gives what the CPU gives; which calls go there, and what serves else."""

import numpy as np
import pytest

import trainkit as tk
from tests.stand_in.kernels import has_compiler
from trainkit.core.errors import UnimplementedError
from trainkit.kernels.cudnn import deferred, frontend, kernel_choice, plan_choice, plans
from trainkit.kernels.normalization import norm_columns_cuda, norm_gpu, norm_rows_cuda
from trainkit.ops.neural.fused_normalization import fused_normalization
from trainkit.ops.neural.standardization import standardized

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not here")

BOUND = {"float32": 3e-5, "float16": 8e-3, "bfloat16": 6e-2}
EPSILON = 1e-3


@pytest.fixture
def forced(cudnn_state):
    deferred.set_mode("force")
    return cudnn_state


def nodes(state):
    return [node for graph, _ in state.executed for node in graph]


def numbers(*shape, seed=0, mean=0.0):
    return (np.random.default_rng(seed).standard_normal(shape) * 2 + mean).astype(np.float32)


def close(found, wanted, bound):
    for one, two in zip(found, wanted, strict=True):
        assert np.abs(one - two).max() <= bound * max(1.0, np.abs(two).max())


def wide(parts):
    return [tk.cast(part, "float32").numpy() for part in parts]


# ---------------------------------------------------------------------- values


SHAPES = {
    "image": (2, 5, 4, 3),
    "many channels": (3, 2, 2, 40),
    "vectors": (9, 7),
    "sequences": (3, 6, 5),
    "volumes": (2, 3, 2, 4, 8),
    "one row": (1, 5),
    "one channel": (6, 4, 1),
    "one number": (1, 1),
}


def batch_results(shape, dtype, parameters, where):
    """y, mean, variance and the gradients by x, scale and offset."""
    with tk.device(where):
        x = tk.cast(tk.constant(numbers(*shape, mean=3.0)), dtype)
        vectors = [tk.constant(numbers(shape[-1], seed=i)) for i in (1, 2)] if parameters else []
        upstream = tk.constant(numbers(*shape, seed=3))
        with tk.GradientTape() as tape:
            tape.watch((x, *vectors))
            y, mean, variance = tk.ops.fused_batch_normalization(x, *vectors, epsilon=EPSILON)
            loss = tk.reduce_sum(tk.cast(y, "float32") * upstream)
        assert y.dtype.name == dtype
        assert mean.dtype.name == ("float32" if parameters else dtype)
        return wide([y, mean, variance, *tape.gradient(loss, (x, *vectors))])


@pytest.mark.parametrize("parameters", [True, False])
@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", SHAPES)
def test_batches_and_their_gradients_are_those_of_the_cpu(name, dtype, parameters, forced):
    wanted = batch_results(SHAPES[name], dtype, parameters, "/cpu:0")
    close(batch_results(SHAPES[name], dtype, parameters, "/gpu:0"), wanted, 4 * BOUND[dtype])
    assert nodes(forced) == ["batchnorm", "batchnorm_backward"]


ROWS = {
    "last axis": ((6, 5, 33), (2,)),
    "two axes": ((4, 3, 8), (1, 2)),
    "one row": ((1, 5), (1,)),
    "one column": ((5, 1), (1,)),
    "wider than registers": ((2, 8201), (1,)),
}


def row_results(name, dtype, parameters, where):
    shape, axis = ROWS[name]
    with tk.device(where):
        x = tk.cast(tk.constant(numbers(*shape, mean=3.0)), dtype)
        sizes = tuple(shape[a] for a in axis)
        vectors = [tk.cast(tk.constant(numbers(*sizes, seed=i)), dtype) for i in (1, 2)]
        vectors = vectors if parameters else []
        upstream = tk.constant(numbers(*shape, seed=3))
        with tk.GradientTape() as tape:
            tape.watch((x, *vectors))
            y = tk.ops.layer_normalization(x, *vectors, axis=axis, epsilon=EPSILON)
            loss = tk.reduce_sum(tk.cast(y, "float32") * upstream)
        return wide([y, *tape.gradient(loss, (x, *vectors))])


@pytest.mark.parametrize("parameters", [True, False])
@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", ROWS)
def test_layers_and_their_gradients_are_those_of_the_cpu(name, dtype, parameters, forced):
    wanted = row_results(name, dtype, parameters, "/cpu:0")
    close(row_results(name, dtype, parameters, "/gpu:0"), wanted, 4 * BOUND[dtype])
    assert nodes(forced) == ["layernorm", "layernorm_backward"]


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", ROWS)
def test_rows_without_parameters_are_those_of_the_cpu(name, dtype, centred, forced):
    shape, axis = ROWS[name]

    def results(where):
        with tk.device(where):
            x = tk.cast(tk.constant(numbers(*shape, mean=3.0)), dtype)
            with tk.GradientTape() as tape:
                tape.watch(x)
                y = standardized(x, axis=axis, epsilon=EPSILON, centred=centred)
                loss = tk.reduce_sum(tk.cast(y, "float32") * numbers(*shape, seed=3))
            return wide([y, tape.gradient(loss, x)])

    close(results("/gpu:0"), results("/cpu:0"), 4 * BOUND[dtype])
    kind = "layernorm" if centred else "rmsnorm"
    assert nodes(forced) == [kind, f"{kind}_backward"]


SHORT_LAYERS = {
    "layer": lambda dtype: tk.layers.LayerNormalization(dtype=dtype),
    "layer, no offset": lambda dtype: tk.layers.LayerNormalization(center=False, dtype=dtype),
    "layer, two axes": lambda dtype: tk.layers.LayerNormalization(axis=[-2, -1], dtype=dtype),
    "layer, no parameters": lambda dtype: tk.layers.LayerNormalization(
        center=False, scale=False, dtype=dtype
    ),
    "rms": lambda dtype: tk.layers.RMSNormalization(dtype=dtype),
    "rms, two axes": lambda dtype: tk.layers.RMSNormalization(axis=[-2, -1], dtype=dtype),
}


def short_layer_results(name, dtype, where, compiled=False, shape=(4, 6, 40)):
    """y and the gradients by x and the weights, of a layer in mixed precision."""
    with tk.device(where):
        layer = SHORT_LAYERS[name](f"mixed_{dtype}")
        x = tk.cast(tk.constant(numbers(*shape, mean=1.0)), dtype)
        upstream = tk.constant(numbers(*shape, seed=3))
        layer.build(shape)
        for i, weight in enumerate(layer.weights):
            weight.assign(numbers(*weight.shape, seed=i + 5))

        def step(x):
            with tk.GradientTape() as tape:
                tape.watch(x)
                y = layer(x)
                loss = tk.reduce_sum(tk.cast(y, "float32") * upstream)
            return y, tape.gradient(loss, [x, *layer.trainable_variables])

        y, grads = (tk.function(step) if compiled else step)(x)
        kinds = [part.dtype.name for part in (y, *grads)]
        assert kinds == [dtype, dtype, *["float32"] * len(layer.weights)]
        return wide([y, *grads])


@pytest.mark.parametrize("mode", ["force", "off"])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SHORT_LAYERS)
def test_layers_of_short_floats_are_not_made_longer_for_it(
    name, dtype, compiled, mode, cudnn_state
):
    deferred.set_mode(mode)
    wanted = short_layer_results(name, dtype, "/cpu:0")
    found = short_layer_results(name, dtype, "/gpu:0", compiled)
    for one, two in zip(found[:2], wanted[:2], strict=True):  # rounded once: the same, or beside it
        assert np.abs(one - two).max() <= BOUND[dtype] / 4 * max(1.0, np.abs(two).max())
        assert (one == two).mean() > 0.99
    close(found[2:], wanted[2:], 3e-5)
    kind = "rmsnorm" if name.startswith("rms") else "layernorm"
    assert nodes(cudnn_state) == ([kind, f"{kind}_backward"] if mode == "force" else [])
    assert {request.facts[0] for request in plans._PLANS} <= {dtype}
    if mode == "force" and name in ("layer", "layer, no offset", "layer, two axes"):
        assert {request.facts[3] for request in plans._PLANS} == {"float32"}


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_a_layer_of_another_type_than_its_input_computes_in_its_own(name, forced):
    layer = SHORT_LAYERS[name]("float32")
    layer.autocast = False
    x = tk.cast(tk.constant(numbers(4, 6, mean=1.0)), "bfloat16")
    y = layer(x)
    with tk.device("/cpu:0"):
        other = SHORT_LAYERS[name]("float32")
        other.autocast = False
        wanted = other(tk.cast(tk.constant(numbers(4, 6, mean=1.0)), "bfloat16"))
    assert y.dtype == wanted.dtype
    close(wide([y]), wide([wanted]), 1e-6 if y.dtype.name == "float32" else 1e-2)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 1, 4), (3, 4), (1,)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_any_scale_of_root_mean_squares(shape, dtype, cudnn_state):
    deferred.set_mode("off")

    def results(where):
        with tk.device(where):
            x = tk.cast(tk.constant(numbers(2, 3, 4)), dtype)
            scale = tk.constant(numbers(*shape, seed=1))
            with tk.GradientTape() as tape:
                tape.watch((x, scale))
                y = tk.ops.rms_normalization(x, scale, epsilon=EPSILON)
                loss = tk.reduce_sum(tk.cast(y, "float32") ** 2)
            assert y.dtype.name == dtype
            return wide([y, *tape.gradient(loss, (x, scale))])

    close(results("/gpu:0"), results("/cpu:0"), 1e-2 if dtype == "bfloat16" else 3e-5)


def test_gradients_of_gradients_of_root_mean_squares(cudnn_state):
    def results(where):
        with tk.device(where):
            x, scale = tk.constant(numbers(3, 5)), tk.constant(numbers(5, seed=1))
            with tk.GradientTape() as outer:
                outer.watch((x, scale))
                with tk.GradientTape() as inner:
                    inner.watch((x, scale))
                    y = tk.ops.rms_normalization(x, scale, epsilon=EPSILON)
                    loss = tk.reduce_sum(y**3)
                by_x, by_scale = inner.gradient(loss, (x, scale))
                total = tk.reduce_sum(by_x**2) + tk.reduce_sum(by_scale**2)
            return wide(outer.gradient(total, (x, scale)))

    close(results("/gpu:0"), results("/cpu:0"), 3e-4)


@pytest.mark.parametrize(("spread", "epsilon"), [(1e-3, 1e-3), (0.0, 1e-3), (2.0, 0.0)])
def test_the_variance_comes_from_the_inverse_deviation(spread, epsilon, forced):
    x = 5 + spread * numbers(200, 3)
    _, mean, variance = fused_normalization(
        tk.constant(x), None, None, axis=(1,), epsilon=epsilon, over_batch=True
    )
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), exact.mean(0), rtol=1e-6)
    bound = 1e-6 * (exact.var(0) + epsilon)
    assert np.all(np.abs(variance.numpy() - exact.var(0)) <= bound)
    assert np.all(variance.numpy() >= 0)
    assert nodes(forced) == ["batchnorm"]


def test_gradients_by_the_moments_are_left_to_the_own_kernels(forced):
    def results(where):
        with tk.device(where):
            x, scale = tk.constant(numbers(9, 4)), tk.constant(numbers(4, seed=1))
            with tk.GradientTape() as tape:
                tape.watch((x, scale))
                y, mean, variance = tk.ops.fused_batch_normalization(x, scale)
                loss = tk.reduce_sum(y**3) + tk.reduce_sum(mean * variance)
            return wide(tape.gradient(loss, (x, scale)))

    close(results("/gpu:0"), results("/cpu:0"), 3e-5)
    assert nodes(forced) == ["batchnorm"]


@pytest.mark.parametrize("looked_at", ["y", "mean", "variance"])
def test_gradients_of_one_result_alone(looked_at, forced):
    def results(where):
        with tk.device(where):
            x, scale = tk.constant(numbers(9, 4)), tk.constant(numbers(4, seed=1))
            with tk.GradientTape(persistent=True) as tape:
                tape.watch((x, scale))
                found = tk.ops.fused_batch_normalization(x, scale, scale * 2.0)
                part = found[("y", "mean", "variance").index(looked_at)]
                loss = tk.reduce_sum(part**3)
            return wide(tape.gradient(loss, (x, scale)))

    close(results("/gpu:0"), results("/cpu:0"), 3e-5)
    assert ("batchnorm_backward" in nodes(forced)) is (looked_at == "y")


def test_views_that_begin_at_odd_places(forced):
    x = tk.constant(numbers(7, 9))[1:, 1:8]
    scale = tk.constant(numbers(8, seed=1))[1:]
    with tk.device("/cpu:0"):
        wanted = wide(tk.ops.fused_batch_normalization(x.cpu(), scale.cpu(), scale.cpu()))
    close(wide(tk.ops.fused_batch_normalization(x, scale, scale)), wanted, 3e-5)
    assert tk.ops.layer_normalization(tk.zeros((0, 3))).shape == (0, 3)
    assert nodes(forced) == ["batchnorm"]


# ---------------------------------------------------------------------- layers


LAYERS = {
    "batch": (lambda: tk.layers.BatchNormalization(), "batchnorm"),
    "batch without parameters": (
        lambda: tk.layers.BatchNormalization(scale=False, center=False),
        "batchnorm",
    ),
    "layer": (lambda: tk.layers.LayerNormalization(), "layernorm"),
    "layer of two axes": (lambda: tk.layers.LayerNormalization(axis=[-2, -1]), "layernorm"),
    "rms": (lambda: tk.layers.RMSNormalization(), "rmsnorm"),
}


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("how", ["eager", "captured"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_train_as_on_the_cpu(name, how, policy, forced):
    make, node = LAYERS[name]
    x, upstream = numbers(3, 4, 5, 7, mean=1.0), numbers(3, 4, 5, 7, seed=1)

    def results(where):
        with tk.device(where):
            layer = make()
            layer.dtype_policy = policy
            layer.build(x.shape)
            more = {"training": True} if name.startswith("batch") else {}

            def step(x, g):
                with tk.GradientTape() as tape:
                    tape.watch(x)
                    y = tk.cast(layer(x, **more), "float32")
                return y, *tape.gradient(y, (x, *layer.trainable_variables), output_gradients=g)

            run = tk.function(step) if how == "captured" else step
            for _ in range(6):
                found = run(tk.constant(x), tk.constant(upstream))
            if how == "captured" and where == "/gpu:0":
                assert "replays of 1 CUDA graph" in run.explain()
            return wide([*found, *layer.non_trainable_variables])

    wanted = results("/cpu:0")
    forced.executed.clear()
    close(results("/gpu:0"), wanted, 1e-4 if policy == "float32" else 0.1)
    assert set(nodes(forced)) == {node, f"{node}_backward"}
    assert len(forced.built) == 2


def test_batches_with_a_mask_do_not_go_there(forced):
    x, mask = numbers(4, 6, 3), np.arange(24).reshape(4, 6) % 3 > 0

    def results(where):
        with tk.device(where):
            layer = tk.layers.BatchNormalization()
            y = layer(tk.constant(x), training=True, mask=tk.constant(mask))
            return wide([y, layer.moving_mean, layer.moving_variance])

    close(results("/gpu:0"), results("/cpu:0"), 3e-5)
    assert forced.built == []


# ---------------------------------------------------------------------- by which kernels


def normalized(shape, dtype="bfloat16", over_batch=True):
    """Nodes that are executed for a step over an input of a shape."""
    x = tk.cast(tk.constant(numbers(*shape)), dtype)
    scale = tk.cast(tk.ones(shape[-1:]), "float32" if over_batch else dtype)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = fused_normalization(
            x, scale, scale, axis=(len(shape) - 1,), epsilon=EPSILON, over_batch=over_batch
        )
        y = y[0] if over_batch else y
    return y, tape.gradient(y, x)


@pytest.mark.parametrize(
    ("shape", "dtype", "over_batch", "served"),
    [
        ((16, 8), "bfloat16", True, ["batchnorm"]),
        ((16, 8), "float16", True, ["batchnorm"]),
        ((16, 8), "float32", True, []),
        ((16, 9), "bfloat16", True, []),
        ((8, 8), "bfloat16", True, []),
        ((2, 512), "float16", False, ["layernorm"]),
        ((2, 512), "float32", False, []),
        ((16, 64), "bfloat16", False, []),
        ((1, 8200), "float32", False, ["layernorm", "layernorm_backward"]),
        ((1, 5000), "float32", False, ["layernorm_backward"]),
        ((1, 8200), "float64", False, []),
    ],
)
def test_the_rule_where_nothing_is_measured(
    shape, dtype, over_batch, served, cudnn_state, monkeypatch
):
    monkeypatch.setattr(norm_gpu, "LARGE", 128)
    normalized(shape, dtype, over_batch)
    assert nodes(cudnn_state) == served


def test_small_inputs_are_not_sent_there(cudnn_state):
    for dtype in BOUND:
        normalized((64, 32), dtype)
        normalized((8, 512), dtype, False)
    assert (cudnn_state.built, cudnn_state.handles) == ([], 0)


@pytest.mark.parametrize("refused", [{"batchnorm"}, {"batchnorm_backward"}])
@pytest.mark.parametrize("mode", ["force", "measure"])
def test_what_cudnn_refuses_the_own_kernels_do_and_it_is_asked_once(mode, refused, cudnn_state):
    wanted = batch_results((6, 5), "float32", True, "/cpu:0")
    deferred.set_mode(mode)
    cudnn_state.refused = refused
    close(batch_results((6, 5), "float32", True, "/gpu:0"), wanted, 3e-5)
    cudnn_state.refused = set()  # it is remembered
    close(batch_results((6, 5), "float32", True, "/gpu:0"), wanted, 3e-5)
    assert not set(nodes(cudnn_state)) & refused
    assert len(plans.refused()) == 1


@pytest.mark.parametrize("mode", ["force", "measure", "heuristic"])
def test_without_the_frontend_the_own_kernels_serve(mode, cudnn_state, monkeypatch):
    monkeypatch.setattr(frontend, "_import_frontend", lambda: (None, "ImportError: no such module"))
    deferred.set_mode(mode)
    wanted = row_results("last axis", "float16", True, "/cpu:0")
    close(row_results("last axis", "float16", True, "/gpu:0"), wanted, 3e-2)
    close(
        batch_results((6, 5), "float32", True, "/gpu:0"),
        batch_results((6, 5), "float32", True, "/cpu:0"),
        3e-5,
    )
    assert cudnn_state.built == []
    assert kernel_choice.choices() == {}


def test_turned_off_it_is_not_asked(cudnn_state, monkeypatch):
    monkeypatch.setattr(norm_gpu, "LARGE", 1)
    deferred.set_mode("off")
    normalized((16, 8))
    normalized((1, 8200), "float32", False)
    assert cudnn_state.handles == 0


@pytest.mark.parametrize("mode", ["heuristic", "measure"])
def test_where_no_kernel_can_be_compiled_cudnn_serves(mode, cudnn_state, monkeypatch):
    for module in (norm_columns_cuda, norm_rows_cuda):
        monkeypatch.setattr(module, "normalized", lambda *given: None)
    deferred.set_mode(mode)
    y = tk.ops.layer_normalization(tk.constant(numbers(4, 6)), epsilon=EPSILON)
    with tk.device("/cpu:0"):
        wanted = tk.ops.layer_normalization(tk.constant(numbers(4, 6)), epsilon=EPSILON)
    close(wide([y]), wide([wanted]), 3e-5)
    assert set(nodes(cudnn_state)) == {"layernorm"}


# ---------------------------------------------------------------------- plans and choices


def test_a_second_call_takes_the_kept_plan(forced):
    for _ in range(3):
        normalized((6, 5), "float32")
    assert (len(forced.built), len(forced.executed)) == (2, 6)
    for other in (((6, 6), "float32"), ((6, 5), "float16"), ((3, 2, 5), "float32")):
        before = plans.count()
        normalized(*other)
        normalized(*other)
        assert plans.count() == before + 2, other


def test_epsilon_is_no_part_of_a_plan(forced):
    x = tk.constant(numbers(6, 5))
    one, two = (tk.ops.fused_batch_normalization(x, epsilon=e)[0].numpy() for e in (1e-3, 100.0))
    assert np.abs(one).max() > 2 * np.abs(two).max()
    assert len(forced.built) == 1


def test_plans_are_kept_for_the_next_process_and_whatever_chose_cudnn(forced, monkeypatch):
    forced.keeps = True
    normalized((16, 8))
    assert (len(forced.built), len(forced.stored)) == (2, 2)
    plans.clear()
    deferred.set_mode("heuristic")
    monkeypatch.setattr(norm_gpu, "LARGE", 1)
    normalized((16, 8))
    assert len(forced.built) == 2
    assert nodes(forced) == ["batchnorm", "batchnorm_backward", "batchnorm"]


def timed(monkeypatch, *times):
    """Let candidates have these times, own and cuDNN's in turn; gives what is left of them."""
    left = list(times)
    monkeypatch.setattr(plan_choice, "milliseconds", lambda xp, call: (call(), left.pop(0))[1])
    return left


@pytest.mark.parametrize(
    ("times", "served"),
    [
        ((1.0, 2.0, 1.0, 2.0), set()),
        ((2.0, 1.0, 1.0, 2.0), {"batchnorm"}),
        ((1.0, 2.0, 2.0, 1.0), {"batchnorm_backward"}),
        ((2.0, 1.0, 2.0, 1.0), {"batchnorm", "batchnorm_backward"}),
    ],
)
def test_the_faster_one_is_taken_where_they_are_measured(times, served, cudnn_state, monkeypatch):
    deferred.set_mode("measure")
    left = timed(monkeypatch, *times)
    wanted = [tk.cast(part, "float32").numpy() for part in normalized((6, 5), "float32")]
    assert left == []
    cudnn_state.executed.clear()
    for _ in range(2):
        close(wide(normalized((6, 5), "float32")), wanted, 1e-5)
    assert set(nodes(cudnn_state)) == served
    assert [c == "cudnn" for c in kernel_choice.choices().values()] == [
        node in served for node in ("batchnorm", "batchnorm_backward")
    ]


def test_a_choice_is_kept_for_the_next_process(cudnn_state, monkeypatch):
    deferred.set_mode("measure")
    timed(monkeypatch, 2.0, 1.0, 1.0, 2.0)
    normalized((6, 5), "float32")
    kernel_choice.clear()
    plans.clear()
    cudnn_state.executed.clear()
    normalized((6, 5), "float32")  # no time is left, so another measurement would fail
    assert nodes(cudnn_state) == ["batchnorm"]
    from tests.stand_in import cudnn

    monkeypatch.setattr(cudnn, "backend_version", lambda: 92900)
    kernel_choice.clear()
    with pytest.raises(IndexError):
        normalized((6, 5), "float32")


def test_what_only_one_can_do_is_no_choice_for_the_next_process(cudnn_state, monkeypatch):
    deferred.set_mode("measure")
    cudnn_state.refused = {"batchnorm", "batchnorm_backward"}
    left = timed(monkeypatch, 1.0, 1.0, 2.0, 1.0, 2.0, 1.0)
    normalized((6, 5), "float32")
    assert len(left) == 4
    cudnn_state.refused = set()
    plans.clear()
    kernel_choice.clear()
    normalized((6, 5), "float32")
    assert set(kernel_choice.choices().values()) == {"cudnn"}


@pytest.mark.parametrize("mode", ["force", "measure"])
def test_nothing_is_built_or_timed_while_a_graph_is_captured(mode, cudnn_state):
    import cupy

    deferred.set_mode(mode)
    normalized((6, 5), "float32")
    built, choices = len(cudnn_state.built), kernel_choice.choices()
    stream = cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.using_allocator(cupy.cuda.MemoryPool().malloc):
        x, scale = tk.constant(numbers(8, 5)), tk.ones((5,))
        given = {"axis": (1,), "epsilon": EPSILON}
        stream.begin_capture()
        with stream:
            fused_normalization(x, scale, scale, over_batch=True, **given)
            tk.ops.layer_normalization(x)
            with pytest.raises(UnimplementedError, match="plan of cuDNN"):
                tk.ops.conv(tk.ones((1, 4, 4, 1)), tk.ones((2, 2, 1, 1)))
        stream.end_capture()
    assert len(cudnn_state.built) == built
    assert kernel_choice.choices() == choices
    normalized((8, 5), "float32")
    assert len(cudnn_state.built) > built


def test_a_choice_holds_in_the_graph_that_is_captured(cudnn_state, monkeypatch):
    deferred.set_mode("measure")
    left = timed(monkeypatch, 2.0, 1.0, 1.0, 2.0)
    x = tk.constant(numbers(6, 5))
    layer = tk.layers.BatchNormalization()

    @tk.function
    def step(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            loss = tk.reduce_sum(y**3)
        return y, tape.gradient(loss, x)

    wanted = wide(step(x))
    assert left == []
    cudnn_state.executed.clear()
    for _ in range(7):
        close(wide(step(x)), wanted, 1e-4)
    assert "replays of 1 CUDA graph" in step.explain()
    assert set(nodes(cudnn_state)) == {"batchnorm"}


# ---------------------------------------------------------------------- the moments again


SIZES = [(1, 1), (1, 33), (31, 1), (33, 31), (1023, 3), (257, 64), (3, 9001)]


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_moments_are_those_of_the_reference(rows, columns, dtype, cudnn_state):
    import cupy

    x = tk.cast(tk.constant(numbers(rows, columns, mean=30.0)), dtype)
    exact = tk.cast(x, "float64").numpy()
    array = x._array
    for axis, found in (
        (0, norm_columns_cuda.moments(cupy, array, (1, rows, columns), EPSILON)),
        (1, norm_rows_cuda.moments(cupy, array, columns, EPSILON)),
    ):
        mean, factor = (part.get() for part in found)
        assert mean.dtype == factor.dtype == np.float32
        np.testing.assert_allclose(mean, exact.mean(axis), rtol=3e-6)
        np.testing.assert_allclose(factor, (exact.var(axis) + EPSILON) ** -0.5, rtol=3e-4)
    mean, factor = norm_rows_cuda.moments(cupy, array, columns, EPSILON, False)
    assert not mean.get().any()
    np.testing.assert_allclose(factor.get(), (np.square(exact).mean(1) + EPSILON) ** -0.5, 1e-5)
