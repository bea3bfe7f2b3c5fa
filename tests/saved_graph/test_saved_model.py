"""`tk.saved_model`: objects come back without their source, whole, trainable, and harmless."""

import collections
import json
import random
from pathlib import Path

import numpy as np
import pytest

import trainkit as tk
from tests.attacks.documents import mutated_document, parts_of, write_parts
from trainkit.saved_graph import standalone

FILE = "saved_model.h5"


class Scale(tk.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = tk.Variable(factor)
        self.steps = tk.Variable(0, trainable=False)
        self.sizes = [1, 2]

    @tk.function
    def __call__(self, x, plus=None, times=True):
        y = x * self.factor if times else x
        return y if plus is None else y + plus

    @tk.function(input_signature=[tk.TensorSpec([])])
    def change(self, value):
        self.factor.assign(value)

    def plain(self, x):
        return x


class Nested(tk.Module):
    def __init__(self):
        super().__init__()
        self.first = Scale(2.0)
        self.all = [self.first, Scale(3.0), "text"]
        self.named = {"first": self.first, "bias": tk.Variable([1.0, 2.0])}
        self.pair = (tk.Variable(5.0), 1)

    @tk.function(input_signature=[tk.TensorSpec([None, 2])])
    def total(self, x):
        for part in (self.first, self.all[1]):
            x = x * part.factor
        return {"sum": x + self.named["bias"], "steps": self.first.steps + 1}


def saved(obj, path, **kwargs):
    tk.saved_model.save(obj, path, **kwargs)
    return tk.saved_model.load(path)


def test_an_object_comes_back_with_its_functions(tmp_path):
    module = Scale(2.0)
    module(tk.constant(1.0))
    module(tk.constant(1.0), times=False)
    module(tk.ones([3]), plus=tk.ones([3]))
    again = saved(module, tmp_path / "m")
    assert float(again(tk.constant(4.0))) == 8.0
    assert float(again(4.0, times=False)) == 4.0
    assert float(again(4.0, None, False)) == 4.0
    np.testing.assert_array_equal(again(np.ones(3, "float32"), plus=tk.ones([3])), [3, 3, 3])
    again.change(tk.constant(5.0))
    assert float(again(tk.constant(4.0))) == 20.0
    assert float(module.factor) == 2.0
    assert not hasattr(again, "plain")
    assert not hasattr(again, "sizes")
    assert len(again.signatures) == 0
    assert again.factor.trainable
    assert not again.steps.trainable


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(tk.ones([2])),
        lambda f: f(tk.constant(1)),
        lambda f: f(tk.constant(1.0), times=3),
        lambda f: f(tk.constant(1.0), other=3),
        lambda f: f(),
        lambda f: f("text"),
    ],
)
def test_a_call_of_another_kind_says_what_there_is(call, tmp_path):
    module = Scale()
    module(tk.constant(1.0))
    module(tk.ones([3, 1]), times=False)
    with pytest.raises(ValueError, match="no graph for") as raised:
        call(saved(module, tmp_path / "m"))
    assert "x=float32[], plus=None, times=True" in str(raised.value)
    assert "x=float32[3, 1], plus=None, times=False" in str(raised.value)


def test_a_function_that_was_never_traced_says_so(tmp_path):
    with pytest.raises(ValueError, match="before saving"):
        saved(Scale(), tmp_path / "m")(tk.constant(1.0))


def test_the_loaded_object_can_be_trained(tmp_path):
    module = Scale()
    module(tk.constant(0.0))
    again = saved(module, tmp_path / "m")
    optimizer = tk.optimizers.SGD(0.05)
    for _ in range(30):
        with tk.GradientTape() as tape:
            loss = (10.0 - again(tk.constant(2.0))) ** 2
        assert [v is again.factor for v in tape.watched_variables()] == [True]
        grads = tape.gradient(loss, again.trainable_variables)
        optimizer.apply_gradients(zip(grads, again.trainable_variables, strict=True))
    assert float(again.factor) == pytest.approx(5.0, abs=1e-3)


def test_the_tree_keeps_sharing_and_order(tmp_path):
    module = Nested()
    again = saved(module, tmp_path / "m")
    assert again.first is again.all[0] is again.named["first"]
    assert again.all[2] is None
    assert float(again.pair[0]) == 5.0
    assert [v.name for v in again.variables] == [v.name for v in module.variables]
    assert [float(v) for v in again.first.variables] == [2.0, 0.0]
    assert len(again.trainable_variables) == len(module.trainable_variables)
    x = tk.constant([[1.0, 2.0]])
    for a, b in ((module, again), (again, saved(again, tmp_path / "twice"))):
        assert dict(a.total(x)).keys() == b.total(x).keys()
        np.testing.assert_array_equal(a.total(x)["sum"], b.total(x)["sum"])
    again.all[1].factor.assign(0.0)
    np.testing.assert_array_equal(again.total(x)["sum"], [[1.0, 2.0]])


