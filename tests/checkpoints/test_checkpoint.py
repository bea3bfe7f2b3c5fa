import copy
import gc
import json
import os
import pickle
import warnings
import weakref

import h5py
import numpy as np
import pytest

import trainkit as tk
from tests.checkpoints.objects import Adam, Dense, Momentum, Net, Position, built_net, weights_of
from trainkit.checkpoints.checkpoint import Checkpoint, latest_checkpoint
from trainkit.checkpoints.restore.restoration import IncompleteRestoreWarning
from trainkit.core.errors import (
    CheckpointError,
    CheckpointMismatchError,
    InvalidArgumentError,
    NotFoundError,
)
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable


@pytest.fixture
def prefix(tmp_path):
    return str(tmp_path / "ckpt")


def datasets(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update(
                {name: item[()]} if isinstance(item, h5py.Dataset) else {}
            )
        )
    return found


def test_save_counts_and_returns_the_path_of_an_hdf5_file(prefix):
    checkpoint = Checkpoint(x=Variable([1.0, 2.0]))
    assert checkpoint.save(prefix) == prefix + "-1"
    assert checkpoint.save(prefix) == prefix + "-2"
    assert int(checkpoint.save_counter) == 2
    assert h5py.is_hdf5(prefix + "-2")


def test_a_prefix_may_be_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Checkpoint(x=Variable(1.0)).save("./ckpt/")
    assert path == "./ckpt/-1"
    assert latest_checkpoint("./ckpt/") == "./ckpt/-1"


def test_values_stand_in_the_file_under_their_path(prefix):
    net, optimizer = built_net(1.0), Momentum()
    optimizer.step(weights_of(net))
    path = Checkpoint(model=net, optimizer=optimizer).save(prefix)
    found = datasets(path)
    assert set(found) == {
        "save_counter",
        "optimizer/iterations",
        "optimizer/learning_rate",
        *(f"model/layers/{i}/{name}" for i in (0, 1) for name in ("kernel", "bias")),
        *(
            f"optimizer/momentum/model/layers/{i}/{name}"
            for i in (0, 1)
            for name in ("kernel", "bias")
        ),
    }
    np.testing.assert_array_equal(found["model/layers/1/kernel"], np.full((2, 4), 2.0))
    with h5py.File(path) as file:
        assert file["optimizer"].attrs["type"] == b"Momentum"


def test_restore_brings_values_back(prefix):
    net = built_net(1.0)
    path = Checkpoint(model=net).save(prefix)
    for weight in weights_of(net):
        weight.assign(weight * 0.0)
    Checkpoint(model=net).restore(path).assert_consumed()
    np.testing.assert_array_equal(net.layers[0].kernel.numpy(), np.ones((3, 2)))
    np.testing.assert_array_equal(net.layers[1].bias.numpy(), np.full(4, 2.0))


def test_a_tensor_read_before_keeps_its_value(prefix):
    big = Variable(np.ones(50_000, np.float32))
    path = Checkpoint(big=big).save(prefix)
    big.assign(np.zeros(50_000, np.float32))
    before = big.value()
    Checkpoint(big=big).restore(path)
    assert before.numpy().sum() == 0
    assert big.numpy().sum() == 50_000


@pytest.mark.parametrize(
    "value",
    [
        np.array([True, False]),
        np.array([[1, -2]], np.int8),
        np.arange(3, dtype=np.uint64),
        np.array([1.5, np.nan, -np.inf], np.float16),
        np.array([1e300]),
        np.array([1 + 2j], np.complex64),
        np.zeros((0, 3), np.float32),
    ],
    ids=lambda value: f"{value.dtype}{value.shape}",
)
def test_every_dtype_survives(prefix, value):
    path = Checkpoint(x=Variable(value)).save(prefix)
    fresh = Variable(np.zeros_like(value))
    Checkpoint(x=fresh).restore(path).assert_consumed()
    np.testing.assert_array_equal(fresh.numpy(), value)


