"""Steps on text, `None` and data sets, sizes as tensors, grouping; numbers are TensorFlow's."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.data import Dataset


def plain(x):
    if isinstance(x, tuple | list):
        return type(x)(plain(item) for item in x)
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    return x.tolist() if isinstance(x, np.ndarray | np.generic) else x


def listed(dataset):
    return [plain(element) for element in dataset.as_numpy_iterator()]


def words(*texts):
    return Dataset.from_tensor_slices(list(texts))


STEPS = {
    "slices": (lambda: words("a", "b"), [b"a", b"b"]),
    "dict": (
        lambda: Dataset.from_tensor_slices({"k": ["x", "y"], "b": [1, 2]}).batch(2),
        [{"k": [b"x", b"y"], "b": [1, 2]}],
    ),
    "tensors": (lambda: Dataset.from_tensors("abc"), [b"abc"]),
    "map": (lambda: words("a", "b").map(lambda s: s + "x"), [b"ax", b"bx"]),
    "map to text": (lambda: Dataset.range(2).map(lambda n: "t"), [b"t", b"t"]),
    "unbatch": (lambda: words("a", "b", "c").batch(2).unbatch(), [b"a", b"b", b"c"]),
    "rebatch": (lambda: words("a", "b", "c").batch(2).rebatch(3), [[b"a", b"b", b"c"]]),
    "cache": (lambda: words("a", "b").cache().repeat(2), [b"a", b"b"] * 2),
    "filter": (lambda: words("a", "b").filter(lambda s: s != "b"), [b"a"]),
    "window": (lambda: words("a", "b", "c").window(2).flat_map(lambda w: w), [b"a", b"b", b"c"]),
    "concatenate": (lambda: words("a").concatenate(words("b")), [b"a", b"b"]),
    "zip": (lambda: Dataset.zip(words("a", "b"), Dataset.range(2)), [(b"a", 0), (b"b", 1)]),
    "threads": (
        lambda: words("a", "b").map(lambda s: (s, s == "a"), num_parallel_calls=2).prefetch(1),
        [(b"a", True), (b"b", False)],
    ),
    "scan": (lambda: words("a", "b").scan("", lambda s, x: (s + x, s + x)), [b"a", b"ab"]),
    "interleave": (
        lambda: words("a", "b").interleave(lambda s: Dataset.from_tensors(s).repeat(2), 2),
        [b"a", b"b", b"a", b"b"],
    ),
    "unique": (lambda: words("a", "b", "a", "").unique(), [b"a", b"b", b""]),
    "padded": (
        lambda: Dataset.from_generator(
            lambda: iter([["a"], ["b", "c"]]), output_signature=tk.TensorSpec((None,), tk.string)
        ).padded_batch(2, padding_values="-"),
        [[[b"a", b"-"], [b"b", b"c"]]],
    ),
    "none beside": (lambda: Dataset.range(2).map(lambda x: (x, None)), [(0, None), (1, None)]),
    "none in batches": (
        lambda: Dataset.range(3).map(lambda x: (None, x)).batch(2, drop_remainder=True),
        [(None, [0, 1])],
    ),
    "a list is a tuple": (lambda: Dataset.range(2).map(lambda x: [x, x]), [(0, 0), (1, 1)]),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_on_text_and_none(name):
    make, wanted = STEPS[name]
    assert listed(make()) == wanted


def test_shuffled_text_is_whole():
    dataset = words(*map(str, range(50))).shuffle(20, seed=1)
    assert sorted(listed(dataset)) == sorted(str(i).encode() for i in range(50))


def test_map_may_give_data_sets():
    windows = Dataset.range(5).window(3).map(lambda w: w.batch(2))
    assert [listed(w) for w in windows] == [[[0, 1], [2]], [[3, 4]]]
    assert [listed(d) for d in Dataset.range(3).map(lambda n: Dataset.range(n))] == [
        [],
        [0],
        [0, 1],
    ]
    with pytest.raises(tk.errors.InvalidArgumentError, match="data sets"):
        next(iter(windows.batch(2)))


@pytest.mark.parametrize("kind", [tk.constant, np.int64, lambda n: tk.constant(n, tk.int64)])
def test_sizes_may_be_tensors(kind):
    dataset = (
        Dataset.range(kind(9)).skip(kind(1)).take(kind(6)).repeat(kind(1)).shard(kind(2), kind(0))
    )
    assert listed(dataset.batch(kind(2)).prefetch(kind(2))) == [[1, 3], [5]]
    assert sorted(listed(Dataset.range(4).shuffle(Dataset.range(4).cardinality()))) == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="batch_size must be an int"):
        dataset.batch(2.5)


@pytest.mark.parametrize("shapes", [None, [], ()])
def test_scalars_are_batched_as_they_are(shapes):
    dataset = Dataset.range(3).padded_batch(2, padded_shapes=shapes)
    assert listed(dataset) == [[0, 1], [2]]
    pairs = Dataset.range(1, 3).map(lambda n: (tk.fill([n], n), n)).padded_batch(2)
    assert listed(pairs) == [([[1, 0], [2, 2]], [1, 2])]


def test_padding_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="padding value"):
        listed(Dataset.range(3).batch(2).padded_batch(2, padding_values="x"))


def test_rebatch_cuts_and_joins():
    batches = Dataset.range(10).batch(4)
    assert listed(batches.rebatch(3)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert listed(batches.rebatch([1, 3], drop_remainder=True)) == [
        [0],
        [1, 2, 3],
        [4],
        [5, 6, 7],
        [8],
    ]
    assert batches.rebatch(3, drop_remainder=True).element_spec.shape == (3,)
    with pytest.raises(tk.errors.InvalidArgumentError, match="at least 1"):
        batches.rebatch(0)


def test_counter_and_random_go_on():
    assert listed(Dataset.counter(start=3, step=-2).take(3)) == [3, 1, -1]
    assert Dataset.counter(dtype=tk.int32).element_spec.dtype == tk.int32
    assert int(Dataset.counter().cardinality()) == tk.data.INFINITE_CARDINALITY
    once = Dataset.random(seed=4).take(5)
    assert listed(once) == listed(once)
    assert all(0 <= n < 2**32 for n in listed(once))
    again = Dataset.random(seed=4, rerandomize_each_iteration=True).take(5)
    assert listed(again) != listed(again)
    assert listed(Dataset.random(seed=4).batch(5).take(1)) == [listed(once)]


def test_groups_by_key():
    dataset = Dataset.range(10).group_by_window(lambda x: x % 2, lambda k, d: d.batch(3), 3)
    assert listed(dataset) == [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    assert dataset.element_spec == tk.TensorSpec((None,), tk.int64)
    pairs = Dataset.from_tensor_slices({"k": ["a", "b", "c"], "n": [1, 0, 1]})
    grouped = pairs.group_by_window(
        lambda e: tk.cast(e["n"], tk.int64), lambda k, d: d.batch(9), window_size_func=lambda k: 2
    )
    assert listed(grouped) == [{"k": [b"a", b"c"], "n": [1, 1]}, {"k": [b"b"], "n": [0]}]
    with pytest.raises(ValueError, match="one of them"):
        pairs.group_by_window(lambda e: 0, lambda k, d: d)


def rows():
    signature = tk.TensorSpec((None,), tk.int32)
    return Dataset.from_generator(
        lambda: iter([[0], [1, 2], [3, 4, 5], [6], [7, 8, 9, 10]]), output_signature=signature
    )


def test_buckets_by_length():
    def length(x):
        return tk.shape(x)[0]

    plain_buckets = rows().bucket_by_sequence_length(length, [2, 4], [2, 2, 2])
    wanted = [[[1, 2, 0], [3, 4, 5]], [[0], [6]], [[7, 8, 9, 10]]]
    assert sorted(listed(plain_buckets)) == sorted(wanted)
    bound = (
        rows()
        .take(4)
        .bucket_by_sequence_length(length, [3, 6], [4, 4, 4], pad_to_bucket_boundary=True)
    )
    assert listed(bound) == [[[0, 0], [1, 2], [6, 0]], [[3, 4, 5, 0, 0]]]
    with pytest.raises(tk.errors.InvalidArgumentError, match="beyond the last boundary"):
        listed(rows().bucket_by_sequence_length(length, [2], [2, 2], pad_to_bucket_boundary=True))
    with pytest.raises(ValueError, match="one size more"):
        rows().bucket_by_sequence_length(length, [2], [2])


def test_errors_are_left_out():
    def fails_at_two(n):
        return tk.debugging.check_numerics(1.0 / tk.cast(n - 2, tk.float32), "no")

    dataset = Dataset.range(4).map(fails_at_two)
    with pytest.raises(tk.errors.InvalidArgumentError):
        listed(dataset)
    assert listed(dataset.ignore_errors()) == [-0.5, -1.0, 1.0]
    # every warning is heard here, so those of NumPy, which are dropped else, are not to come up
    with pytest.warns(RuntimeWarning, match="ignore_errors"), np.errstate(divide="ignore"):
        listed(dataset.ignore_errors(log_warning=True))


def test_options_are_kept_and_merged():
    options = tk.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 4
    dataset = Dataset.range(3).with_options(options)
    more = tk.data.Options()
    more.autotune.enabled = True
    found = dataset.with_options(more).map(lambda x: x).options()
    assert (found.deterministic, found.autotune.enabled) == (False, True)
    assert found.threading.private_threadpool_size == 4
    assert listed(dataset) == [0, 1, 2]
    with pytest.raises(AttributeError, match="no setting 'determinstic'"):
        options.determinstic = True
    with pytest.raises(TypeError, match="Options is needed"):
        dataset.with_options({"deterministic": True})


def test_draws_of_each_pass():
    parts = [Dataset.range(100), Dataset.range(100, 200)]
    once = Dataset.sample_from_datasets(parts, seed=1)
    assert listed(once) == listed(once)
    again = Dataset.sample_from_datasets(parts, seed=1, rerandomize_each_iteration=True)
    assert listed(again) != listed(again)


def test_arrays_of_elements_are_the_users_own():
    x = np.zeros((2, 2))
    elements = Dataset.from_tensor_slices(x).as_numpy_iterator()
    first = elements.next()
    first[:] = 7
    assert next(elements).tolist() == [0, 0]
    with pytest.raises(StopIteration):
        elements.next()
    assert x.tolist() == [[0, 0], [0, 0]]


def test_names_and_hints_are_taken_everywhere():
    dataset = Dataset.range(8, name="r").map(lambda x: x, 2, deterministic=False, name="m")
    dataset = dataset.filter(lambda x: x > 1, name="f").batch(2, num_parallel_calls=2, name="b")
    dataset = dataset.unbatch(name="u").shuffle(1, name="s").take(5, name="t").cache(name="c")
    dataset = dataset.interleave(Dataset.from_tensors, block_length=None, name="i")
    assert listed(dataset.prefetch(None, name="p").enumerate(name="e")) == list(
        enumerate(range(2, 7))
    )
    assert int(dataset.reduce(np.int64(0), lambda a, b: a + b, name="r")) == 20
    assert listed(Dataset.zip(datasets=(Dataset.range(2),), name="z")) == [(0,), (1,)]


POSITIONS = {
    "rebatch": lambda: Dataset.range(20).batch(3).rebatch(4),
    "unique": lambda: Dataset.range(20).map(lambda n: n % 7).unique(),
    "counter": lambda: Dataset.counter(2, 3).take(9),
    "random": lambda: Dataset.random(seed=3, rerandomize_each_iteration=True).take(9),
    "text buffer": lambda: words(*"abcdefgh").filter(lambda s: s != "c").shuffle(4, seed=2),
    "groups": lambda: Dataset.range(20).group_by_window(
        lambda x: x % 3, lambda k, d: d.batch(2), 4
    ),
    "draws": lambda: Dataset.sample_from_datasets(
        [Dataset.range(9), Dataset.range(20, 29)], seed=1, rerandomize_each_iteration=True
    ),
}


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("taken", [0, 3])
def test_a_position_is_taken_up_again(name, taken, tmp_path):
    iterator = iter(POSITIONS[name]())
    for _ in range(taken):
        next(iterator)
    path = tk.train.Checkpoint(iterator=iterator).save(str(tmp_path / "at"))
    rest = [plain(x.numpy()) for x in iterator]
    other = iter(POSITIONS[name]())
    tk.train.Checkpoint(iterator=other).restore(path)
    assert [plain(x.numpy()) for x in other] == rest


def test_generators_without_shapes():
    dataset = Dataset.from_generator(lambda: iter([(1, [2, 3]), (2, [4])]), (tk.int64, tk.float32))
    assert [spec.rank for spec in dataset.element_spec] == [None, None]
    assert listed(dataset) == [(1, [2.0, 3.0]), (2, [4.0])]
    assert listed(dataset.padded_batch(2)) == [([1, 2], [[2.0, 3.0], [4.0, 0.0]])]
    turned = dataset.map(lambda a, b: (tk.reduce_sum(b), a))
    assert [spec.rank for spec in turned.element_spec] == [None, None]
    assert listed(turned.batch(2)) == [([5.0, 4.0], [1, 2])]
    one = Dataset.from_generator(lambda n: iter(range(n)), tk.int32, args=[3])
    assert listed(one.batch(2)) == [[0, 1], [2]]


def test_tables_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"n": [1, 2], "x": [1.5, 2.5], "s": ["a", "b"]})
    dataset = Dataset.from_tensor_slices((dict(table), table["n"]))
    assert listed(dataset) == [
        ({"n": 1, "x": 1.5, "s": b"a"}, 1),
        ({"n": 2, "x": 2.5, "s": b"b"}, 2),
    ]
    assert Dataset.from_tensor_slices(table[["n", "x"]]).element_spec == tk.TensorSpec(
        (2,), tk.float64
    )