def test_a_checkpoint_takes_the_loaded_object(tmp_path):
    again = saved(Nested(), tmp_path / "m")
    again.first.factor.assign(7.0)
    path = tk.train.Checkpoint(model=again).save(str(tmp_path / "ckpt"))
    other = tk.saved_model.load(tmp_path / "m")
    tk.train.Checkpoint(model=other).restore(path)
    assert float(other.first.factor) == 7.0


# ---------------------------------------------------------------------- signatures


def test_the_only_function_with_an_input_signature_is_the_default(tmp_path):
    serve = saved(Nested(), tmp_path / "m").signatures["serving_default"]
    assert serve.structured_input_signature[1]["x"].shape.as_list() == [None, 2]
    assert list(serve.structured_outputs) == ["sum", "steps"]
    assert serve.structured_outputs["steps"].dtype is tk.int32
    found = serve(x=tk.ones([3, 2]))
    assert list(found) == ["sum", "steps"]
    assert int(found["steps"]) == 1
    np.testing.assert_array_equal(found["sum"], serve(np.ones([3, 2], "float32"))["sum"])


@pytest.mark.parametrize("count", [0, 1, 2, 12])
def test_results_without_names_are_numbered(count, tmp_path):
    module = Scale(2.0)

    @tk.function(input_signature=[tk.TensorSpec([None], name="values")])
    def f(x):
        many = [x * float(i) for i in range(count)]
        return many if count != 1 else many[0]

    if count == 0:
        assert not saved(module, tmp_path / "m", signatures=f).signatures["serving_default"](
            values=[1.0]
        )
        return
    serve = saved(module, tmp_path / "m", signatures={"f": f}).signatures["f"]
    found = serve(values=tk.ones([2]))
    assert list(found) == [f"output_{i}" for i in range(count)]
    assert [float(y[0]) for y in found.values()] == list(range(count))


def test_names_of_nested_arguments_and_keys_in_any_order(tmp_path):
    point = collections.namedtuple("point", "y x")
    f = tk.function(lambda pair, d: {"z": pair[0] - pair[1], "a": d["q"] * d["b"].y, "k": d["b"].x})
    spec = tk.TensorSpec([None])
    g = f.get_concrete_function([spec, spec], {"q": spec, "b": point(spec, spec)})
    serve = saved(Scale(), tmp_path / "m", signatures=g).signatures["serving_default"]
    names = list(serve.structured_input_signature[1])
    assert names == [x.node.name for x in g.inputs]
    arrays = [np.full(1, i + 2.0, "float32") for i in range(5)]
    tensors = dict(zip(names, arrays, strict=True))
    found = serve(**tensors)
    wanted = g(*arrays)
    assert list(found) == ["z", "a", "k"]
    for key, value in found.items():
        np.testing.assert_array_equal(value, wanted[key])
    run = standalone.load(tmp_path / "m")
    for key, value in run(*arrays).items():
        np.testing.assert_array_equal(value, wanted[key])


def test_an_argument_of_any_rank(tmp_path):
    module = Scale(3.0)
    whole = module.__call__.get_concrete_function(tk.TensorSpec(None))
    row = module.__call__.get_concrete_function(tk.TensorSpec([None]))
    again = saved(module, tmp_path / "m", signatures={"any": whole, "row": row})
    assert list(again.signatures) == ["any", "row"]
    for rank in range(7):
        x = tk.ones([2] * rank)
        np.testing.assert_array_equal(again.signatures["any"](x=x)["output_0"], x.numpy() * 3)
        np.testing.assert_array_equal(again(x), x.numpy() * 3)
    assert again.signatures["any"].structured_outputs["output_0"].shape.rank is None
    with pytest.raises(ValueError, match="no graph"):
        again.signatures["row"](x=tk.ones([2, 2]))


