"""Every operation on a stack of values gives the stack of what it gives on each.

The rows are those of the gradient table, so a new operation is tested by the row that it needs
anyhow; `without_gradient` holds one for each of the others.
"""

import importlib
import itertools
import pathlib
import re
from collections import Counter

import numpy as np
import pytest

import trainkit as tk
from tests.conformance.table import all_cases
from tests.conformance.without_gradient import ROWS_WITHOUT_GRADIENT
from trainkit.core import nest
from trainkit.core.dispatch.facets import UNDECLARED, Absent
from trainkit.core.tensor import PRIMITIVES
from trainkit.ops.core import vmap

for _path in sorted(pathlib.Path(tk.__file__).parent.rglob("*.py")):  # some are imported late
    if re.search(r"^@primitive\(", _path.read_text(encoding="utf-8"), re.MULTILINE):
        _parts = _path.relative_to(pathlib.Path(tk.__file__).parents[1]).with_suffix("").parts
        importlib.import_module(".".join(_parts))
vmap.load_rules()

COUNT = 3
SMOOTH = all_cases()
CASES = SMOOTH + ROWS_WITHOUT_GRADIENT
EVERY = pytest.mark.parametrize("case", CASES, ids=str)
DIFFERENTIABLE = pytest.mark.parametrize("case", SMOOTH, ids=str)


# ------------------------------------------------------------------ stacks of a row's inputs


def values_like(x):
    """COUNT arrays (COUNT, ...) that an operation takes where it takes `x`."""
    x = np.asarray(x)
    if x.dtype.kind in "fc":  # of one sign, and in the same order
        return np.stack([x * (1 + 0.02 * i) for i in range(COUNT)])
    return np.stack([np.roll(x.reshape(-1), i).reshape(x.shape) for i in range(COUNT)])


class Stacks:
    """The inputs of a row, of which some have a value for each item.

    Args:
        case: the row.
        own: the places of those.
    """

    def __init__(self, case, own):
        self.case, self.own = case, own
        self.arrays = {
            i: values_like(x) for i, x in enumerate(case.inputs) if isinstance(x, np.ndarray)
        }
        try:
            self.one_by_one = self._run()
        except Exception:  # numbers that turn up elsewhere may not fit; those of the row do
            for i, x in self.arrays.items():
                if x.dtype.kind not in "fc":
                    self.arrays[i] = np.stack([x[0]] * COUNT)
            self.one_by_one = self._run()

    def _run(self):
        rows = [flat(self.call([x[i] for x in self.stacks])) for i in range(COUNT)]
        return [np.stack([y.numpy() for y in column]) for column in zip(*rows, strict=True)]

    @property
    def stacks(self):
        """The stacks of the inputs that items have for themselves."""
        return [tk.constant(self.arrays[i]) for i in self.own]

    def inputs(self, values):
        """All inputs of an item that has `values` in the places of its own."""
        given = iter(values)
        return [
            next(given)
            if i in self.own
            else tk.constant(self.arrays[i][0])
            if i in self.arrays
            else x
            for i, x in enumerate(self.case.inputs)
        ]

    def call(self, values):
        """The row's operation for such an item."""
        return self.case.op(*self.inputs(values), **self.case.settings)


def flat(results):
    return nest.flatten(results)


def subsets(case):
    """Which inputs have a value for each item: one, all but one, or all."""
    places = [i for i, x in enumerate(case.inputs) if isinstance(x, np.ndarray)]
    sizes = {1, len(places) - 1, len(places)} - {0}
    return [own for size in sorted(sizes) for own in itertools.combinations(places, size)]


def all_of(case):
    return Stacks(case, subsets(case)[-1])


def assert_same(got, wanted, tolerance=1e-7):
    for a, b in zip(flat(got), wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b, rtol=tolerance, atol=1e-9)


# ------------------------------------------------------------------ what each operation declares


def test_every_operation_says_how_it_goes_over_a_stack():
    silent = [n for n, p in sorted(PRIMITIVES.items()) if p.facets.batch is UNDECLARED]
    assert not silent, f"give these a batching rule, or one_by_one(reason): {silent}"


