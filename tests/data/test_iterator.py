"""A pass is taken up again exactly where it was left."""

import functools
import gc
import threading
import weakref

import numpy as np
import pytest

from tests.conformance import completeness
from trainkit import data, ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.variable import Variable
from trainkit.data import AUTOTUNE, Dataset, TextLineDataset, experimental
from trainkit.data.experimental import CsvDataset
from trainkit.data.iterator import DatasetIterator
from trainkit.data.node import DatasetOp


def walked(n):
    return Dataset.from_generator(lambda: iter(range(n)), output_signature=TensorSpec((), "int64"))


def slow_square(n):
    return int(n) ** 2


PIPELINES = {
    "slices": lambda: Dataset.from_tensor_slices((np.arange(30), np.ones((30, 2)))).batch(4),
    "shuffled": lambda: Dataset.range(30).shuffle(30, seed=1).batch(4),
    "small buffer": lambda: Dataset.range(30).shuffle(7, seed=1).batch(4),
    "epochs": lambda: Dataset.range(11).shuffle(11, seed=1).repeat(3).batch(4),
    "shuffled twice": lambda: Dataset.range(30).shuffle(9, seed=1).shuffle(5, seed=2).batch(4),
    "repeated first": lambda: Dataset.range(10).repeat(3).shuffle(6, seed=3),
    "vectorized": lambda: Dataset.range(30).map(lambda n: n * 2).shuffle(8, seed=1).batch(4),
    "one by one": lambda: walked(30).map(slow_square).shuffle(8, seed=1).batch(4),
    "threads": lambda: walked(30).map(slow_square, num_parallel_calls=3).batch(4),
    "prefetched": lambda: Dataset.range(30).shuffle(30, seed=1).batch(4).prefetch(3),
    "prefetched automatically": lambda: Dataset.range(90).shuffle(9, seed=1).prefetch(AUTOTUNE),
    "cached": lambda: walked(9).cache().repeat(3).batch(4),
    "shuffled and cached": lambda: walked(9).shuffle(4, seed=2).cache().repeat(3),
    "filtered": lambda: Dataset.range(30).filter(lambda n: n % 3 == 0),
    "zipped": lambda: Dataset.zip(walked(20), Dataset.range(20).shuffle(9, seed=1)).batch(3),
    "joined": lambda: Dataset.range(6).concatenate(walked(6)).batch(5),
    "unbatched": lambda: Dataset.range(20).batch(6).unbatch(),
    "interleaved": lambda: Dataset.range(4).interleave(
        lambda n: Dataset.range(5), cycle_length=3, block_length=2
    ),
    "skipped": lambda: walked(20).skip(3).take(9).enumerate(),
    "sharded": lambda: walked(20).shard(3, 1),
    "scanned": lambda: walked(9).scan(np.int64(0), lambda s, n: (s + n, s)),
    "sampled": lambda: Dataset.sample_from_datasets([walked(9), walked(9)], seed=1),
    "padded": lambda: Dataset.range(1, 9).map(lambda n: np.ones(int(n))).padded_batch(3),
    "counted up": lambda: Dataset.counter(3, 2).take(9),
    "random numbers": lambda: Dataset.random(seed=4).take(9).shuffle(3, seed=1),
    "chosen": lambda: Dataset.choose_from_datasets([walked(5), walked(5)], walked(9).map(odd)),
    "one element": lambda: Dataset.from_tensors(np.arange(3)).repeat(4),
    "data sets": lambda: Dataset.from_tensor_slices([Dataset.range(n) for n in (2, 3, 1)]),
    "lists": lambda: Dataset.from_tensor_slices([np.arange(3)] * 4),
    "windows": lambda: walked(20).window(4, 3, stride=2),
    "windows of a key": lambda: walked(20).group_by_window(odd, lambda k, w: w.batch(3), 4),
    "batched again": lambda: walked(20).batch(6).rebatch(4),
    "unequal ones": lambda: walked(20).map(lambda n: n % 7).unique(),
    "errors left out": lambda: walked(20).map(inverse_of_odd).ignore_errors(),
    "a number that is stated": lambda: walked(9).apply(experimental.assert_cardinality(9)),
    "augmented": lambda: Dataset.range(20).repeat(2).batch(3).map(lambda b: ops.cast(b, "float32")),
}