def test_bfloat16_survives(prefix):
    x = Variable([1.0, -2.5], dtype="bfloat16")
    path = Checkpoint(x=x).save(prefix)
    fresh = Variable([0.0, 0.0], dtype="bfloat16")
    Checkpoint(x=fresh).restore(path).assert_consumed()
    assert fresh.dtype == "bfloat16"
    assert fresh.numpy().tolist() == [1.0, -2.5]


# ------------------------------------------------------------------ later


def test_a_variable_made_later_takes_its_value_at_once(prefix):
    path = Checkpoint(model=Net(Dense().build(3, 7.0))).save(prefix)
    late = Net(Dense())
    status = Checkpoint(model=late).restore(path)
    late.layers[0].build(3)
    assert late.layers[0].kernel.numpy().min() == 7.0
    status.assert_consumed()


def test_layers_appended_later_are_restored(prefix):
    path = Checkpoint(model=built_net(1.0)).save(prefix)
    late = Net()
    status = Checkpoint(model=late).restore(path)
    for _ in range(2):
        late.layers.append(Dense())
    late.layers[0].build(3)
    late.layers[1].units = 4
    late.layers[1].build(2)
    assert late.layers[1].bias.numpy().tolist() == [2.0] * 4
    status.assert_consumed()


def test_slots_made_later_are_restored(prefix):
    net, optimizer = built_net(1.0), Adam()
    for _ in range(3):
        optimizer.step(weights_of(net))
    path = Checkpoint(optimizer=optimizer, net=net).save(prefix)
    other, fresh = built_net(0.0), Adam()
    status = Checkpoint(optimizer=fresh, net=other).restore(path)
    assert int(fresh.iterations) == 3
    with pytest.raises(AssertionError, match="optimizer"):
        status.assert_consumed()
    fresh.step(reversed(weights_of(other)))
    assert fresh.slot("v", other.layers[0].kernel).max() == 4.0
    assert int(fresh.iterations) == 4
    status.assert_consumed()


def test_slots_wait_for_a_model_that_is_built_later(prefix):
    net, optimizer = built_net(1.0), Momentum()
    optimizer.step(weights_of(net), add=5.0)
    path = Checkpoint(optimizer=optimizer, net=net).save(prefix)
    late, fresh = Net(Dense(2), Dense(4)), Momentum()
    status = Checkpoint(optimizer=fresh, net=late).restore(path)
    late.layers[0].build(3)
    late.layers[1].build(2)
    fresh.step(weights_of(late), add=0.0)
    assert fresh.slot("momentum", late.layers[1].kernel).max() == 5.0
    status.assert_consumed()


def test_slots_of_weights_outside_of_the_tree_are_kept_in_order(prefix):
    net, optimizer = built_net(1.0), Momentum()
    optimizer.step(weights_of(net)[:1], add=3.0)
    optimizer.step(weights_of(net)[1:2], add=4.0)
    path = Checkpoint(optimizer=optimizer).save(prefix)
    assert "optimizer/momentum/@unattached/1" in datasets(path)
    other, fresh = built_net(0.0), Momentum()
    fresh.step(weights_of(other)[:2], add=0.0)
    Checkpoint(optimizer=fresh).restore(path).assert_consumed()
    assert fresh.slot("momentum", other.layers[0].bias).max() == 4.0


def test_slots_are_matched_by_weight_when_the_model_has_another_name_and_place(prefix):
    net, optimizer = built_net(1.0), Momentum()
    optimizer.step(weights_of(net), add=2.0)
    path = Checkpoint(optimizer=optimizer, old=net).save(prefix)
    moved, fresh = Trackable(), Momentum()
    moved.inner = built_net(0.0)
    fresh.step(weights_of(moved.inner), add=0.0)
    Checkpoint(old=moved.inner, optimizer=fresh).restore(path).assert_consumed()
    assert fresh.slot("momentum", moved.inner.layers[0].kernel).max() == 2.0


