"""Data sets divided among replicas: the parts of all make the batches of one."""

import re

import numpy as np
import pytest

import trainkit as tk
from trainkit.data.sharding import sharded
from trainkit.data.transformations.sharing import share

D = tk.data.Dataset
POLICY = tk.data.experimental.AutoShardPolicy
HINT = tk.data.experimental.SHARD_HINT
ROWS = np.arange(23, dtype=np.float32)

PIPELINES = {
    "slices": lambda: D.from_tensor_slices(ROWS).batch(7),
    "shuffled": lambda: D.from_tensor_slices(ROWS).shuffle(100).batch(7).prefetch(2),
    "small buffer, pure map, passes": lambda: (
        D.from_tensor_slices(ROWS).shuffle(5).map(lambda v: v * 2).batch(7).take(2).repeat(2)
    ),
    "python map": lambda: D.from_tensor_slices(ROWS).map(lambda v: v.numpy() + 1).batch(7),
    "batches shuffled": lambda: D.from_tensor_slices(ROWS).batch(7).shuffle(100),
    "passes before": lambda: D.from_tensor_slices(ROWS).repeat(2).batch(7),
    "without end": lambda: D.from_tensor_slices(ROWS).repeat().batch(7).take(9),
    "function of batches": lambda: D.from_tensor_slices(ROWS).batch(7).map(lambda v: v - v[0]),
    "generator": lambda: D.from_generator(lambda: iter(ROWS), output_types="float32").batch(7),
    "no remainder": lambda: D.from_tensor_slices(ROWS).batch(7, drop_remainder=True),
    "last batch of one": lambda: D.from_tensor_slices(ROWS[:22]).batch(7),
    "pairs": lambda: D.from_tensor_slices((ROWS, {"a": ROWS})).batch(7).map(lambda x, y: y["a"]),
}


def with_policy(dataset, policy):
    options = tk.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    return dataset.with_options(options)


@pytest.mark.parametrize("replicas", [2, 3, 7])
@pytest.mark.parametrize("name", PIPELINES)
def test_shares_of_all_replicas_are_the_batches_of_one(name, replicas):
    def made():
        tk.random.set_seed(1)
        return PIPELINES[name]()

    whole = [batch.numpy() for batch in made()]
    parts = [list(sharded(made(), replicas, r).dataset) for r in range(replicas)]
    assert [len(part) for part in parts] == [len(whole)] * replicas
    for number, batch in enumerate(whole):
        rows = []
        for r in range(replicas):
            mine, place = parts[r][number]
            assert tuple(place.numpy()) == share(len(batch), replicas, r)
            assert len(mine) == max(place[1], 1)
            rows.append(mine.numpy()[: int(place[1])])
        np.testing.assert_array_equal(np.concatenate(rows), batch)


def test_rows_of_other_replicas_are_not_gathered(monkeypatch):
    from trainkit.data.sources import ArrayRows

    gathered = []
    take = ArrayRows.gather
    monkeypatch.setattr(
        ArrayRows, "gather", lambda self, i: (gathered.extend(i.tolist()), take(self, i))[1]
    )
    part = sharded(D.from_tensor_slices(ROWS).shuffle(23, seed=1).batch(8), 4, 1)
    assert len(list(part.dataset)) == 3
    assert len(gathered) == 2 + 2 + 2


@pytest.mark.parametrize("name", ["shuffled", "small buffer, pure map, passes", "generator"])
def test_pass_over_shares_is_taken_up_again(name):
    tk.random.set_seed(1)
    data = sharded(PIPELINES[name](), 3, 1).dataset
    iterator = iter(data)
    next(iterator)
    stored = iterator.state_arrays()
    rest = [(x.numpy().tolist(), p.numpy().tolist()) for x, p in iterator]
    again = iter(data)
    again.load_state_arrays(stored)
    assert [(x.numpy().tolist(), p.numpy().tolist()) for x, p in again] == rest


def test_second_pass_has_the_order_that_one_replica_would_have():
    tk.random.set_seed(1)
    data = D.from_tensor_slices(ROWS).batch(7).shuffle(9)
    part = sharded(data, 2, 0).dataset
    first, second = ([x.numpy().tolist() for x, _ in part] for _ in range(2))
    assert first != second
    assert data.node.iteration == 2


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{i}.txt" for i in range(5)]
    for i, path in enumerate(paths):
        path.write_text("\n".join(f"{i}{j}" for j in range(4)))
    return [str(path) for path in paths]