def test_ranks_that_the_function_refuses_are_left_out(tmp_path):
    module = Scale()
    module.f = tk.function(lambda x: tk.matmul(x, x), input_signature=[tk.TensorSpec(None)])
    again = saved(module, tmp_path / "m")
    np.testing.assert_array_equal(again.f(tk.ones([2, 2])), [[2, 2], [2, 2]])
    with pytest.raises(ValueError, match="no graph"):
        again.f(tk.constant(1.0))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (lambda x: x, "give a tk.function"),
        (tk.function(lambda x: x), "0 graphs"),
        ({3: tk.function(lambda x: x)}, "no name"),
        (tk.function(lambda: [[1.0]], input_signature=[]), "list of tensors"),
        (tk.function(lambda: {"a": "text"}, input_signature=[]), "list of tensors"),
    ],
)
def test_what_is_no_signature_is_refused_and_writes_nothing(given, why, tmp_path):
    with pytest.raises(ValueError, match=why):
        tk.saved_model.save(Scale(), tmp_path / "deep" / "m", signatures=given)
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize("call", [{}, {"y": 1.0}, {"x": 1.0, "y": 1.0}])
def test_a_signature_names_its_arguments(call, tmp_path):
    serve = saved(Nested(), tmp_path / "m").signatures["serving_default"]
    with pytest.raises(TypeError, match="takes x"):
        serve(**call)


# ---------------------------------------------------------------------- files


def test_a_failed_save_leaves_the_older_one(tmp_path, monkeypatch):
    tk.saved_model.save(Scale(2.0), tmp_path / "m")

    def fail(*args):
        raise OSError("full")

    monkeypatch.setattr("trainkit.checkpoints.format.writer.write_header", fail)
    for folder in ("m", "new"):
        with pytest.raises(OSError, match="full"):
            tk.saved_model.save(Scale(9.0), tmp_path / folder)
    assert float(tk.saved_model.load(tmp_path / "m").factor) == 2.0
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert [p.name for p in (tmp_path / "m").iterdir()] == [FILE]


def test_what_a_folder_holds(tmp_path):
    assert not tk.saved_model.contains_saved_model(tmp_path)
    with pytest.raises(FileNotFoundError, match="no saved model"):
        tk.saved_model.load(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"\.keras file"):
        tk.saved_model.load(tmp_path)
    tk.saved_model.save(Scale(), str(tmp_path))
    assert tk.saved_model.contains_saved_model(str(tmp_path))


@pytest.mark.parametrize("obj", [lambda x: x, 3, tk.Variable(1.0)])
def test_what_is_no_object_is_refused(obj, tmp_path):
    with pytest.raises(ValueError, match=r"give a tk\.Module"):
        tk.saved_model.save(obj, tmp_path / "m")


def test_options_that_ask_for_nothing_are_taken_and_others_refused(tmp_path):
    options = tk.saved_model.SaveOptions(experimental_io_device="/job:localhost")
    tk.saved_model.save(Scale(), tmp_path / "m", options=options)
    tk.saved_model.load(tmp_path / "m", tags=["serve"], options=tk.saved_model.LoadOptions())
    for kind, name, value in (
        (tk.saved_model.SaveOptions, "function_aliases", {"f": 1}),
        (tk.saved_model.SaveOptions, "save_debug_info", True),
        (tk.saved_model.SaveOptions, "namespace_whitelist", ["Custom"]),
        (tk.saved_model.LoadOptions, "experimental_skip_checkpoint", True),
        (tk.saved_model.LoadOptions, "experimental_io_device", "/job:worker"),
    ):
        with pytest.raises(ValueError, match=name):
            kind(**{name: value})
    with pytest.raises(ValueError, match="tags"):
        tk.saved_model.load(tmp_path / "m", tags="gpu")


def test_a_call_into_python_is_refused_with_its_path(tmp_path):
    module = Scale()
    module.inner = Scale()
    module.inner.f = tk.function(
        lambda x: tk.py_function(lambda y: y, [x], tk.float32), input_signature=[tk.TensorSpec([])]
    )
    with pytest.raises(NotImplementedError, match=r"Scale\.inner\.f"):
        tk.saved_model.save(module, tmp_path / "m")


def test_numpy_and_h5py_alone_run_every_function(tmp_path, capsys):
    module = Nested()
    tk.saved_model.save(module, tmp_path / "m")
    x = np.random.rand(3, 2).astype("float32")
    wanted = module.total(tk.constant(x))
    for run in (
        standalone.load(tmp_path / "m"),
        standalone.load(str(tmp_path / "m"), "serving_default"),
        standalone.load(tmp_path / "m" / FILE, "total"),
    ):
        np.testing.assert_allclose(run(x)["sum"], wanted["sum"], rtol=1e-6)
    standalone.main([str(tmp_path / "m")])
    assert "SavedGraph total(x float32[None, 2])" in capsys.readouterr().out
    with pytest.raises(standalone.GraphError, match="serving_default, total"):
        standalone.load(tmp_path / "m", "other")
    with pytest.raises(standalone.GraphError, match="1 graphs"):
        standalone.load(tmp_path / "m", "total", 1)


# ---------------------------------------------------------------------- hostile files


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("valid")
    module = Nested()
    module.first(tk.constant(1.0))
    tk.saved_model.save(module, folder)
    return parts_of(folder / FILE)