def test_a_replaced_part_is_not_restored_again(prefix):
    path = Checkpoint(a=Variable(1.0), model=Net(Dense().build(3, 7.0), Dense())).save(prefix)
    net = Net(Dense().build(3), Dense())
    holder = Checkpoint(model=net)
    status = holder.restore(path).expect_partial()
    net.layers[0] = Dense().build(3, 9.0)
    assert net.layers[0].kernel.numpy().max() == 9.0
    del status


def test_a_later_value_of_another_shape_is_an_error(prefix):
    path = Checkpoint(model=Net(Dense().build(3, 7.0))).save(prefix)
    late = Net(Dense())
    status = Checkpoint(model=late).restore(path).expect_partial()
    with pytest.raises(CheckpointMismatchError, match=r"kernel.*\(5, 2\).*\(3, 2\)"):
        late.layers[0].build(5)
    del status


def test_a_restored_file_may_be_removed_before_the_rest_is_made(prefix):
    path = Checkpoint(model=Net(Dense().build(3, 7.0))).save(prefix)
    late = Net(Dense())
    status = Checkpoint(model=late).restore(path)
    os.remove(path)
    late.layers[0].build(3)
    status.assert_consumed()
    assert late.layers[0].bias.numpy().max() == 7.0


def test_objects_that_wait_can_be_copied_and_pickled(prefix):
    path = Checkpoint(model=Net(Dense().build(3, 7.0)), x=Variable(1.0)).save(prefix)
    late = Net(Dense())
    status = Checkpoint(model=late).restore(path).expect_partial()
    twin = copy.deepcopy(late)
    pickle.loads(pickle.dumps(late))
    twin.layers[0].build(3)
    assert twin.layers[0].kernel.numpy().max() == 0.0
    del status


def test_restored_variables_are_freed_with_their_owner(prefix):
    path = Checkpoint(model=Net(Dense().build(3)), extra=Variable(0.0)).save(prefix)
    net = Net(Dense().build(3))
    Checkpoint(model=net).restore(path).expect_partial()
    gone = weakref.ref(net.layers[0].kernel)
    gc.disable()
    try:
        del net
        assert gone() is None
    finally:
        gc.enable()


# ------------------------------------------------------------------ shapes of trees


def test_shared_objects_are_stored_once_and_stay_shared(prefix):
    shared = Dense().build(3, 4.0)
    pair = Net(shared, shared)
    path = Checkpoint(first=pair, second=shared).save(prefix)
    with h5py.File(path) as file:
        assert file["first/layers/0"] == file["first/layers/1"] == file["second"]
    fresh = Dense().build(3)
    Checkpoint(first=Net(fresh, fresh), second=fresh).restore(path).assert_consumed()
    assert fresh.kernel.numpy().max() == 4.0


def test_what_was_shared_may_be_restored_into_separate_objects(prefix):
    shared = Dense().build(3, 4.0)
    path = Checkpoint(a=shared, b=shared).save(prefix)
    a, b = Dense().build(3), Dense().build(3)
    Checkpoint(a=a, b=b).restore(path).assert_consumed()
    assert a.kernel.numpy().max() == b.kernel.numpy().max() == 4.0


def test_cyclic_objects_survive(prefix):
    def ring(value):
        a, b = Trackable(), Trackable()
        a.next, b.next = b, a
        a.x, b.x = Variable(value), Variable(value + 1)
        return a

    path = Checkpoint(ring=ring(1.0)).save(prefix)
    fresh = ring(0.0)
    Checkpoint(ring=fresh).restore(path).assert_consumed()
    assert (float(fresh.x), float(fresh.next.x)) == (1.0, 2.0)