# Of files, in a folder of their own.
FILE_PIPELINES = {
    "lines": lambda folder: TextLineDataset([table(folder, "a.csv"), table(folder, "b.csv")]),
    "table": lambda folder: CsvDataset(table(folder, "a.csv"), ["int64", "float32"], header=True),
    "kept in a file": lambda folder: walked(9).cache(str(folder / "kept")),
    "snapshot": lambda folder: walked(9).snapshot(str(folder / "snapshot")),
    "saved": lambda folder: saved(folder / "saved"),
}

# Steps that no row can be made for, with the reason.
WITHOUT = {
    "EndlessNode": "base of endless sources",
    "SameElements": "base of steps",
    "OneElementNode": "holds data sets: from_tensors((dataset,))",
    "StackedNode": "the elements of a window, which are stored with it",
    "SpecNode": "a made-up element, to try functions on",
    "PiecesNode": "shares of processes: tests/data/test_sharding.py takes them up again",
    "ShareNode": "the same",
    "ShareOfBatchNode": "the same",
    "SameShuffleNode": "the same",
}


def odd(n):
    return n % 2


def inverse_of_odd(n):
    if int(n) % 3 == 0:
        raise ValueError("no number")
    return n


def table(folder, name):
    path = folder / name
    if not path.exists():
        path.write_text("n,x\n" + "".join(f"{n},{n / 2}\n" for n in range(6)))
    return str(path)


def saved(folder):
    if not folder.exists():
        walked(9).save(str(folder))
    return Dataset.load(str(folder))


def steps_of(part, seen):
    """The classes of all steps that a step is made of."""
    if isinstance(part, list | tuple):
        for item in part:
            steps_of(item, seen)
    elif isinstance(part, DatasetOp):
        seen.add(type(part).__name__)
        for inner in vars(part).values():
            steps_of(inner, seen)
    return seen


def test_every_step_is_taken_up_again_in_a_row(tmp_path):
    names = completeness.defined(data, DatasetOp) - {"DatasetOp"}
    seen = set()
    for make in PIPELINES.values():
        steps_of(make().node, seen)
    for make in FILE_PIPELINES.values():
        steps_of(make(tmp_path).node, seen)
    missing = names - seen - set(WITHOUT)
    assert not missing, (
        f"add a pipeline to PIPELINES in tests/data/test_iterator.py for {sorted(missing)}: it is "
        "left and taken up again at every element"
    )
    assert set(WITHOUT) <= names - seen


def plain(element):
    parts = element if isinstance(element, tuple) else (element,)
    return [
        [plain(e) for e in x] if isinstance(x, Dataset) else np.asarray(x).tolist() for x in parts
    ]


@pytest.mark.parametrize("name", [*PIPELINES, *FILE_PIPELINES])
def test_resume_at_every_element(name, tmp_path):
    make = PIPELINES.get(name) or functools.partial(FILE_PIPELINES[name], tmp_path)
    whole = [plain(e) for e in make()]
    assert len(whole) > 2
    iterator = iter(make())
    for done in range(len(whole) + 1):
        arrays = iterator.state_arrays()
        assert all(type(a) is np.ndarray or isinstance(a, np.generic) for a in arrays.values())
        again = iter(make())  # as a new process would make it
        again.load_state_arrays(arrays)
        assert [plain(e) for e in again] == whole[done:], done
        if done < len(whole):
            assert plain(next(iterator)) == whole[done]


def test_later_passes_go_on_after_a_resume():
    def make():
        return Dataset.range(12).shuffle(12, seed=4).batch(5)

    uninterrupted = make()
    expected = [[plain(e) for e in uninterrupted] for _ in range(4)]
    stopped = make()
    list(stopped)
    iterator = iter(stopped)
    next(iterator)
    arrays = iterator.state_arrays()
    resumed = make()
    iterator = iter(resumed)
    iterator.load_state_arrays(arrays)
    rest = [plain(e) for e in iterator]
    assert rest == expected[1][1:]
    assert [[plain(e) for e in resumed] for _ in range(2)] == expected[2:]