def test_one_after_the_other_needs_a_reason():
    without = {
        n: p.facets.batch for n, p in PRIMITIVES.items() if isinstance(p.facets.batch, Absent)
    }
    assert all(len(way.reason.split()) > 2 for way in without.values())
    assert not [n for n, p in PRIMITIVES.items() if n in without and p.facets.fusible]


def test_every_operation_with_a_rule_has_a_row():
    ruled = {n for n, p in PRIMITIVES.items() if not isinstance(p.facets.batch, Absent)}
    missing = sorted(ruled - {case.name for case in CASES})
    assert not missing, (
        "add rows to tests/conformance/cases_*.py, for those without a gradient to "
        f"tests/conformance/without_gradient.py: {missing}"
    )


def test_every_operation_says_whether_stacks_keep_bits():
    silent = [n for n, p in sorted(PRIMITIVES.items()) if p.facets.stackable is UNDECLARED]
    assert not silent, f"declare stackable=True, or Absent(reason): {silent}"


# Rows whose items go one after the other for some inputs, because ...
ONE_AFTER_THE_OTHER = {
    "with_values": "the sizes of its results depend on values",
    "py_call_gradient": "the function is made for the values of one item",
    "py_call": "the function is made for the values of one item",
    "cond": "items take different branches",
    "while_loop": "items take different numbers of rounds",
    "get_item_at": "masks of items pick different numbers of elements",
    "put_item_at": "masks of items pick different numbers of elements",
    "lstm": "there is no recurrence over several kernels",
    "lstm_gradient": "there is no recurrence over several kernels",
    "gru": "there is no recurrence over several kernels",
    "gru_gradient": "there is no recurrence over several kernels",
    "reshape_sized": "items have different sizes",
    "broadcast_to_sized": "items have different sizes",
    "tile_sized": "items have different sizes",
    "tile_sum_sized": "items have different sizes",
    "isin": "each set of members is sorted by itself",
}


@pytest.fixture
def one_by_one(monkeypatch):
    """Counts, by name, the operations that went one item after the other."""
    counts = Counter()
    plain = vmap.one_after_the_other

    def counted(primitive, *given):
        counts[primitive.name] += 1
        return plain(primitive, *given)

    monkeypatch.setattr(vmap, "one_after_the_other", counted)
    return counts


# ------------------------------------------------------------------ the results


@EVERY
def test_a_stack_gives_the_stack_of_the_results(case, one_by_one):
    for own in subsets(case):
        given = Stacks(case, own)
        got = tk.vectorized_map(given.call, given.stacks, fallback_to_while_loop=False)
        assert_same(got, given.one_by_one)
        if PRIMITIVES[case.name].facets.stackable is True:
            assert [y.numpy().tobytes() for y in flat(got)] == [
                y.tobytes() for y in given.one_by_one
            ], "said to be stackable, but a stack gives other bits"
    forward = case.name.removesuffix("_gradient")  # the row may call that, too
    allowed = {case.name, forward} & set(ONE_AFTER_THE_OTHER)
    assert set(one_by_one) <= allowed, "a batching rule had no way for these inputs"


def test_each_exception_is_one(one_by_one):
    rows = {case.name: case for case in CASES}
    for name in ONE_AFTER_THE_OTHER:
        for case in [case for case in CASES if case.name == name]:
            for own in subsets(case):
                given = Stacks(case, own)
                tk.vectorized_map(given.call, given.stacks)
    assert set(ONE_AFTER_THE_OTHER) <= set(rows)
    assert set(one_by_one) == set(ONE_AFTER_THE_OTHER)


@EVERY
def test_maps_nest(case):
    given = all_of(case)
    twice = [tk.stack([x, x[::-1]]) for x in given.stacks]
    got = tk.vectorized_map(
        lambda outer: tk.vectorized_map(given.call, outer, fallback_to_while_loop=False),
        twice,
        fallback_to_while_loop=False,
    )
    wanted = given.one_by_one
    assert_same([y[0] for y in flat(got)], wanted)
    assert_same([y[1] for y in flat(got)], [w[::-1] for w in wanted])


# More than one input, and none of positions that must fit the others.
OF_SEVERAL = [
    case
    for case in CASES
    if len(own := subsets(case)[-1]) > 1 and all(case.inputs[i].dtype.kind in "fc" for i in own)
]