def test_dicts_lists_tuples_and_odd_names(prefix):
    def holder(value):
        made = Trackable()
        made.table = {
            name: Variable(value + i)
            for i, name in enumerate(["a/b", "..", "", "@state", "50%", "%2F"])
        }
        made.several = (Variable(value), [Variable(value + 9)])
        return made

    path = Checkpoint(h=holder(1.0)).save(prefix)
    fresh = holder(0.0)
    Checkpoint(h=fresh).restore(path).assert_consumed()
    assert [float(v) for v in fresh.table.values()] == [1, 2, 3, 4, 5, 6]
    assert float(fresh.several[1][0]) == 10.0


def test_checkpoints_nest(prefix):
    def pair(value):
        return Checkpoint(left=Variable(value), right=[Variable(value + 1), Variable(value + 2)])

    kept, fresh = pair(1.0), pair(0.0)
    kept.save(prefix + "own")
    path = Checkpoint(pair=kept).save(prefix)
    Checkpoint(pair=fresh).restore(path).assert_consumed()
    assert [float(v) for v in fresh.right] == [2.0, 3.0]
    assert int(fresh.save_counter) == 1


def test_the_parts_of_a_root_stand_at_the_top(prefix):
    net = built_net(1.0)
    path = Checkpoint(net, step=Variable(5)).save(prefix)
    assert "layers/0/kernel" in datasets(path)
    late, step = Net(Dense(2), Dense(4)), Variable(0)
    status = Checkpoint(root=late, step=step).restore(path)
    late.layers[0].build(3)
    late.layers[1].build(2)
    late.layers[1].bias.numpy()
    status.assert_consumed()
    assert int(step) == 5
    with pytest.raises(InvalidArgumentError, match="'layers'"):
        Checkpoint(net, layers=Variable(1))


def test_an_optimizer_may_be_the_root(prefix):
    net, optimizer = built_net(1.0), Momentum()
    optimizer.step(weights_of(net), add=2.0)
    path = Checkpoint(optimizer).save(prefix)
    other, fresh = built_net(1.0), Momentum()
    status = Checkpoint(fresh).restore(path)
    fresh.step(weights_of(other), add=0.0)
    status.assert_consumed()
    assert fresh.slot("momentum", other.layers[1].bias).max() == 2.0


def test_state_outside_of_variables_is_restored(prefix):
    path = Checkpoint(data=Position(7, (2, 0, 1))).save(prefix)
    fresh = Position()
    Checkpoint(data=fresh).restore(path).assert_consumed()
    assert (fresh.position, fresh.order) == (7, (2, 0, 1))


def test_texts_may_be_state(prefix):
    class Notes(Position):
        def state_arrays(self):
            return {"texts": np.array(self.order)}

        def load_state_arrays(self, arrays):
            self.order = tuple(arrays["texts"].tolist())

    path = Checkpoint(notes=Notes(0, ("übung", "", "b"))).save(prefix)
    fresh = Notes(0, ("",))
    Checkpoint(notes=fresh).restore(path).assert_consumed()
    assert fresh.order == ("übung", "", "b")


def test_state_of_a_part_made_later_is_restored(prefix):
    path = Checkpoint(data=Net(Position(7))).save(prefix)
    late = Net()
    status = Checkpoint(data=late).restore(path)
    late.layers.append(Position())
    assert late.layers[0].position == 7
    status.assert_consumed()


def test_state_that_its_owner_refuses_leaves_all_as_it_was(prefix):
    class Other(Position):
        def load_state_arrays(self, arrays):
            raise ValueError("not mine")

    path = Checkpoint(a=Position(7), b=Position(8), x=Variable(1.0)).save(prefix)
    a, x = Position(1), Variable(0.0)
    with pytest.raises(CheckpointError, match="'b' can't take its state: not mine"):
        Checkpoint(a=a, b=Other(), x=x).restore(path)
    assert (a.position, float(x)) == (1, 0.0)


# ------------------------------------------------------------------ statuses


