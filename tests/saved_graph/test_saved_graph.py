"""Save, load, and the reader of numpy and h5py: same values, and hostile files refused."""

import collections
import dataclasses
import importlib.util
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trainkit as tk
from tests.attacks.documents import mutated_document, parts_of, write_parts
from trainkit.checkpoints.format.writer import Group, Values, write_file
from trainkit.saved_graph import standalone

FLOAT = tk.float32


def mlp():
    model = tk.Sequential([tk.layers.Dense(8, activation="gelu"), tk.layers.Dense(3)])
    model(np.zeros((1, 5), "float32"))
    f = tk.function(lambda x: tk.nn.softmax(model(x)), input_signature=[tk.TensorSpec([None, 5])])
    return f, [np.random.rand(4, 5).astype("float32")]


def cnn():
    layers = tk.layers
    model = tk.Sequential(
        [
            layers.Conv2D(4, 3, activation="relu", padding="same"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(2, padding="same"),
            layers.Conv2D(6, 3, strides=2, dilation_rate=1, use_bias=False),
            layers.Activation("silu"),
            layers.DepthwiseConv2D(2, padding="same"),
            layers.AveragePooling2D(2, padding="same"),
            layers.Dropout(0.5),
            layers.LayerNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    model(np.random.rand(2, 9, 9, 3).astype("float32"), training=True)
    f = tk.function(
        lambda x: {"p": model(x, training=False), "name": "cnn"},
        input_signature=[tk.TensorSpec([None, 9, 9, 3])],
    )
    return f, [np.random.rand(2, 9, 9, 3).astype("float32")]


def text_model():
    layers = tk.layers
    model = tk.Sequential(
        [
            layers.Embedding(11, 4),
            layers.LSTM(5, return_sequences=True),
            layers.GRU(3),
            layers.Dense(2, activation="tanh"),
        ]
    )
    model(np.zeros((1, 6), "int32"))
    f = tk.function(model, input_signature=[tk.TensorSpec([None, 6], tk.int32)])
    return f, [np.random.randint(0, 11, (3, 6)).astype("int32")]


def loops():
    w = tk.Variable(np.random.rand(4, 4).astype("float32"), name="w")
    count = tk.Variable(0, name="count", trainable=False)

    @tk.function(input_signature=[tk.TensorSpec([None, 4]), tk.TensorSpec([], tk.int32)])
    def f(xs, n):
        h = tk.zeros([1, 4])
        for x in xs:
            if tk.reduce_sum(x) > 2.0:
                h = tk.tanh(x + h @ w)
            else:
                h = h * 0.5
        seen = tk.TensorArray(FLOAT, size=n)
        i = tk.constant(0)
        while i < n:
            seen = seen.write(i, h[0] * tk.cast(i, FLOAT))
            i += 1
        count.assign_add(n)
        return h, [seen.stack(), (count + 0,)]

    return f, [np.random.rand(5, 4).astype("float32"), np.int32(3)]


def shapes():
    @tk.function(input_signature=[tk.TensorSpec([None, 6])])
    def f(x):
        a, b, c = tk.split(x, 3, axis=1)
        n = tk.shape(x)[0]
        parts = [
            tk.reshape(tk.transpose(tk.concat([a, c], 1)), [n, -1]),
            tk.pad(b, [[0, 0], [1, 1]])[:, ::-1][:, None, 1:],
            tk.one_hot(tk.argmax(x, 1), 6),
            tk.gather(x, [0, 2], axis=1) + tk.tile(a[:, :1], [1, 2]),
            tk.math.top_k(x, 2)[0],
            tk.cumsum(x, axis=1, exclusive=True),
            tk.where(x > 0.5, x, -x),
            tk.clip_by_value(x, 0.2, 0.8),
            tk.reduce_logsumexp(x, axis=1, keepdims=True),
            tk.cast(tk.reduce_any(x > 0.9, axis=0), tk.int32),
            tk.fill([n, 2], 3.0),
            tk.einsum("ij,ik->jk", a, c),
            tk.nn.elu(x) + tk.math.erf(x) + tk.nn.leaky_relu(x - 0.5) + tk.nn.log_softmax(x),
        ]
        return parts

    return f, [np.random.rand(4, 6).astype("float32")]


MAKERS = [mlp, cnn, text_model, loops, shapes]


def flat(result):
    return [y for y in tk.nest.flatten(result)]


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_a_loaded_graph_gives_the_same_bits(make, tmp_path):
    f, arrays = make()
    tk.saved_graph.save(f, tmp_path / "f.h5")
    g = tk.saved_graph.load(tmp_path / "f.h5")
    tensors = [tk.constant(a) for a in arrays]
    for a, b in zip(flat(f(*tensors)), flat(g(*tensors)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert [v.name for v in g.variables] or make is shapes


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_the_standalone_reader_agrees_to_rounding(make, tmp_path):
    f, arrays = make()
    tk.saved_graph.save(f, tmp_path / "f.h5")
    g = standalone.load(tmp_path / "f.h5")
    for a, b in zip(flat(f(*map(tk.constant, arrays))), flat(g(*arrays)), strict=True):
        if a.dtype == tk.string:
            assert a.numpy().decode() == b
        else:
            assert b.dtype == a.numpy().dtype
            np.testing.assert_allclose(b, a.numpy(), rtol=2e-5, atol=2e-6)


def test_the_standalone_reader_runs_where_trainkit_is_not(tmp_path):
    f, arrays = mlp()
    tk.saved_graph.save(f, tmp_path / "f.h5")
    np.save(tmp_path / "x.npy", arrays[0])
    shutil.copy(standalone.__file__, tmp_path / "reader.py")
    script = (
        "import sys, numpy as np\n"
        "sys.modules['trainkit'] = None\n"
        "from reader import load\n"
        "np.save('y.npy', load('f.h5')(np.load('x.npy')))\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('trainkit', 'numba', "
        "'ml_dtypes')"
        " and sys.modules[m]]\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    expected = f(tk.constant(arrays[0])).numpy()
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5)
    listed = subprocess.run(
        [sys.executable, "reader.py", "f.h5"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "float32[5, 8]" in listed.stdout


def test_a_loaded_graph_trains_on(tmp_path):
    f, arrays = loops()
    tk.saved_graph.save(f, tmp_path / "f.h5")
    g = tk.saved_graph.load(tmp_path / "f.h5")
    xs, n = map(tk.constant, arrays)

    def slopes(function, variables):
        with tk.GradientTape() as tape:
            y = tk.reduce_sum(function(xs, n)[0])
        return tape.gradient(y, [v for v in variables if v.trainable])

    ours = slopes(f, f.get_concrete_function().variables)
    theirs = slopes(g, g.variables)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    assert int(next(v for v in g.variables if not v.trainable)) == 3


def test_variables_of_a_loaded_graph_are_its_own(tmp_path):
    v = tk.Variable(2.0, name="scale")
    f = tk.function(lambda x: x * v)
    f(tk.constant(1.0))
    tk.saved_graph.save(f, tmp_path / "f.h5")
    v.assign(5.0)
    g, h = (tk.saved_graph.load(tmp_path / "f.h5") for _ in range(2))
    g.variables[0].assign(3.0)
    assert [float(y(tk.constant(1.0))) for y in (f, g, h)] == [5.0, 3.0, 2.0]
    assert g.variables[0].name == "scale:0"


def test_assigned_variables_are_kept_by_the_standalone_reader(tmp_path):
    f, arrays = loops()
    tk.saved_graph.save(f, tmp_path / "f.h5")
    g = standalone.load(tmp_path / "f.h5")
    g(*arrays)
    g(*arrays)
    assert [int(v) for name, v in g.variables.items() if "count" in name] == [6]


def test_bfloat16_weights_and_constants(tmp_path):
    v = tk.Variable(tk.cast([1.5, 2.5], "bfloat16"))
    f = tk.function(lambda x: x * tk.cast(v, FLOAT))
    tk.saved_graph.save(f, tmp_path / "f.h5", tk.TensorSpec([2]))
    g = tk.saved_graph.load(tmp_path / "f.h5")
    assert g.variables[0].dtype == tk.bfloat16
    assert g(tk.ones([2])).numpy().tolist() == [1.5, 2.5]
    assert standalone.load(tmp_path / "f.h5")(np.ones(2)).tolist() == [1.5, 2.5]


def test_the_signature_is_kept(tmp_path):
    f = tk.function(lambda x, scale=2.0: {"y": [x * scale]})
    tk.saved_graph.save(f, tmp_path / "f.h5", tk.TensorSpec([None], FLOAT), scale=3.0)
    g = tk.saved_graph.load(tmp_path / "f.h5")
    assert "x: float32 Tensor, shape=(None,)" in str(g)
    assert g(x=tk.ones([2]))["y"][0].numpy().tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="given is shape"):
        g(tk.ones([2, 2]))
    with pytest.raises(ValueError, match="needs shape"):
        standalone.load(tmp_path / "f.h5")(np.ones((2, 2)))
    with pytest.raises(TypeError, match="takes 1 arrays"):
        standalone.load(tmp_path / "f.h5")()


def test_an_assertion_is_checked_after_loading(tmp_path):
    @tk.function
    def f(x):
        tk.debugging.assert_positive(x)
        return x

    tk.saved_graph.save(f, tmp_path / "f.h5", tk.TensorSpec([], FLOAT))
    for g in (tk.saved_graph.load(tmp_path / "f.h5"), standalone.load(tmp_path / "f.h5")):
        assert float(g(tk.constant(1.0) if g is not standalone else 1.0)) == 1.0
        with pytest.raises(ValueError, match="assert_positive"):
            g(tk.constant(-1.0))


# ---------------------------------------------------------------------- what can't be saved


def test_a_function_that_was_not_traced_or_traced_often_needs_arguments(tmp_path):
    f = tk.function(lambda x: x)
    with pytest.raises(tk.errors.InvalidArgumentError, match="0 traces; give arguments"):
        tk.saved_graph.save(f, tmp_path / "f.h5")
    f(tk.constant(1.0))
    f(tk.constant([1.0]))
    with pytest.raises(tk.errors.InvalidArgumentError, match="2 traces"):
        tk.saved_graph.save(f, tmp_path / "f.h5")
    with pytest.raises(TypeError, match="no traced function"):
        tk.saved_graph.save(lambda x: x, tmp_path / "f.h5")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda x: tk.print(x, output_stream="file:///tmp/out"), "a print goes to 'file:"),
        (lambda x: tk.numpy_function(np.sin, [x], FLOAT), r"\(host_call\)"),
    ],
)
def test_what_is_no_data_is_not_saved_and_leaves_no_file(body, text, tmp_path):
    f = tk.function(lambda x: (x, body(x)))
    with pytest.raises(tk.errors.UnimplementedError, match=text):
        tk.saved_graph.save(f, tmp_path / "f.h5", tk.constant(1.0))
    assert list(tmp_path.iterdir()) == []


def test_a_loop_over_a_dataset_is_not_saved(tmp_path):
    data = tk.data.Dataset.range(3)

    @tk.function
    def f(x):
        for i in data:
            x += tk.cast(i, FLOAT)
        return x

    with pytest.raises(tk.errors.UnimplementedError, match="for_each"):
        tk.saved_graph.save(f, tmp_path / "f.h5", tk.constant(1.0))


def test_prints_are_saved(tmp_path, capsys):
    def f(x):
        tk.print("x is", x, {"both": [x, "a"]}, sep="|", end="!", output_stream=sys.stdout)
        tk.print("to stderr", x)
        return x * 2.0

    path = tmp_path / "f.h5"
    tk.saved_graph.save(tk.function(f), path, tk.TensorSpec([2], FLOAT))
    for load in (tk.saved_graph.load, standalone.load):
        loaded = load(path)
        assert capsys.readouterr() == ("", "")
        loaded(np.ones(2, "float32"))
        out, err = capsys.readouterr()
        assert out.startswith("x is|[1")
        assert out.endswith("!")
        assert err.startswith("to stderr [1")


@pytest.mark.parametrize(
    "change",
    [
        lambda t: ["tuple", [*t["tuple"][:3], "file:///tmp/out", 3]],
        lambda t: ["tuple", [{"tuple": []}, *t["tuple"][1:]]],
        lambda t: ["list", t["tuple"]],
    ],
)
def test_a_print_of_a_hostile_file_is_refused(change, tmp_path, monkeypatch):
    from trainkit.saved_graph import saving

    def changed(self, template, known=saving.GraphWriter._template):
        kind, content = change(known(self, template))
        return {kind: content}

    monkeypatch.setattr(saving.GraphWriter, "_template", changed)
    tk.saved_graph.save(
        tk.function(lambda x: tk.print("x", x)), tmp_path / "f.h5", tk.constant(1.0)
    )
    with pytest.raises(tk.errors.CheckpointError, match="refused"):
        tk.saved_graph.load(tmp_path / "f.h5")


# ---------------------------------------------------------------------- hostile files


def write(path, change=lambda document: None, values=None, root=None):
    """A small saved graph, with its document changed before it is written."""
    spec = [[2], "float32"]
    document = {
        "name": "f",
        "labels": ["x"],
        "arguments": None,
        "results": {"tensor": 0},
        "graphs": [
            {
                "name": "f",
                "nodes": [
                    {"kind": "input", "name": "x", "specs": [spec]},
                    {"kind": "variable", "name": "v", "specs": [spec], "variable": 0},
                    {
                        "kind": "op",
                        "name": "Mul",
                        "specs": [spec],
                        "op": "multiply",
                        "many": False,
                        "inputs": [{"tensor": [0, 0]}, {"tensor": [1, 0]}],
                        "settings": {},
                    },
                ],
                "inputs": [0],
                "outputs": [[2, 0]],
                "assigned": [],
            }
        ],
        "main": 0,
        "variables": [{"name": "v", "trainable": True, "value": 0, "spec": spec}],
    }
    change(document)
    text = np.frombuffer(json.dumps(document).encode(), np.uint8)
    values = values or [np.array([2.0, 3.0], "float32")]
    entries = [Values("graph", lambda: text), Group("values", {})]
    entries += [Values(f"values/{i}", lambda a=a: a) for i, a in enumerate(values)]
    attributes = {"format": "trainkit-graph", "version": "1", "manifest": "{}"}
    write_file(path, entries, attributes | (root or {}))


def op(document):
    return document["graphs"][0]["nodes"][2]


def replaced(**changes):
    return lambda document: op(document).update(changes)


HOSTILE = {
    "unknown operation": (replaced(op="os.system"), "os.system"),
    "effect": (
        lambda d: (
            replaced(op="print", many=True, specs=[], settings={"template": "x"})(d),
            d["graphs"][0].update(outputs=[[1, 0]]),
        ),
        "more than compute|print",
    ),
    "python call": (replaced(op="host_call", settings={"function": "x"}), ""),
    "forward reference": (replaced(inputs=[{"tensor": [2, 0]}, {"tensor": [1, 0]}]), ""),
    "negative reference": (replaced(inputs=[{"tensor": [-1, 0]}, {"tensor": [1, 0]}]), "no place"),
    "wrong shape": (replaced(specs=[[[3], "float32"]]), "would be|"),
    "wrong dtype": (replaced(specs=[[[2], "object"]]), ""),
    "setting of an unknown kind": (replaced(settings={"a": {"code": "1"}}), "code"),
    "unknown setting": (replaced(settings={"out": 3}), ""),
    "unknown kind of node": (lambda d: d["graphs"][0]["nodes"][0].update(kind="eval"), "eval"),
    "missing value": (lambda d: d["variables"][0].update(value=7), "7|missing"),
    "path as value": (lambda d: d["variables"][0].update(value="../graph"), "value is"),
    "input that is none": (lambda d: d["graphs"][0].update(inputs=[1]), "input"),
    "no output": (lambda d: d["graphs"][0].update(outputs=[[9, 0]]), ""),
    "main out of range": (lambda d: d.update(main=4), ""),
    "missing key": (lambda d: d.pop("graphs"), "graphs"),
    "deep nest": (
        lambda d: d.update(results=json.loads('{"list":[' * 200 + "1" + "]}" * 200)),
        "deep",
    ),
    "endless counting": (
        replaced(
            op="unstack",
            many=True,
            inputs=[{"tensor": [0, 0]}],
            settings={"axis": 0, "num": 10**15},
        ),
        "num|",
    ),
}


def test_the_file_that_is_made_hostile_is_fine_before(tmp_path):
    write(tmp_path / "f.h5")
    g = tk.saved_graph.load(tmp_path / "f.h5")
    assert g(tk.constant([1.0, 1.0])).numpy().tolist() == [2.0, 3.0]
    assert standalone.load(tmp_path / "f.h5")(np.ones(2)).tolist() == [2.0, 3.0]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_graphs_are_refused(name, tmp_path):
    change, text = HOSTILE[name]
    write(tmp_path / "f.h5", change)
    with pytest.raises(tk.errors.CheckpointError, match=text or "refused"):
        tk.saved_graph.load(tmp_path / "f.h5")


@pytest.mark.parametrize("name", HOSTILE)
def test_the_standalone_reader_refuses_them_too(name, tmp_path):
    change, _ = HOSTILE[name]
    write(tmp_path / "f.h5", change)

    def run():  # NumPy works out shapes when it runs; all else is refused before
        standalone.load(tmp_path / "f.h5")(np.ones(2))

    with pytest.raises(standalone.GraphError):
        run()


@pytest.mark.parametrize(
    ("root", "text"),
    [({"format": "trainkit"}, "no saved graph"), ({"version": "9"}, "version '9'")],
)
def test_other_files_are_refused(root, text, tmp_path):
    write(tmp_path / "f.h5", root=root)
    with pytest.raises(tk.errors.CheckpointError, match=text):
        tk.saved_graph.load(tmp_path / "f.h5")
    with pytest.raises(standalone.GraphError, match="no saved graph"):
        standalone.load(tmp_path / "f.h5")


def test_a_flipped_bit_is_found(tmp_path):
    f, _ = mlp()
    path = tmp_path / "f.h5"
    tk.saved_graph.save(f, path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(tk.errors.CheckpointError):
        tk.saved_graph.load(path)
    with pytest.raises(tk.errors.NotFoundError):
        tk.saved_graph.load(tmp_path / "missing.h5")


@pytest.mark.parametrize("name", ["graph", "values", "values/0"])
@pytest.mark.parametrize("kind", ["external", "soft"])
def test_links_are_refused_by_both_readers(name, kind, tmp_path):
    import h5py

    write(tmp_path / "other.h5")
    with h5py.File(tmp_path / "other.h5") as other, h5py.File(tmp_path / "f.h5", "w") as file:
        file.attrs["format"], file.attrs["version"] = "trainkit-graph", "1"
        for there in ("graph", "values"):
            other.copy(there, file)
        del file[name]
        outside = h5py.ExternalLink(tmp_path / "other.h5", "/" + name)
        file[name] = outside if kind == "external" else h5py.SoftLink("/graph")
    with pytest.raises(standalone.GraphError, match="a link to somewhere else"):
        standalone.load(tmp_path / "f.h5")
    with pytest.raises(tk.errors.CheckpointError):
        tk.saved_graph.load(tmp_path / "f.h5")


@pytest.mark.parametrize("size", [0, 10, 100, 3000])
def test_the_standalone_reader_refuses_damaged_files_by_its_own_error(size, tmp_path):
    write(tmp_path / "f.h5")
    (tmp_path / "f.h5").write_bytes((tmp_path / "f.h5").read_bytes()[:size])
    with pytest.raises(standalone.GraphError):
        standalone.load(tmp_path / "f.h5")
    with pytest.raises(FileNotFoundError):
        standalone.load(tmp_path / "missing.h5")


def test_compressed_values_are_refused_by_both_readers(tmp_path):
    import h5py

    write(tmp_path / "f.h5")
    with h5py.File(tmp_path / "f.h5") as file, h5py.File(tmp_path / "g.h5", "w") as other:
        other.attrs["format"], other.attrs["version"] = "trainkit-graph", "1"
        file.copy("graph", other)
        other.create_dataset("values/0", data=np.zeros(1 << 20, "float32"), compression="gzip")
    with pytest.raises(standalone.GraphError, match="compressed"):
        standalone.load(tmp_path / "g.h5")
    with pytest.raises(tk.errors.CheckpointError):
        tk.saved_graph.load(tmp_path / "g.h5")


@pytest.mark.parametrize("make", [mlp, loops])
def test_both_readers_run_and_refuse_the_same_documents(make, tmp_path):
    f, arrays = make()[:2]
    tk.saved_graph.save(f, tmp_path / "f.h5")
    document, values = parts_of(tmp_path / "f.h5")
    random_, ran = random.Random(make.__name__), 0
    for _ in range(60):
        mutant = mutated_document(document, random_)
        write_parts(tmp_path / "m.h5", mutant, values)
        told = outcome(lambda: tk.saved_graph.load(tmp_path / "m.h5"), map(tk.constant, arrays))
        other = outcome(lambda: standalone.load(tmp_path / "m.h5"), arrays)
        assert (told is None) == (other is None), mutant
        ran += told is not None
    assert 0 < ran < 30


def outcome(load, arrays):
    """What a graph gives, `None` where it is refused, or the call is."""
    try:
        graph = load()
    except (tk.errors.CheckpointError, standalone.GraphError):
        return None
    try:
        return graph(*arrays)
    except (tk.errors.OpError, TypeError, ValueError):  # other inputs than before, or no result
        return None


def test_the_reader_has_a_body_for_what_inference_needs():
    """The table grows with the library: every element-wise operation of one result is in it."""
    assert importlib.util.find_spec("h5py")
    needed = {"dense", "conv", "max_pool", "softmax", "lstm", "gru", "cond", "while_loop", "take"}
    assert needed <= set(standalone.OPERATIONS)
    assert Path(standalone.__file__).read_text().count("import trainkit") == 0


Point = collections.namedtuple("Point", "y x")


@dataclasses.dataclass
class Scores:
    total: object
    best: object


STRUCTURES = {
    "dict": lambda x: {"price": x, "kind": x + 1.0},
    "ordered": lambda x: collections.OrderedDict([("price", x), ("kind", x + 1.0)]),
    "nested": lambda x: (x, [x + 1.0, {"b": x + 2.0, "a": (x + 3.0, None)}]),
    "named": lambda x: {"z": Point(x, x + 1.0), "a": [Point([x + 2.0], x + 3.0)]},
    "record": lambda x: Scores(x, {"b": x + 1.0, "a": x + 2.0}),
    "numbers": lambda x: {2: x, 1: x + 1.0, 0.5: x + 2.0},
}


def seen(x):
    """Values by their place in the structure, in its own order."""
    if isinstance(x, dict):
        return [(key, seen(item)) for key, item in x.items()]
    fields = getattr(x, "_fields", ("total", "best") if hasattr(x, "best") else ())
    if fields:
        return [(name, seen(getattr(x, name))) for name in fields]
    if isinstance(x, list | tuple):
        return (type(x), [seen(item) for item in x])
    return None if x is None else float(x)


@pytest.mark.parametrize("name", STRUCTURES)
def test_results_keep_their_places_in_nested_structures(name, tmp_path):
    f = tk.function(STRUCTURES[name])
    concrete = f.get_concrete_function(tk.TensorSpec([], "float32"))
    tk.saved_graph.save(concrete, tmp_path / "f.h5")
    expected = seen(STRUCTURES[name](tk.constant(5.0)))
    loaded = tk.saved_graph.load(tmp_path / "f.h5")
    assert seen(concrete(tk.constant(5.0))) == expected
    assert seen(loaded(tk.constant(5.0))) == expected
    assert seen(standalone.load(tmp_path / "f.h5")(np.float32(5.0))) == expected


@pytest.mark.parametrize("order", [("b", "a"), ("a", "b")])
def test_arguments_of_a_loaded_graph_go_by_their_keys(order, tmp_path):
    spec = tk.TensorSpec([], "float32")
    f = tk.function(lambda d, *, z, y=1.0: d["b"] * 10.0 + d["a"] + z * 100.0 * y)
    tk.saved_graph.save(f.get_concrete_function({"b": spec, "a": spec}, z=spec), tmp_path / "f.h5")
    values = {"b": tk.constant(1.0), "a": tk.constant(2.0)}
    loaded = tk.saved_graph.load(tmp_path / "f.h5")
    assert float(loaded({key: values[key] for key in order}, z=tk.constant(3.0))) == 312.0