def test_an_unseeded_order_is_stored_too():
    first = Dataset.range(50).shuffle(50).batch(5)
    iterator = iter(first)
    next(iterator)
    other = iter(Dataset.range(50).shuffle(50).batch(5))
    other.load_state_arrays(iterator.state_arrays())
    assert [plain(e) for e in other] == [plain(e) for e in iterator]


def test_state_of_data_in_memory_does_not_grow():
    iterator = iter(Dataset.range(100_000).shuffle(100_000).repeat().batch(10).prefetch(4))
    sizes = set()
    for _ in range(5):
        next(iterator)
        sizes.add(sum(a.nbytes for a in iterator.state_arrays().values()))
    assert max(sizes) < 200


def test_a_position_of_another_pipeline_is_refused_and_changes_nothing():
    iterator = iter(Dataset.range(10).batch(2))
    next(iterator)
    with pytest.raises(ValueError, match="does not fit"):
        iterator.load_state_arrays(iter(walked(3).enumerate()).state_arrays())
    assert plain(next(iterator)) == [[2, 3]]


def prefetch_threads():
    found = [t for t in threading.enumerate() if t.name.startswith("trainkit-")]
    return [t for t in found if t.name != "trainkit-pool"]  # it serves large loops, and stays


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.range(10_000).batch(2).prefetch(2),
        lambda: walked(10_000).map(slow_square, num_parallel_calls=2),
    ],
)
def test_no_thread_stays_when_iteration_stops_early(make):
    before = prefetch_threads()
    for _ in make():
        break
    gc.collect()
    assert [t for t in prefetch_threads() if t not in before and t.is_alive()] == []


def test_a_finished_pass_leaves_no_thread():
    dataset = Dataset.range(10).prefetch(2)
    iterator = iter(dataset)
    assert len(list(iterator)) == 10
    assert prefetch_threads() == []
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize("size", [1, 8, AUTOTUNE])
def test_errors_reach_the_consumer_in_their_place(size):
    def fail_at_five(n):
        if int(n) == 5:
            raise RuntimeError("broken file number 5")
        return n

    iterator = iter(Dataset.range(9).map(fail_at_five).prefetch(size))
    assert [int(next(iterator)) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="broken file number 5"):
        next(iterator)


@pytest.mark.parametrize("ahead", [0, 2])
def test_tapes_do_not_see_the_pipeline(ahead):
    v = Variable(2.0)
    dataset = Dataset.range(4).map(lambda n: ops.cast(n, "float32") * v).prefetch(ahead)
    with GradientTape() as tape:
        values = [float(x) for x in dataset]
    assert values == [0.0, 2.0, 4.0, 6.0]
    assert tape.watched_variables() == ()


def test_an_iterator_holds_on_to_nothing_after_use():
    iterator = iter(Dataset.range(4).prefetch(2))
    next(iterator)
    watcher = weakref.ref(iterator)
    del iterator
    assert watcher() is None


def test_an_iterator_is_a_trackable_without_parts():
    iterator = iter(Dataset.range(4).shuffle(4))
    assert isinstance(iterator, DatasetIterator)
    assert iterator.parts() == {}


@pytest.mark.parametrize("taken", range(6))
def test_a_pass_goes_back_behind_the_end_of_a_parallel_map(taken):
    # what is filtered is no array, of which a map would take all at once
    filtered = Dataset.range(6).filter(lambda n: n % 2 == 0)
    mapped = filtered.map(lambda n: n * 2, num_parallel_calls=2)
    pairs = Dataset.zip((mapped, Dataset.range(9)))
    dataset = pairs.shuffle(4, seed=1, reshuffle_each_iteration=False)
    numbers = [int(n) for n, _ in dataset]
    iterator = iter(dataset)
    begin = iterator.state_arrays()
    for _ in range(taken):
        next(iterator, None)
    iterator.load_state_arrays(begin)
    assert [int(n) for n, _ in iterator] == numbers


def test_next_is_a_method_too():
    iterator = iter(Dataset.range(1))
    assert int(iterator.next()) == 0
    with pytest.raises(StopIteration):
        iterator.next()