FILES = {
    "names": lambda names: tk.data.TextLineDataset(names),
    "interleaved": lambda names: D.from_tensor_slices(names).interleave(
        tk.data.TextLineDataset, cycle_length=2
    ),
    "listed and shuffled": lambda names: D.list_files(
        names[0].replace("0.txt", "*.txt"), seed=3
    ).flat_map(lambda name: tk.data.TextLineDataset(name).map(lambda line: line)),
    "csv": lambda names: tk.data.experimental.CsvDataset(names, [""]),
    "kept": lambda names: tk.data.TextLineDataset(names).map(lambda line: line).cache(),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("policy", [None, POLICY.AUTO, POLICY.FILE])
def test_each_replica_reads_files_of_its_own(files, kind, policy):
    data = FILES[kind](files).batch(4)
    data = data if policy is None else with_policy(data, policy)
    lines = []
    for r in range(2):
        part = sharded(data, 2, r)
        assert not part.placed
        batches = [np.ravel(nested(b)) for b in part.dataset]
        assert {len(b) for b in batches} == {2}  # of 4 for both together
        found = np.concatenate(batches).tolist()
        assert {line[:1] for line in found} == ({b"0", b"2", b"4"}, {b"1", b"3"})[r]
        lines += found
    assert sorted(lines) == sorted(f"{i}{j}".encode() for i in range(5) for j in range(4))


def nested(batch):
    return (batch[0] if isinstance(batch, tuple) else batch).numpy()


def test_records_are_divided_by_file(tmp_path):
    paths = [str(tmp_path / f"{i}.tfrecord") for i in range(2)]
    for i, path in enumerate(paths):
        with tk.io.TFRecordWriter(path) as file:
            for j in range(3):
                file.write(f"{i}{j}".encode())
    data = tk.data.TFRecordDataset(paths).batch(4)
    found = [[x for b in sharded(data, 2, r).dataset for x in b.numpy()] for r in range(2)]
    assert found == [[b"00", b"01", b"02"], [b"10", b"11", b"12"]]


def test_fewer_files_than_replicas_are_divided_by_rows(files):
    part = sharded(tk.data.TextLineDataset(files).batch(8), 6, 0)
    assert part.placed
    with pytest.raises(tk.errors.InvalidArgumentError, match="5 files can't be divided among 6"):
        sharded(with_policy(tk.data.TextLineDataset(files).batch(8), POLICY.FILE), 6, 0)


def test_hint_says_where_the_pipeline_is_divided():
    data = with_policy(D.range(11).shard(HINT, HINT).batch(4), POLICY.HINT)
    found = [[b.numpy().tolist() for b in sharded(data, 2, r).dataset] for r in range(2)]
    assert found == [[[0, 2], [4, 6], [8], [10]], [[1, 3], [5, 7], [9]]]


def test_off_leaves_the_elements_alone():
    data = with_policy(D.range(11).batch(4), POLICY.OFF)
    found = [b.numpy().tolist() for b in sharded(data, 2, 1).dataset]
    assert found == [[0, 1], [2, 3], [4, 5], [6, 7], [8], [9, 10]]


def test_pieces_are_taken_up_again():
    data = sharded(with_policy(D.range(11).batch(4), POLICY.OFF), 2, 1).dataset
    iterator = iter(data)
    for _ in range(3):
        next(iterator)
    stored, rest = iterator.state_arrays(), [b.numpy().tolist() for b in iterator]
    again = iter(data)
    again.load_state_arrays(stored)
    assert [b.numpy().tolist() for b in again] == rest


@pytest.mark.parametrize(
    ("data", "policy", "message"),
    [
        (D.range(4).batch(2), POLICY.FILE, "this one reads none; use AutoShardPolicy.DATA"),
        (D.range(4).batch(2), POLICY.HINT, "needs dataset.shard(SHARD_HINT, SHARD_HINT)"),
        (D.range(4).batch(2), POLICY.DATA, "a batch of 2 can't be divided among 3 replicas"),
    ],
)
def test_what_can_not_be_divided_says_what_to_do(data, policy, message):
    with pytest.raises(tk.errors.InvalidArgumentError, match=re.escape(message)):
        sharded(with_policy(data, policy), 3, 0)


def test_hint_without_a_strategy_is_an_error():
    with pytest.raises(tk.errors.FailedPreconditionError, match="a strategy says which shard"):
        list(D.range(3).shard(HINT, HINT))


def test_policy_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"one of AutoShardPolicy.OFF, .* got 9"):
        tk.data.Options().experimental_distribute.auto_shard_policy = 9
