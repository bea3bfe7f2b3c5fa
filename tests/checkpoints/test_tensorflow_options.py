"""`CheckpointOptions` with the arguments that TensorFlow has."""

import numpy as np
import pytest

import trainkit as tk

Options = tk.train.CheckpointOptions


@pytest.mark.parametrize("background", [False, True])
def test_callbacks_hear_what_was_written(tmp_path, background):
    heard = []
    options = Options(
        experimental_write_callbacks=[heard.append, lambda: heard.append("then")],
        experimental_enable_async_checkpoint=background,
    )
    assert options.enable_async is background
    checkpoint = tk.train.Checkpoint(w=tk.Variable(1.0))
    saved = checkpoint.save(str(tmp_path / "ckpt"), options=options)
    written = checkpoint.write(str(tmp_path / "one"), options=options)
    manager = tk.train.CheckpointManager(checkpoint, str(tmp_path / "m"), max_to_keep=2)
    managed = manager.save(options=options)
    checkpoint.sync()
    assert heard == [saved, "then", written, "then", managed, "then"]


def test_what_a_callback_raises_does_not_undo_the_save(tmp_path):
    def refuses():
        raise KeyError("mine")

    checkpoint = tk.train.Checkpoint(w=tk.Variable(1.0))
    with pytest.raises(KeyError, match="mine"):
        checkpoint.save(
            str(tmp_path / "ckpt"), options=Options(experimental_write_callbacks=[refuses])
        )
    assert int(checkpoint.save_counter) == 1
    assert tk.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-1")


@pytest.mark.parametrize("device", [None, "/job:localhost", "CPU:0", "/device:CPU:0"])
def test_this_host_writes(tmp_path, device):
    options = Options(experimental_io_device=device)
    tk.train.Checkpoint(w=tk.Variable(1.0)).save(str(tmp_path / "ckpt"), options=options)


def test_what_is_not_supported_is_refused():
    with pytest.raises(tk.errors.InvalidArgumentError, match="give None or '/job:localhost'"):
        Options(experimental_io_device="/job:worker/task:1")
    with pytest.raises(tk.errors.InvalidArgumentError, match="a function of the path"):
        Options(experimental_write_callbacks=[lambda path, other: None])
    with pytest.raises(tk.errors.UnimplementedError, match="a checkpoint is one file"):
        Options(experimental_sharding_callback=len)


def _trained():
    model = tk.keras.Sequential([tk.keras.Input((2,)), tk.keras.layers.Dense(1)])
    model.compile(tk.keras.optimizers.Adam(0.1), "mse")
    return model


@pytest.mark.parametrize("slots_made", [False, True])
def test_slots_are_left_alone_where_that_is_asked(tmp_path, slots_made):
    x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
    first = _trained()
    first.fit(x, y, verbose=0)
    path = tk.train.Checkpoint(model=first, optimizer=first.optimizer).write(str(tmp_path / "c"))
    second = _trained()
    if slots_made:
        second.fit(x, y, verbose=0)
    kept = [v.numpy() for _, _, v in second.optimizer.slot_variables()]
    status = tk.train.Checkpoint(model=second, optimizer=second.optimizer).restore(
        path, options=Options(experimental_skip_slot_variables=True)
    )
    status.assert_consumed()
    if not slots_made:
        second.optimizer.build(second.trainable_variables)
        kept = [np.zeros_like(v) for _, _, v in second.optimizer.slot_variables()]
    for one, other in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(second.optimizer.iterations) == 1
    for value, (_, _, slot) in zip(kept, second.optimizer.slot_variables(), strict=True):
        np.testing.assert_array_equal(value, slot)


def test_a_manager_counts_from_the_last_checkpoint_that_it_is_given(tmp_path):
    step = tk.Variable(0, dtype="int64")
    manager = tk.train.CheckpointManager(
        tk.train.Checkpoint(step=step),
        str(tmp_path),
        max_to_keep=2,
        step_counter=step,
        checkpoint_interval=5,
        last_checkpoint_step=3,
    )
    step.assign(7)
    assert manager.save() is None
    step.assign(8)
    assert manager.save() is not None
