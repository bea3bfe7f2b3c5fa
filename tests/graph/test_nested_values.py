"""Nested arguments and results of traced functions: the same structure and values as in Python."""

import collections
import dataclasses
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk

Pair = collections.namedtuple("Pair", "z a")


@dataclasses.dataclass
class Record:
    z: object
    a: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    z: object
    a: object


class Attrs:
    """What the package attrs makes of a class."""

    __attrs_attrs__ = (types.SimpleNamespace(name="z"), types.SimpleNamespace(name="a"))

    def __init__(self, z, a=None):
        self.z, self.a = z, a


class Own:
    """A class that says itself how it is taken apart."""

    def __init__(self, z, a=None):
        self.z, self.a = z, a

    def __tf_flatten__(self):
        return (), (self.z, self.a)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components)


class Batch(dict):
    """A dict of a type of its own."""


class Rows(list):
    """A list of a type of its own."""


RECORDS = (Record, Frozen, Attrs, Own)


def default_dict(pairs):
    return collections.defaultdict(list, pairs)


keys = st.lists(st.sampled_from(["b", "a", "price", "kind", 2, 1]), unique=True, max_size=4)


def mappings(children):
    kinds = st.sampled_from([dict, collections.OrderedDict, default_dict, Batch])
    return keys.flatmap(
        lambda names: st.tuples(
            kinds, st.lists(children, min_size=len(names), max_size=len(names))
        ).map(lambda made: made[0](zip(names, made[1], strict=True)))
    )


def containers(children):
    rows = st.lists(children, max_size=3)
    return st.one_of(
        rows,
        rows.map(tuple),
        rows.map(Rows),
        st.builds(Pair, children, children),
        st.builds(Record, children, children),
        st.builds(Frozen, children, children),
        st.builds(Attrs, children, children),
        st.builds(Own, children, children),
        mappings(children),
    )


numbers = st.integers(-99, 99)
whole_structures = st.recursive(numbers, containers, max_leaves=8)
structures = st.recursive(st.one_of(numbers, numbers, st.none()), containers, max_leaves=8)


def rebuilt(x, leaf):
    """`x` with `leaf` of each number, by the test's own traversal in Python's order."""
    if isinstance(x, dict):
        pairs = [(key, rebuilt(item, leaf)) for key, item in x.items()]
        return default_dict(pairs) if type(x) is collections.defaultdict else type(x)(pairs)
    if isinstance(x, Pair):
        return Pair(*[rebuilt(item, leaf) for item in x])
    if isinstance(x, list | tuple):
        return type(x)([rebuilt(item, leaf) for item in x])
    if isinstance(x, RECORDS):
        return type(x)(rebuilt(x.z, leaf), rebuilt(x.a, leaf))
    return None if x is None else leaf(x)


def in_other_order(x):
    """`x` with the keys of all dicts the other way round."""
    if isinstance(x, dict):
        pairs = [(key, in_other_order(item)) for key, item in reversed(x.items())]
        return default_dict(pairs) if type(x) is collections.defaultdict else type(x)(pairs)
    if isinstance(x, Pair):
        return Pair(*map(in_other_order, x))
    if isinstance(x, list | tuple):
        return type(x)(map(in_other_order, x))
    if isinstance(x, RECORDS):
        return type(x)(in_other_order(x.z), in_other_order(x.a))
    return x


def outline(x):
    """Types, keys in order, and numbers: what has to be equal."""
    if isinstance(x, dict):
        return (type(x), [(key, outline(item)) for key, item in x.items()])
    if isinstance(x, list | tuple):
        return (type(x), [outline(item) for item in x])
    if isinstance(x, RECORDS):
        return (type(x), [outline(x.z), outline(x.a)])
    return None if x is None else (str(x.dtype), float(x))


def tensors(x):
    return rebuilt(x, lambda n: tk.constant(float(n)))


def listed(x):
    """The leaves in Python's order, with what makes the order count."""
    found = []
    rebuilt(x, lambda t: found.append(t * (len(found) + 1.0)))
    return found


@settings(max_examples=150, deadline=None)
@given(structures)
def test_arguments_keep_their_places(x):
    traced = tk.function(listed)
    for given_now in (x, rebuilt(x, lambda n: n + 1), in_other_order(x), x):
        expected = [float(y) for y in listed(tensors(given_now))]
        assert [float(y) for y in traced(tensors(given_now))] == expected
        assert [float(y) for y in tk.function(listed)(x=tensors(given_now))] == expected


@settings(max_examples=150, deadline=None)
@given(structures)
def test_results_have_the_structure_that_python_returns(x):
    def changed(s):
        return rebuilt(s, lambda t: t * 2.0 + 1.0)

    traced = tk.function(changed)
    for given_now in (x, rebuilt(x, lambda n: n - 5), in_other_order(x), x):
        expected = outline(changed(tensors(given_now)))
        assert outline(traced(tensors(given_now))) == expected


