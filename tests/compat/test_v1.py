"""Graphs and sessions of version 1 on the same graphs."""

import numpy as np
import pytest

import trainkit as tk

v1 = tk.compat.v1


def test_placeholders_are_fed_and_fetches_keep_their_structure():
    with v1.Graph().as_default():
        x = v1.placeholder(tk.float32, [None, 2], name="x")
        total = tk.reduce_sum(x, axis=1)
        with v1.Session() as session:
            got = session.run({"total": total, "both": [x, total]}, {x: [[1.0, 2.0], [3.0, 4.0]]})
    assert got["total"].tolist() == [3.0, 7.0]
    assert got["both"][0].shape == (2, 2)


@pytest.mark.parametrize(
    ("feed", "text"),
    [({}, "feed_dict has no value for it"), ({"x": np.ones((2, 3))}, r"fed with \(2, 3\)")],
)
def test_a_placeholder_that_is_not_fed_or_fed_wrongly(feed, text):
    with v1.Graph().as_default():
        x = v1.placeholder(tk.float32, [None, 2])
        y = x * 2.0
        with pytest.raises(tk.errors.InvalidArgumentError, match=text):
            v1.Session().run(y, dict.fromkeys([x] * len(feed), *feed.values()))


def test_only_what_a_fetch_needs_is_fed():
    with v1.Graph().as_default():
        a, b = v1.placeholder(tk.float32, []), v1.placeholder(tk.float32, [])
        double, _ = a * 2.0, b * 3.0
        assert v1.Session().run(double, {a: 4.0}) == 8.0


def test_scopes_name_variables_and_decide_on_reuse():
    with v1.Graph().as_default():
        with v1.variable_scope("outer"), v1.variable_scope("inner"):
            w = v1.get_variable("w", [2])
            with pytest.raises(ValueError, match="'outer/inner/w' exists already"):
                v1.get_variable("w", [2])
        with v1.variable_scope("outer", reuse=v1.AUTO_REUSE), v1.variable_scope("inner"):
            assert v1.get_variable("w", [2]) is w
        with v1.variable_scope("other", reuse=True):
            with pytest.raises(ValueError, match="reuse=True makes none"):
                v1.get_variable("w", [2])
    assert w.name == "outer/inner/w:0"


def test_variables_are_initialized_assigned_and_seen_by_eager_code():
    with v1.Graph().as_default():
        w = v1.get_variable("w", initializer=tk.constant([1.0, 2.0]))
        x = v1.placeholder(tk.float32, [2])
        step = v1.assign(w, w + x)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(step, {x: [1.0, 1.0]})
            assert session.run(w).tolist() == [2.0, 3.0]
            assert session.run(w * x, {x: [2.0, 2.0]}).tolist() == [4.0, 6.0]
            session.run(v1.global_variables_initializer())
            assert session.run(w).tolist() == [1.0, 2.0]
    assert w.numpy().tolist() == [1.0, 2.0]


def test_a_checkpoint_moves_from_a_session_to_eager_code(tmp_path):
    with v1.Graph().as_default():
        w = v1.get_variable("w", initializer=tk.constant([1.0, 2.0]))
        v1.Session().run(v1.assign(w, w * 3.0))
    path = tk.train.Checkpoint(w=w).save(str(tmp_path / "run"))
    eager = tk.Variable([0.0, 0.0])
    tk.train.Checkpoint(w=eager).restore(path).assert_consumed()
    assert eager.numpy().tolist() == [3.0, 6.0]


def test_regularizers_are_collected():
    with v1.Graph().as_default():
        v1.get_variable("w", initializer=tk.constant([1.0, 2.0]), regularizer=tk.reduce_sum)
        (loss,) = v1.get_regularization_losses()
        assert v1.Session().run(loss) == 3.0


def test_errors_of_sessions_and_graphs():
    with pytest.raises(RuntimeError, match="no default graph"):
        v1.placeholder(tk.float32, [2])
    with v1.Graph().as_default():
        session = v1.Session()
        with pytest.raises(TypeError, match="can't fetch 3"):
            session.run(3)
        with pytest.raises(ValueError, match="give a shape"):
            v1.placeholder(tk.float32)
        with pytest.raises(tk.errors.InvalidArgumentError, match="only sessions of this process"):
            v1.Session("grpc://elsewhere")
        session.close()
        with pytest.raises(RuntimeError, match="the session is closed"):
            session.run([])


def test_other_names_are_those_of_the_library():
    assert v1.reduce_sum is tk.reduce_sum
    assert v1.lgamma is tk.math.lgamma
    assert v1.matrix_inverse is tk.linalg.inv


def test_assignments_outside_of_graphs_are_done_at_once():
    w = tk.Variable([1.0, 2.0])
    assert v1.assign(w, [3.0, 4.0]).numpy().tolist() == [3.0, 4.0]
    v1.assign_add(w, [1.0, 1.0])

    @tk.function
    def lowered():
        v1.assign_sub(w, [2.0, 2.0])

    lowered()
    assert w.numpy().tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="leave validate_shape out"):
        v1.assign(w, [1.0], validate_shape=False)


