"""Name scopes, and the hint at the nearest name."""

import copy
import operator
import pickle
import threading

import pytest

import trainkit as tk
from trainkit.core.names import NamesBelow, near_names, unknown_name


def test_scopes_nest():
    assert tk.get_current_name_scope() == ""
    with tk.name_scope("a") as a:
        with tk.name_scope("b") as b:
            assert (a, b, tk.get_current_name_scope()) == ("a/", "a/b/", "a/b")
        assert tk.get_current_name_scope() == "a"
    assert tk.get_current_name_scope() == ""


def test_a_name_that_ends_in_a_slash_is_whole():
    with tk.name_scope("a") as a:
        with tk.name_scope("b/") as b, tk.name_scope("c"):
            assert (b, tk.get_current_name_scope()) == ("b/", "b/c")
        with tk.name_scope("d"), tk.name_scope(a):
            assert tk.get_current_name_scope() == "a"


def test_variables_have_the_names_of_their_scopes():
    with tk.name_scope("a"), tk.name_scope("b"):
        v = tk.Variable(1.0, name="v")
        dense = tk.layers.Dense(1)
        dense.build((None, 2))
        optimizer = tk.optimizers.SGD()
        mean = tk.metrics.Mean()
    assert (v.name, tk.Variable(1.0).name) == ("a/b/v:0", "Variable:0")
    assert [copy.deepcopy(v).name, pickle.loads(pickle.dumps(v)).name] == [v.name, v.name]
    assert [w.name for w in dense.weights] == ["kernel", "bias"]
    assert not any(x.name.startswith("a/") for x in (*optimizer.variables, *mean.variables))


def test_variables_that_a_function_makes_have_the_names_of_their_scopes():
    class Scale(tk.Module):
        v = None

        @tk.function
        def __call__(self, x):
            with tk.name_scope("inner"):
                if self.v is None:
                    self.v = tk.Variable(2.0, name="v")
            return x * self.v

    scale = Scale()
    assert float(scale(tk.constant(3.0))) == 6.0
    assert scale.v.name == "inner/v:0"


def test_a_scope_ends_with_an_error():
    with pytest.raises(KeyError), tk.name_scope("a"):
        raise KeyError
    assert tk.get_current_name_scope() == ""


def test_scopes_belong_to_their_thread():
    seen = []
    with tk.name_scope("a"):
        worker = threading.Thread(target=lambda: seen.append(tk.get_current_name_scope()))
        worker.start()
        worker.join()
    assert seen == [""]


@pytest.mark.parametrize("name", ["a b", 3, None])
def test_what_is_no_name_says_so(name):
    with pytest.raises(ValueError, match="is no name of a scope; use letters, digits"):
        tk.name_scope(name)


def test_the_nearest_names_are_shown():
    error = unknown_name("box", "reduce_maen", ["reduce_mean", "reduce_max", "cat"])
    assert str(error) == (
        "module 'box' has no attribute 'reduce_maen'; did you mean 'reduce_mean' or 'reduce_max'?"
    )
    assert str(unknown_name("box", "zzz", ["cat"])) == "module 'box' has no attribute 'zzz'"


def test_near_names_come_nearest_first_and_from_the_first_thousands():
    names = ["loss", "val_loss", "accuracy"]
    assert near_names("a_loss", names) == ["val_loss", "loss"]
    assert near_names("a_loss", names, 1) == ["val_loss"]
    assert near_names("a_loss", iter(names), likeness=0.9) == []
    assert near_names("q", names) == near_names("loss", []) == []
    many = [f"{number:09}" for number in range(2000)]
    assert near_names("val_loss", [*many[:-1], "val_los"]) == ["val_los"]
    assert near_names("val_loss", [*many, "val_loss"]) == []


def test_a_namespace_without_a_file_explains_names_that_it_does_not_have():
    space = NamesBelow("box.inner", {"old": "use new"}, reduce_mean=1, reduce_max=2)
    assert (space.reduce_mean, space.reduce_max) == (1, 2)
    assert repr(space) == "NamesBelow(reduce_mean=1, reduce_max=2)"
    with pytest.raises(AttributeError, match=r"'box\.inner' has no attribute 'old': use new"):
        space.old  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'reduce_mean'"):
        space.reduce_maen  # noqa: B018
    assert not hasattr(space, "zzz")
    assert copy.copy(space) == space


@pytest.mark.parametrize(
    ("module", "name", "advice"),
    [
        ("data", "NumpyIterator", "as_numpy_iterator"),
        ("distribute", "Server", "MirroredStrategy"),
        ("random", "uniform_candidate_sampler", "categorical"),
        ("random.experimental", "index_shuffle", "use tk.random.shuffle"),
        ("distribute", "experimental_set_strategy", "strategy.scope"),
        ("math.special", "bessel_j5", "did you mean 'bessel_j"),
        ("types.experimental", "TensorLik", "did you mean 'TensorLike'"),
    ],
)
def test_names_that_modules_leave_out_say_what_to_use(module, name, advice):
    with pytest.raises(AttributeError, match=advice):
        getattr(operator.attrgetter(module)(tk), name)