def refused(document, values, folder):
    """Whether both readers refuse a document; nothing else may happen to them."""
    write_parts(folder / FILE, document, values, "trainkit-saved-model")
    told = []
    for load in (tk.saved_model.load, standalone.load):
        try:
            load(folder)
        except (tk.errors.CheckpointError, standalone.GraphError):
            told.append(True)
        else:
            told.append(False)
    return told


def test_documents_that_were_changed_are_refused_or_mean_something(valid, tmp_path):
    document, values = valid
    random_ = random.Random(7)
    counts = collections.Counter(
        any(refused(mutated_document(document, random_), values, tmp_path)) for _ in range(120)
    )
    assert counts[True] > 40
    assert refused(document, values, tmp_path) == [False, False]


def changed(document, change):
    document = json.loads(json.dumps(document))
    change(document)
    return document


def rename(name):
    def change(document):
        document["objects"][0]["children"][0][0] = name

    return change


@pytest.mark.parametrize(
    "change",
    [
        *map(rename, ["__class__", "__dict__", "__call__", "_kind", "signatures", "__reduce__"]),
        lambda d: d["objects"].clear(),
        lambda d: d["objects"][0].update(kind="list"),
        lambda d: d["objects"][0].update(kind="module"),
        lambda d: d["objects"][0]["children"].append(["x", "object", 99]),
        lambda d: d["objects"][0]["children"].append(["x", "code", 0]),
        lambda d: d["objects"][0]["collections"].update(parts=[0]),
        lambda d: d["objects"][0]["collections"].update(variables=[99]),
        lambda d: d["traced"][0].update(functions=[99]),
        lambda d: d["traced"][0].update(parameters=[["import", 1, False, None]]),
        lambda d: d["traced"][0].update(parameters=[["x", 9, False, None]]),
        lambda d: d["traced"][0].update(parameters=[["x", 1, True, {"code": "1"}]]),
        lambda d: d["signatures"].append(d["signatures"][0]),
        lambda d: d["signatures"][0].update(functions=[]),
        lambda d: d["signatures"][0]["outputs"][0].__setitem__(1, 9),
        lambda d: d["functions"][d["signatures"][0]["functions"][0]].update(results={"list": []}),
        lambda d: d["functions"][0].update(main=99),
        lambda d: d["variables"][0].update(spec=[[1 << 40, 1 << 20], "float32"]),
    ],
)
def test_what_save_never_writes_is_refused(change, valid, tmp_path):
    document, values = valid
    assert refused(changed(document, change), values, tmp_path)[0]


def test_objects_may_hold_one_another(valid, tmp_path):
    document, values = valid

    def change(document):
        for entry in document["objects"]:
            entry["children"] += [["again", "object", 0]]

    assert refused(changed(document, change), values, tmp_path) == [False, False]
    again = tk.saved_model.load(tmp_path)
    assert again.again.again is again
    assert len(again.variables) == 6


@pytest.mark.parametrize("name", ["Asset", "experimental", "laod"])
def test_names_that_are_left_out_say_why(name):
    page = (Path(__file__).parents[2] / "docs" / "tensorflow_names.md").read_text()
    with pytest.raises(AttributeError, match=name) as raised:
        getattr(tk.saved_model, name)
    why = str(raised.value).partition(": ")[2]
    assert (name == "laod") == ("load" in str(raised.value))
    assert name == "laod" or f"| `{name}` | {why} |" in page


def test_names_of_keys_are_tensorflows():
    assert tk.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY == "serving_default"
    assert tk.saved_model.SERVING == "serve"


def test_text_in_a_graph_is_refused_when_it_is_saved(tmp_path):
    module = Scale()
    module.f = tk.function(lambda x: x, input_signature=[tk.TensorSpec([None], tk.string)])
    with pytest.raises(NotImplementedError, match=r"Scale\.f.*text"):
        tk.saved_model.save(module, tmp_path / "m")
    with pytest.raises(NotImplementedError, match="text"):
        tk.saved_graph.save(module.f, tmp_path / "f.h5")
    assert not list(tmp_path.iterdir())


class MadeLate(tk.Module):
    @tk.function(input_signature=[tk.TensorSpec([])])
    def f(self, x):
        if not hasattr(self, "w"):
            self.w = tk.Variable(3.0)
        return x * self.w


@pytest.mark.parametrize("signatures", [None, {}])
def test_variables_that_tracing_makes_are_attributes(signatures, tmp_path):
    again = saved(MadeLate(), tmp_path / "m", signatures=signatures)
    assert float(again.f(2.0)) == 6.0
    again.w.assign(5.0)
    assert float(again.f(2.0)) == 10.0
    assert [v is again.w for v in again.variables] == [True]