def test_additions_of_a_graph_are_run_by_its_session():
    with v1.Graph().as_default():
        w = v1.get_variable("w", initializer=tk.constant(1.0))
        frozen = v1.get_variable("frozen", initializer=tk.constant(2.0), trainable=False)
        assert v1.global_variables() == [w, frozen]
        assert v1.trainable_variables() == [w]
        x = v1.placeholder(tk.float32, [])
        more, fewer = v1.assign_add(w, x * 2.0), v1.assign_sub(w, 1.0)
        with v1.Session() as session:
            session.run([v1.tables_initializer(), v1.local_variables_initializer()])
            assert session.run(more, {x: 3.0}) == 7.0
            assert session.run(fewer) == 6.0
            session.run(v1.variables_initializer([w]))
            assert session.run(w) == 1.0
        with pytest.raises(tk.errors.FailedPreconditionError, match="make a new one"):
            v1.reset_default_graph()
        assert not v1.executing_eagerly_outside_functions()
    v1.reset_default_graph()
    assert v1.executing_eagerly_outside_functions()


CASTS = {
    "bfloat16": "bfloat16",
    "complex64": "complex64",
    "complex128": "complex128",
    "double": "float64",
    "float": "float32",
    "int32": "int32",
    "int64": "int64",
}


@pytest.mark.parametrize("name", CASTS)
def test_casts_to_one_type(name):
    y = getattr(v1, f"to_{name}")(tk.constant([1, 2]), name="n")
    assert y.dtype.name == CASTS[name]


def test_functions_of_version_1():
    assert v1.div(7, 2).numpy() == 3
    assert v1.div(tk.constant([-7.0]), 2).numpy().tolist() == [-3.5]
    assert v1.batch_gather([[1, 2], [3, 4]], [[1], [0]]).numpy().tolist() == [[2], [3]]
    assert v1.count_nonzero([[0, 1], [2, 3]], reduction_indices=1, keep_dims=True).shape == (2, 1)
    with pytest.raises(ValueError, match="give input_tensor"):
        v1.count_nonzero()
    assert float(v1.py_func(lambda x: x + 1, [tk.constant(1.0)], tk.float32)) == 2.0
    v1.set_random_seed(3)
    first = tk.random.normal([2])
    tk.random.set_seed(3)
    np.testing.assert_array_equal(first, tk.random.normal([2]))
    v1.enable_resource_variables()
    assert v1.resource_variables_enabled()
    assert v1.control_flow_v2_enabled()


def test_messages_go_to_the_log_of_the_package(caplog):
    before = v1.logging.get_verbosity()
    v1.logging.set_verbosity(v1.logging.INFO)
    try:
        v1.logging.debug("hidden")
        v1.logging.info("step %d", 3)
        for _ in range(5):
            v1.logging.log_every_n(v1.logging.WARN, "every", 2)
            v1.logging.log_first_n(v1.logging.ERROR, "first", 2)
        v1.logging.log_if(v1.logging.ERROR, "unmet", False)
        v1.logging.vlog(0, "low")
        v1.logging.flush()
    finally:
        v1.logging.set_verbosity(before)
    texts = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "trainkit"]
    assert texts.count(("WARNING", "every")) == 3
    assert texts.count(("ERROR", "first")) == 2
    assert [t for t in texts if t[1] not in ("every", "first")] == [
        ("INFO", "step 3"),
        ("INFO", "low"),
    ]


def test_files_by_the_names_of_version_1(tmp_path):
    folder = str(tmp_path / "a" / "b")
    v1.gfile.MakeDirs(folder)
    with v1.gfile.Open(folder + "/x.txt", "w") as file:
        file.write("text")
    assert v1.gfile.ListDirectory(folder) == ["x.txt"]
    v1.gfile.DeleteRecursively(folder)
    assert not v1.gfile.Exists(folder)


def test_shapes_and_types_of_data_are_nested_as_its_elements():
    texts = tk.data.Dataset.from_generator(lambda: iter([[1], [2, 3]]), tk.int32, (None,))
    dataset = tk.data.Dataset.zip((texts, tk.data.Dataset.range(2)))
    assert v1.data.get_output_types(dataset) == (tk.int32, tk.int64)
    assert v1.data.get_output_classes(dataset) == (tk.Tensor, tk.Tensor)
    shapes = v1.data.get_output_shapes(iter(dataset))
    assert shapes == (tk.TensorShape([None]), tk.TensorShape([]))
    (x, y), *_ = dataset.padded_batch(2, shapes)
    assert (x.numpy().tolist(), y.numpy().tolist()) == ([[1, 0], [2, 3]], [0, 1])
    assert v1.data.Dataset is tk.data.Dataset
    assert {"Dataset", "get_output_shapes"} <= set(dir(v1.data))