@pytest.mark.parametrize("case", OF_SEVERAL, ids=str)
def test_an_inner_map_shares_what_the_outer_one_holds(case):
    """Each input in a map of its own gives all combinations."""
    given = all_of(case)
    first, *rest = given.stacks
    pairs = tk.vectorized_map(
        lambda x: tk.vectorized_map(lambda others: given.call([x, *others]), rest), first
    )
    for i, j in ((0, 1), (2, 1), (1, 2)):
        wanted = flat(given.call([first[i], *[x[j] for x in rest]]))
        assert_same([y[i, j] for y in flat(pairs)], [w.numpy() for w in wanted])


# These rows run the nodes of a graph one by one, with values.
OVER_GRAPHS = {"cond", "while_loop", "scan", "with_gradient", "with_values"}
OVER_GRAPHS |= {"py_call", "py_call_gradient"}


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in OVER_GRAPHS], ids=str)
def test_the_map_can_be_traced(case):
    given = all_of(case)
    got = tk.function(lambda *stacks: tk.vectorized_map(given.call, list(stacks)))(*given.stacks)
    assert_same(got, given.one_by_one)


# ------------------------------------------------------------------ derivatives


def sources_of(values):
    return [x for x in values if x.dtype.is_differentiable]


def gradient_of_one(given, values, upstream=None):
    """The gradients of an item's results by its own inputs."""
    sources = sources_of(values)
    with tk.GradientTape() as tape:
        tape.watch(sources)
        results = [y for y in flat(given.call(values)) if y.dtype.is_differentiable]
    return tape.gradient(results, sources, upstream, unconnected_gradients="zero")


@DIFFERENTIABLE
def test_gradients_per_item(case):
    for own in subsets(case):
        given = Stacks(case, own)
        if not sources_of(given.stacks):
            continue
        got = tk.vectorized_map(lambda values, g=given: gradient_of_one(g, values), given.stacks)
        rows = [
            [g.numpy() for g in gradient_of_one(given, [x[i] for x in given.stacks])]
            for i in range(COUNT)
        ]
        assert_same(got, [np.stack(column) for column in zip(*rows, strict=True)], 1e-6)


def rows_one_by_one(given, values):
    """The jacobians of an item's real results, by a gradient for each of their elements."""
    sources = sources_of(values)
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        results = [y for y in flat(given.call(values)) if y.dtype.is_differentiable]
    for y in results:
        units = np.eye(int(np.prod(y.shape)), dtype=y.dtype.as_numpy_dtype).reshape(-1, *y.shape)
        rows = [
            tape.gradient(y, sources, tk.constant(unit), unconnected_gradients="zero")
            for unit in units
        ]
        yield (
            y,
            tape,
            sources,
            [
                np.stack([row[k].numpy() for row in rows]).reshape(*y.shape, *x.shape)
                for k, x in enumerate(sources)
            ],
        )


@DIFFERENTIABLE
def test_jacobians_are_the_gradients_of_all_elements(case):
    given = all_of(case)
    values = [x[1] for x in given.stacks]
    for y, tape, sources, wanted in rows_one_by_one(given, values):
        assert_same(tape.jacobian(y, sources, unconnected_gradients="zero"), wanted, 1e-6)


@DIFFERENTIABLE
def test_batch_jacobians_are_those_of_the_items(case):
    given = all_of(case)
    smooth = [i for i, x in enumerate(given.stacks) if x.dtype.is_differentiable]
    stacks = given.stacks
    with tk.GradientTape(persistent=True) as tape:
        tape.watch([stacks[i] for i in smooth])
        results = flat(tk.vectorized_map(given.call, stacks))
    targets = [y for y in results if y.dtype.is_differentiable]
    wanted = [list(rows_one_by_one(given, [x[i] for x in stacks])) for i in range(COUNT)]
    for number, y in enumerate(targets):
        for k, place in enumerate(smooth):
            rows = [items[number][3][k] for items in wanted]
            found = tape.batch_jacobian(y, stacks[place])
            assert_same([found], [np.stack(rows)], 1e-6)
