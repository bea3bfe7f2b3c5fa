"""Whatever takes a path refuses an address by its scheme, and makes no folder called `s3:`."""

import os

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras

X = np.zeros((2, 4, 4, 3), "float32")


def model():
    made = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
    made.compile("sgd", "mse")
    return made


def checkpoint():
    return tk.train.Checkpoint(step=tk.Variable(1))


def elements():
    return tk.data.Dataset.range(3)


def drawn(folder):
    return next(keras.preprocessing.image.ImageDataGenerator().flow(X, save_to_dir=folder))


TAKERS = {
    "save_weights": lambda p: model().save_weights(f"{p}.weights.h5"),
    "save_weights, Keras 2": lambda p: model().save_weights(f"{p}.h5"),
    "save_weights, safetensors": lambda p: model().save_weights(f"{p}.safetensors"),
    "save_weights, npz": lambda p: model().save_weights(f"{p}.npz"),
    "load_weights": lambda p: model().load_weights(f"{p}.weights.h5"),
    "load_weights, folder": lambda p: model().load_weights(p),
    "save": lambda p: model().save(f"{p}.keras"),
    "save, Keras 2": lambda p: model().save(f"{p}.h5"),
    "save, folder": lambda p: tk.models.save_model(model(), p, zipped=False),
    "load_model": lambda p: tk.models.load_model(f"{p}.keras"),
    "load_model, Keras 2": lambda p: tk.models.load_model(f"{p}.h5"),
    "load_model, folder": tk.models.load_model,
    "FeatureSpace.save": lambda p: keras.utils.FeatureSpace({"a": "float"}).save(f"{p}.keras"),
    "keras.saving.save_weights": lambda p: keras.saving.save_weights(model(), f"{p}.weights.h5"),
    "keras.saving.load_weights": lambda p: keras.saving.load_weights(model(), f"{p}.weights.h5"),
    "KerasFileEditor": lambda p: keras.saving.KerasFileEditor(f"{p}.keras"),
    "export": lambda p: model().export(p),
    "saved_model.save": lambda p: tk.saved_model.save(model(), p),
    "saved_model.load": tk.saved_model.load,
    "contains_saved_model": tk.saved_model.contains_saved_model,
    "saved_graph.save": lambda p: tk.saved_graph.save(tk.function(lambda x: x), p, tk.ones([2])),
    "saved_graph.load": tk.saved_graph.load,
    "TFSMLayer": tk.layers.TFSMLayer,
    "Checkpoint.save": lambda p: checkpoint().save(p),
    "Checkpoint.write": lambda p: checkpoint().write(p),
    "Checkpoint.restore": lambda p: checkpoint().restore(p),
    "Checkpoint.read": lambda p: checkpoint().read(p),
    "CheckpointManager": lambda p: tk.train.CheckpointManager(checkpoint(), p, 3),
    "latest_checkpoint": tk.train.latest_checkpoint,
    "list_variables": tk.train.list_variables,
    "load_checkpoint": tk.train.load_checkpoint,
    "load_variable": lambda p: tk.train.load_variable(p, "a"),
    "get_checkpoint_state": tk.train.get_checkpoint_state,
    "ModelCheckpoint": lambda p: tk.callbacks.ModelCheckpoint(f"{p}/{{epoch}}.keras"),
    "BackupAndRestore": tk.callbacks.BackupAndRestore,
    "CSVLogger": tk.callbacks.CSVLogger,
    "TensorBoard": tk.callbacks.TensorBoard,
    "TerminateOnNaN": lambda p: tk.callbacks.TerminateOnNaN(bundle_dir=p),
    "reproduce": lambda p: tk.callbacks.TerminateOnNaN.reproduce(p, model()),
    "create_file_writer": tk.summary.create_file_writer,
    "trace_on": lambda p: tk.summary.trace_on(profiler=True, profiler_outdir=p),
    "profiler.start": tk.profiler.experimental.start,
    "TextLineDataset": tk.data.TextLineDataset,
    "TFRecordDataset": tk.data.TFRecordDataset,
    "FixedLengthRecordDataset": lambda p: tk.data.FixedLengthRecordDataset(p, 2),
    "names in a data set": lambda p: list(
        tk.data.TextLineDataset(tk.data.Dataset.from_tensor_slices([os.fspath(p)]))
    ),
    "CsvDataset": lambda p: tk.data.experimental.CsvDataset(p, [0]),
    "make_csv_dataset": lambda p: tk.data.experimental.make_csv_dataset(p, 2),
    "list_files": tk.data.Dataset.list_files,
    "matching_files": tk.io.matching_files,
    "cache": lambda p: elements().cache(p),
    "snapshot": lambda p: elements().snapshot(p),
    "Dataset.save": lambda p: elements().save(p),
    "Dataset.load": tk.data.Dataset.load,
    "read_file": tk.io.read_file,
    "write_file": lambda p: tk.io.write_file(p, "x"),
    "TFRecordWriter": tk.io.TFRecordWriter,
    "GFile": lambda p: tk.io.gfile.GFile(p, "w"),
    "gfile.exists": tk.io.gfile.exists,
    "gfile.makedirs": tk.io.gfile.makedirs,
    "gfile.glob": lambda p: tk.io.gfile.glob(f"{p}*"),
    "gfile.copy": lambda p: tk.io.gfile.copy("a", p),
    "image_dataset_from_directory": keras.utils.image_dataset_from_directory,
    "text_dataset_from_directory": keras.utils.text_dataset_from_directory,
    "audio_dataset_from_directory": keras.utils.audio_dataset_from_directory,
    "flow_from_directory": keras.preprocessing.image.ImageDataGenerator().flow_from_directory,
    "flow(save_to_dir)": drawn,
    "load_img": keras.utils.load_img,
    "save_img": lambda p: keras.utils.save_img(f"{p}.png", X[0]),
    "get_file": lambda p: keras.utils.get_file("a.txt", origin=str(p)),
    "get_file(cache_dir)": lambda p: keras.utils.get_file("a", origin="file:///a", cache_dir=p),
    "plot": lambda p: keras.utils.model_to_dot(model()).write(p),
    "mnist": tk.datasets.mnist.load_data,
    "cifar10": tk.datasets.cifar10.load_data,
    "imdb": tk.datasets.imdb.load_data,
    "get_word_index": tk.datasets.imdb.get_word_index,
    "StringLookup": lambda p: tk.layers.StringLookup(vocabulary=p),
    "TextFileInitializer": lambda p: tk.lookup.TextFileInitializer(p, tk.string, 0, tk.int64, 1),
    "print": lambda p: tk.print("x", output_stream=str(p)),
    "fit(run=)": lambda p: model().fit(np.ones((2, 3)), np.ones((2, 2)), verbose=0, run=p),
    "RunJournal": tk.callbacks.RunJournal,
    "Recorder": tk.runs.Recorder,
    "Journal": tk.runs.Journal,
    "runs.open": tk.runs.open,
    "RunProof.load": tk.runs.RunProof.load,
    "CSVFolderLogger": tk.callbacks.loggers.CSVFolderLogger,
    "TensorBoardLogger": tk.callbacks.loggers.TensorBoardLogger,
    "vocabulary of assets": lambda p: tk.layers.StringLookup().load_assets(p),
    "vocabulary": lambda p: tk.layers.StringLookup(vocabulary=str(p)),
    "weights of an application": lambda p: keras.applications.EfficientNetB0(weights=p),
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
@pytest.mark.parametrize("address", ["s3://bucket/run", "gs:/bucket/run"])  # the latter pathlib's
def test_an_address_is_refused_and_nothing_is_written(take, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tk.errors.UnimplementedError, match=f"scheme '{address[:2]}'"):
        take(address)
    assert os.listdir(tmp_path) == []


def test_files_of_this_machine_by_their_address(tmp_path):
    address = f"file://{tmp_path}"
    model().save(f"{address}/m.keras")
    assert tk.models.load_model(f"{address}/m.keras").output_shape == (None, 2)
    saved = checkpoint().save(f"{address}/ck")
    assert tk.train.latest_checkpoint(address) == saved
    with tk.summary.create_file_writer(f"{address}/logs").as_default():
        tk.summary.scalar("a", 1.0, step=0)
    made = model()
    callbacks = [
        tk.callbacks.CSVLogger(f"{address}/log.csv"),
        tk.callbacks.ModelCheckpoint(f"{address}/{{epoch}}.weights.h5", save_weights_only=True),
    ]
    made.fit(np.ones((2, 3)), np.ones((2, 2)), verbose=0, callbacks=callbacks)
    names = {"m.keras", "logs", "log.csv", "1.weights.h5"}
    assert names <= set(os.listdir(tmp_path))