@settings(max_examples=60, deadline=None)
@given(structures)
def test_structures_are_made_inside_and_closed_over(x):
    closed = tensors(x)

    @tk.function
    def made(scale):
        return rebuilt(closed, lambda t: t * scale), rebuilt(x, lambda n: scale + float(n))

    for scale in (2.0, -3.0):
        wanted = (
            tensors(rebuilt(x, lambda n, scale=scale: n * scale)),
            tensors(rebuilt(x, lambda n, scale=scale: scale + n)),
        )
        assert outline(made(tk.constant(scale))) == outline(wanted)


@settings(max_examples=60, deadline=None)
@given(whole_structures)
def test_gradients_have_the_structure_of_the_sources(x):
    sources = tensors(x)

    def loss(s):
        return sum(listed(s), tk.constant(0.0))

    def grads(s):
        with tk.GradientTape() as tape:
            tape.watch(s)
            y = loss(s)
        return tape.gradient(y, s, unconnected_gradients="zero")

    assert outline(grads(sources)) == outline(tk.function(grads)(sources))
    counted = iter(range(1, 100))
    wanted = rebuilt(x, lambda n: next(counted))
    assert outline(grads(sources)) == outline(tensors(wanted))


PRICE, KIND = 1.0, 2.0


def test_values_of_a_dict_are_those_of_their_keys():
    f = tk.function(lambda d: d["price"] * 1.0)
    assert float(f({"price": tk.constant(PRICE), "kind": tk.constant(KIND)})) == PRICE
    assert float(f({"kind": tk.constant(KIND), "price": tk.constant(PRICE)})) == PRICE


@pytest.mark.parametrize("nested", [lambda x: [x + 1], lambda x: {"b": x + 1}, lambda x: (x + 1,)])
def test_a_result_beside_a_nested_one_stays_by_itself(nested):
    f = tk.function(lambda x: (x * x, nested(x)))
    for value in (3.0, 4.0):
        expected = (tk.constant(value * value), nested(tk.constant(value)))
        assert outline(f(tk.constant(value))) == outline(expected)


def test_further_keywords_come_in_the_order_of_the_call():
    f = tk.function(lambda **named: list(named.values()))
    assert [float(y) for y in f(b=tk.constant(1.0), a=tk.constant(2.0))] == [1.0, 2.0]
    assert [float(y) for y in f(a=tk.constant(2.0), b=tk.constant(1.0))] == [2.0, 1.0]


def test_zeros_of_both_signs_are_different_values():
    f = tk.function(lambda x, n: x * np.copysign(1.0, n))
    assert float(f(tk.constant(1.0), 0.0)) == 1.0
    assert float(f(tk.constant(1.0), -0.0)) == -1.0


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        (lambda xs: xs.append(tk.constant(1.0)), [1.0]),
        (lambda d: d.update(a=d["a"] * 2.0), {"a": 1.0}),
        (lambda d: d.pop("a"), {"b": 1.0, "a": 2.0}),
        (lambda r: setattr(r, "z", r.z * 2.0), Record(1.0)),
    ],
)
def test_an_argument_that_is_changed_inside_is_an_error(change, argument):
    f = tk.function(change)
    with pytest.raises(ValueError, match="changes its argument"):
        f(tensors(argument))


def test_a_record_without_tensors_is_an_object_like_others():
    class_traces = []

    @dataclasses.dataclass
    class Stats:
        traces: int = 0

    @tk.function
    def f(x, stats):
        class_traces.append(1)
        stats.traces += 1
        return x + 1.0

    stats = Stats()
    assert float(f(tk.constant(1.0), stats)) == 2.0
    assert float(f(tk.constant(2.0), stats)) == 3.0
    assert len(class_traces) == stats.traces == 1


def test_a_shape_is_returned_as_a_tensor():
    _, shape = tk.function(lambda x: (x, x.shape))(tk.ones((2, 3)))
    assert shape.numpy().tolist() == [2, 3]
    assert shape.dtype == tk.int32


def swapped(d):
    return {"z": d["b"] * 2.0, "y": [d["a"] + 1.0, None]}


def grown(d):
    return {"b": d["a"] + 1.0, "a": d["b"] * 2.0}