def test_assertions_tell_what_is_missing_and_what_is_unused(prefix):
    path = Checkpoint(a=Variable(1.0), b=Variable(2.0)).save(prefix)
    partial = Checkpoint(a=Variable(0.0))
    status = partial.restore(path)
    status.assert_existing_objects_matched().assert_nontrivial_match()
    with pytest.raises(AssertionError, match=r"b +in the file only"):
        status.assert_consumed()
    partial.b = Variable(0.0)
    assert float(partial.b) == 2.0
    status.assert_consumed()
    partial.c = Variable(0.0)
    with pytest.raises(AssertionError, match=r"c +not in the file"):
        status.assert_existing_objects_matched()
    status.expect_partial()


def test_a_restore_of_nothing_is_told(prefix):
    path = Checkpoint(a=Variable(1.0)).save(prefix)
    status = Checkpoint(b=Variable(0.0)).restore(path).expect_partial()
    with pytest.raises(AssertionError, match="nothing was restored"):
        status.assert_nontrivial_match()
    nothing = Checkpoint(a=Variable(0.0)).restore(None).expect_partial()
    with pytest.raises(AssertionError, match="no checkpoint"):
        nothing.assert_consumed()


def test_a_dropped_status_warns_with_the_report(prefix):
    path = Checkpoint(a=Variable(1.0), b=Variable(2.0)).save(prefix)
    with pytest.warns(IncompleteRestoreWarning, match=r"b +in the file only: \(\) float32"):
        Checkpoint(a=Variable(0.0)).restore(path)
    with pytest.warns(IncompleteRestoreWarning, match=r"c +not in the file"):
        Checkpoint(a=Variable(0.0), b=Variable(0.0), c=Variable(0.0)).restore(path)


def test_expect_partial_and_waiting_objects_do_not_warn(prefix):
    net, optimizer = built_net(1.0), Momentum()
    optimizer.step(weights_of(net))
    path = Checkpoint(model=net, optimizer=optimizer).save(prefix)
    Checkpoint(model=net).restore(path).expect_partial()
    late, fresh = Net(Dense(), Dense(4)), Momentum()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Checkpoint(model=late, optimizer=fresh).restore(path)
        late.layers[0].build(3)
        late.layers[1].build(2)
        fresh.step(weights_of(late))


def test_what_is_never_made_is_warned_of_at_the_end(prefix):
    path = Checkpoint(model=built_net(1.0)).save(prefix)
    late = Net()
    Checkpoint(model=late).restore(path)
    with pytest.warns(IncompleteRestoreWarning, match="layers"):
        del late


# ------------------------------------------------------------------ errors


def test_other_shapes_and_dtypes_raise_and_change_nothing(prefix):
    path = Checkpoint(a=Variable([1.0, 2.0]), b=Variable(1), c=Variable(5.0)).save(prefix)
    here = Checkpoint(a=Variable([0.0]), b=Variable(0.0), c=Variable(0.0))
    with pytest.raises(CheckpointMismatchError) as caught:
        here.restore(path)
    text = str(caught.value)
    assert "other shape: object (1,) float32, file (2,) float32" in text
    assert "other dtype: object () float32, file () int32" in text
    assert [d.kind for d in caught.value.report.differences] == ["other shape", "other dtype"]
    assert float(here.c) == 0.0
    assert isinstance(caught.value, ValueError)


def test_a_missing_file_is_named():
    with pytest.raises(NotFoundError, match="'nowhere/ckpt-1'"):
        Checkpoint(x=Variable(1.0)).restore("nowhere/ckpt-1")


def test_what_has_no_state_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"step is a int.*tk\.Variable"):
        Checkpoint(step=3)
    with pytest.raises(InvalidArgumentError, match="root"):
        Checkpoint(Variable(1.0))