def test_dropout_takes_what_is_kept():
    x = tk.ones([10_000])
    for result in (v1.nn.dropout(x, 0.9), v1.nn.dropout(x, rate=0.1)):
        assert 0.85 < float(tk.reduce_mean(tk.cast(result > 0, "float32"))) < 0.95
        assert float(tk.reduce_max(result)) == pytest.approx(1 / 0.9)
    for arguments in ((), (0.9, None, None, None, 0.1)):
        with pytest.raises(ValueError, match="one of keep_prob and rate"):
            v1.nn.dropout(x, *arguments)
    assert v1.nn.relu is tk.nn.relu


@pytest.mark.parametrize("space", [v1, v1.initializers])
def test_initializers_have_the_defaults_of_version_1(space):
    ending = "_initializer" if space is v1 else ""
    normal = getattr(space, "random_normal" + ending)()([20_000]).numpy()
    assert (normal.std(), abs(normal.mean())) == pytest.approx((1.0, 0.0), abs=0.05)
    truncated = getattr(space, "truncated_normal" + ending)()([20_000]).numpy()
    assert 1.5 < abs(truncated).max() <= 2.0
    uniform = getattr(space, "random_uniform" + ending)
    values = uniform()([20_000]).numpy()
    assert 0 <= values.min() < 0.01 < 0.99 < values.max() < 1
    assert 2.9 < uniform(-1, 3)([20_000]).numpy().max() < 3
    with pytest.raises(
        ValueError, match="dtype 'float64' is not supported; get_variable takes one"
    ):
        uniform(dtype="float64")
    assert v1.initializers.Zeros is tk.initializers.Zeros


def test_an_initializer_is_made_again_from_its_configuration():
    initializer = v1.random_normal_initializer(1.0, 2.0, 3)
    again = type(initializer).from_config(initializer.get_config())
    assert again([4]).numpy().tolist() == initializer([4]).numpy().tolist()


@pytest.mark.parametrize(
    ("space", "name", "advice"),
    [
        (v1, "losses", "use tk.losses"),
        (v1, "metrics", "use tk.metrics"),
        (v1, "summary", "takes a step"),
        (v1.image, "resize", "use tk.image.resize"),
        (v1.math, "in_top_k", "use tk.math.in_top_k"),
        (v1.nn, "in_top_k", "use tk.math.in_top_k"),
        (v1.random, "poisson", "use tk.random.poisson"),
    ],
)
def test_a_name_that_means_something_else_by_now_is_left_out(space, name, advice):
    with pytest.raises(AttributeError, match=advice):
        getattr(space, name)
    assert name not in dir(space)


def test_methods_of_variables_give_operations_that_a_session_runs():
    with v1.Graph().as_default():
        w = tk.Variable([1.0, 2.0])
        x = v1.placeholder(tk.float32, [2])
        more, fewer, new = w.assign_add(x), w.assign_sub([1.0, 1.0]), w.assign([7.0, 8.0])
        row = w.scatter_nd_update([[1]], [5.0])
        total = tk.reduce_sum(w)
        with v1.Session() as session:
            assert session.run([w, total])[1] == 3.0
            assert session.run(more, {x: [1.0, 3.0]}).tolist() == [2.0, 5.0]
            assert session.run(total) == 7.0
            assert session.run(fewer).tolist() == [1.0, 4.0]
            session.run(tk.group(fewer, fewer))
            assert session.run(w).tolist() == [0.0, 3.0]  # each operation of a run is run once
            assert session.run(row).tolist() == [0.0, 5.0]
            assert session.run(new).tolist() == [7.0, 8.0]
            assert session.run(total) == 15.0
        assert v1.Session().run(tk.group(total)) is None
    assert w.numpy().tolist() == [7.0, 8.0]


def test_what_nobody_would_run_in_a_graph_of_version_1_is_refused():
    with v1.Graph().as_default():
        w = tk.Variable(1.0)
        step = w.assign_add(1.0)
        (total,) = tk.tuple([w + 1.0], [tk.group(step)])
        assert v1.Session().run(total) == 2.0
        assert float(w.numpy()) == 2.0
        with pytest.raises(tk.errors.UnimplementedError, match=r"one of tk\.compat\.v1\.train"):
            tk.optimizers.SGD(0.1).apply_gradients([(w * 2.0, w)])


def test_a_count_that_a_method_assigns_moves_when_the_operation_is_run():
    with v1.Graph().as_default():
        count = tk.Variable(0, trainable=False)
        more = v1.assign_add(count, 1)
        with v1.Session() as session:
            assert session.run(count) == 0
            assert session.run([more, more]) == [1, 1]
            step = count.assign_add(1)
            assert session.run([count, count + 1]) == [1, 2]
            assert session.run(step) == 2
            assert session.run(count) == 2
    assert int(count) == 2


def test_assertions_stand_beside_the_rest():
    assert v1.assert_near is tk.debugging.assert_near
    v1.assert_rank_in(tk.ones((2,)), [1, 2])
    with pytest.raises(tk.errors.InvalidArgumentError):
        v1.assert_positive(tk.constant([1.0, -1.0]))