CONTROL = {
    "cond": lambda d: tk.cond(d["b"] > 0.0, lambda: swapped(d), lambda: swapped(grown(d))),
    "cond with keys in two orders": lambda d: tk.cond(
        d["b"] > 0.0, lambda: {"b": d["b"], "a": d["a"]}, lambda: {"a": d["b"], "b": d["a"]}
    )["b"],
    "cond of named tuples": lambda d: tk.cond(
        d["b"] > 0.0, lambda: Pair(d["b"], [None]), lambda: Pair(d["a"], [None])
    ),
    "cond of records": lambda d: tk.cond(
        d["b"] > 0.0, lambda: Record(d["b"], d["a"]), lambda: Record(d["a"], d["b"])
    ),
    "switch_case": lambda d: tk.switch_case(
        tk.constant(1), [lambda: swapped(d), lambda: swapped(grown(d))]
    ),
    "while_loop": lambda d: tk.while_loop(
        lambda i, d: i < 3, lambda i, d: [i + 1, grown(d)], (tk.constant(0), d)
    ),
    "map_fn": lambda d: tk.map_fn(
        lambda e: swapped(e)["z"], {"b": tk.stack([d["b"], d["a"]]), "a": tk.zeros([2])}
    ),
    "map_fn to a dict": lambda d: tk.map_fn(
        lambda e: {"z": e["b"] + 1.0, "y": e["a"]},
        {"b": tk.stack([d["b"], d["a"]]), "a": tk.zeros([2])},
        fn_output_signature={"z": tk.float32, "y": tk.float32},
    ),
    "scan": lambda d: tk.scan(
        lambda c, e: grown({k: v + e for k, v in c.items()}), tk.range(3.0), d
    ),
    "foldl": lambda d: tk.foldl(
        lambda c, e: grown({k: v + e for k, v in c.items()}), tk.range(3.0), d
    ),
    "vectorized_map": lambda d: tk.vectorized_map(
        lambda e: {"z": e["b"] + 1.0, "y": e["a"]},
        {"b": tk.stack([d["b"], d["a"]]), "a": tk.zeros([2])},
    ),
}


def loops_in_python(d):
    for i in tk.range(3):
        if d["b"] > 4.0:
            d = {"b": d["a"], "a": d["b"] + tk.cast(i, tk.float32)}
        else:
            d = grown(d)
    return d


@pytest.mark.parametrize("control", [*CONTROL.values(), loops_in_python], ids=[*CONTROL, "loop"])
def test_control_flow_keeps_structures(control):
    def values(x):
        return rebuilt(x, lambda t: t.numpy().tolist())

    traced = tk.function(control)
    for b, a in ((1.0, 2.0), (-1.0, 5.0)):
        d = {"b": tk.constant(b), "a": tk.constant(a)}
        assert values(traced(d)) == values(control(d))
        assert values(traced({"a": d["a"], "b": d["b"]})) == values(control(d))


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
def test_a_body_that_gives_other_keys_is_refused(wrap):
    def loop(x):
        body = lambda d: [{"other": d["a"] + 1.0}]  # noqa: E731
        return tk.while_loop(lambda d: d["a"] < 3.0, body, [{"a": x}])

    with pytest.raises(tk.errors.InvalidArgumentError, match="nested otherwise"):
        wrap(loop)(tk.constant(1.0))


def test_branches_of_two_kinds_are_refused():
    def f(x, one, two):
        return tk.cond(x > 0.0, lambda: one(x), lambda: two(x))

    kinds = [lambda x: [x], lambda x: (x,), lambda x: {"a": x}, lambda x: {"b": x}]
    for one in kinds:
        for two in kinds:
            if one is not two:
                with pytest.raises(tk.errors.InvalidArgumentError, match="different structures"):
                    tk.function(f)(tk.constant(1.0), one, two)


# ------------------------------------------------------------------ texts


def test_texts_are_tensors_where_a_function_returns_them():
    @tk.function
    def named(x):
        return {"loss": x * 2.0, "name": "a", "parts": [b"b", "c"], "none": None}

    for _ in range(3):
        result = named(tk.constant(1.0))
    texts = [result["name"], *result["parts"]]
    assert all(isinstance(x, tk.Tensor) and x.dtype == tk.string for x in texts)
    assert [x.numpy() for x in texts] == [b"a", b"b", b"c"]
    assert (float(result["loss"]), result["none"]) == (2.0, None)
    assert tk.function(lambda a, b: a + b)("good", "morning").numpy() == b"goodmorning"


def test_branches_choose_between_texts():
    @tk.function
    def sign(x):
        if x == 0:
            return "none"
        if x > 0:
            word = "positive"
        else:
            word = "negative"
        return word

    signs = [sign(tk.constant(x)).numpy() for x in (1.0, -1.0, 0.0)]
    assert signs == [b"positive", b"negative", b"none"]
    chosen = tk.function(lambda x: tk.cond(x > 0, lambda: "a", lambda: tk.constant("b")))
    assert [chosen(tk.constant(x)).numpy() for x in (1, -1)] == [b"a", b"b"]