def test_a_save_that_fails_does_not_count(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    checkpoint = Checkpoint(x=Variable(1.0))
    with pytest.raises(OSError, match="file"):
        checkpoint.save(str(blocked / "ckpt"))
    assert int(checkpoint.save_counter) == 0


def test_deep_nesting_is_refused_when_saving(prefix):
    top = bottom = Trackable()
    for _ in range(300):
        bottom.below = Trackable()
        bottom = bottom.below
    with pytest.raises(InvalidArgumentError, match="nested more than"):
        Checkpoint(top=top).save(prefix)


# ------------------------------------------------------------------ the latest


def test_the_latest_is_the_one_saved_last_not_the_one_with_the_largest_number(prefix, tmp_path):
    checkpoint = Checkpoint(x=Variable(1.0))
    first = checkpoint.save(prefix)
    for _ in range(3):
        checkpoint.save(prefix)
    checkpoint.restore(first)
    again = checkpoint.save(prefix)
    assert again == prefix + "-2"
    assert latest_checkpoint(str(tmp_path)) == again


def test_a_clock_that_goes_back_does_not_matter(prefix, tmp_path, monkeypatch):
    checkpoint = Checkpoint(x=Variable(1.0))
    checkpoint.save(prefix)
    monkeypatch.setattr("time.time_ns", lambda: 1)
    assert latest_checkpoint(str(tmp_path)) != checkpoint.save(prefix) + "x"
    assert latest_checkpoint(str(tmp_path)) == prefix + "-2"


def test_cut_and_foreign_files_are_passed_over(prefix, tmp_path):
    checkpoint = Checkpoint(x=Variable(1.0))
    good, cut = checkpoint.save(prefix), checkpoint.save(prefix)
    os.truncate(cut, 1000)
    (tmp_path / "notes-7").write_text("hello")
    assert latest_checkpoint(str(tmp_path)) == good
    assert latest_checkpoint(str(tmp_path / "none")) is None


def test_a_file_list_is_not_supported(tmp_path):
    with pytest.raises(InvalidArgumentError, match="latest_filename"):
        latest_checkpoint(str(tmp_path), "checkpoint")


def test_write_and_read_take_the_path_as_it_is(prefix):
    x = Variable(3.0)
    assert Checkpoint(x=x).write(prefix) == prefix
    x.assign(0.0)
    Checkpoint(x=x).read(prefix).assert_consumed()
    assert float(x) == 3.0


# ------------------------------------------------------------------ manifest


def test_the_manifest_tells_how_the_file_was_made(prefix, tmp_path, monkeypatch):
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git" / "refs" / "heads" / "main").write_text("ab" * 20 + "\n")
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    net, optimizer = built_net(1.0), Momentum()
    optimizer.step(weights_of(net))
    path = Checkpoint(optimizer=optimizer, model=net).save(prefix)
    with h5py.File(path) as file:
        manifest = json.loads(file.attrs["manifest"])
    assert manifest["git_commit"] == "ab" * 20
    assert manifest["step"] == 1
    assert manifest["device"].startswith("/device:")
    assert manifest["versions"]["numpy"] == np.__version__
    assert manifest["saved_at"].startswith("20")


def test_checkpoints_of_parts_stand_in_the_places_of_models_and_optimizers(tmp_path):
    class Headed(tk.Model):
        def __init__(self):
            super().__init__()
            self.head = tk.layers.Dense(3)

        def call(self, x):
            return self.head(x)

    model = Headed()
    model(tk.ones((1, 1)))
    adam = tk.optimizers.Adam(0.1)
    adam.build(model.trainable_variables)
    adam.iterations.assign(7)
    path = Checkpoint(model=model, optimizer=adam).save(tmp_path / "c")
    bias, steps = Variable(np.ones(3, "float32")), Variable(0, dtype="int64")
    fake = Checkpoint(head=Checkpoint(bias=bias))
    status = Checkpoint(model=fake, optimizer=Checkpoint(iterations=steps)).restore(path)
    status.assert_existing_objects_matched().expect_partial()
    assert (bias.numpy().tolist(), int(steps)) == ([0.0, 0.0, 0.0], 7)
    other = Checkpoint(model=fake, optimizer=tk.optimizers.SGD(0.1)).restore(path)
    with pytest.raises(AssertionError, match="other optimizer: object SGD, file Adam"):
        other.assert_existing_objects_matched()
    other.expect_partial()
