"""Of several processes the first prints and writes; all of them go on from what it wrote."""

import json

from tests.distribution.processes import needs_mpi, run_processes

pytestmark = needs_mpi

MODEL = """
import json, os, pathlib
folder = pathlib.Path(sys.argv[1])
random = np.random.default_rng(0)
x = random.normal(size=(50, 3)).astype("float32")
y = x.sum(axis=1, keepdims=True)
keras = tk.keras

def made():
    tk.random.set_seed(3)
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile("adam", "mse")
    return model

def weights(model):
    return [w.numpy().tolist() for w in model.weights]
"""

WRITING = """
writes = []
opened = open
def noted(event, arguments):  # what this process opens to write, or makes
    if event not in ("open", "os.mkdir", "os.rename", "os.remove"):
        return
    if str(arguments[0]).startswith(str(folder)):
        if event != "open" or "r" not in (arguments[1] or "w") or "+" in (arguments[1] or ""):
            writes.append(str(arguments[0]))
sys.addaudithook(noted)
model = made()
history = model.fit(x, y, 8, 2, verbose=2, validation_data=(x, y), callbacks=[
    keras.callbacks.ModelCheckpoint(folder / "of_{epoch}" / "best.keras", verbose=1),
    keras.callbacks.ModelCheckpoint(
        folder / "each.weights.h5", save_weights_only=True, save_freq=3),
    keras.callbacks.CSVLogger(folder / "log.csv"),
    keras.callbacks.TensorBoard(folder / "logs", histogram_freq=1, update_freq="batch",
                                write_gradients=True, time_budget=1.0),
    keras.callbacks.BackupAndRestore(folder / "backup", save_freq=2, delete_checkpoint=False),
    keras.callbacks.ReduceLROnPlateau("loss", patience=0, min_delta=100.0, verbose=1),
])
model.evaluate(x, y)
model.save(folder / "saved.keras")
model.save_weights(folder / "saved.weights.h5")
keras.models.save_model(model, folder / "again.keras")
strategy.group.barrier("all is written")
assert bool(writes) == (rank == 0), writes
again = made()
again.load_weights(folder / "saved.weights.h5")
assert weights(again) == weights(model)
with strategy.scope():
    loaded = keras.models.load_model(folder / "of_2" / "best.keras")
assert loaded.evaluate(x, y, 8, verbose=0) == history.history["val_loss"][-1]
(folder / f"{rank}.json").write_text(json.dumps([history.history, weights(model)]))
"""


def test_the_first_process_prints_and_writes(tmp_path):
    done = run_processes(2, MODEL + WRITING, (tmp_path,))
    lines = done.stdout.splitlines()
    for text in ("Epoch 1/2", "Epoch 2/2", "Evaluated"):
        assert sum(line.startswith(text) for line in lines) == 1, done.stdout
    assert done.stdout.count("saved ") == 2
    assert done.stdout.count("the learning rate falls") == 1
    assert done.stderr == ""
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert ranks[0] == ranks[1]
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3
    assert (tmp_path / "logs" / "train").is_dir()


RESUMED = """
class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.params["epochs"] == 3 and batch == 2 and self.seen == 1 and self.breaks:
            raise KeyError("broken off")
    def on_epoch_begin(self, epoch, logs=None):
        self.seen = epoch

def run(name, breaks):
    model = made()
    hook = Breaks()
    hook.breaks = breaks
    backup = keras.callbacks.BackupAndRestore(folder / name, save_freq=2)
    history = model.fit(x, y, 8, 3, verbose=0, callbacks=[hook, backup])
    return history.history, weights(model)

whole = run("whole", False)
try:
    run("broken", True)
    raise AssertionError("it was not broken off")
except KeyError:
    pass
resumed = run("broken", False)
assert resumed == whole
assert not (folder / "broken").exists()
(folder / f"{rank}.json").write_text(json.dumps(resumed))
"""


def test_a_run_that_was_broken_off_goes_on_to_the_bit(tmp_path):
    run_processes(2, MODEL + RESUMED, (tmp_path,))
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert ranks[0] == ranks[1]
