"""`ModelCheckpoint` as a base: what libraries that integrate with Keras call of it."""

import numpy as np

import trainkit as tk


def test_a_subclass_that_uses_the_names_of_keras(tmp_path):
    """As W&B's does, which stores each file once more."""

    class Storing(tk.callbacks.ModelCheckpoint):
        paths = ()

        def on_train_batch_end(self, batch, logs=None):
            if self._should_save_on_batch(batch):
                self._save_model(epoch=self._current_epoch, batch=batch, logs=logs)
                path = self._get_file_path(epoch=self._current_epoch, batch=batch, logs=logs)
                self.paths = (*self.paths, path)

    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    saver = Storing(str(tmp_path / "{epoch}_{batch}.keras"), save_freq=2)
    model.fit(np.ones((8, 2)), np.ones(8), batch_size=2, verbose=0, callbacks=[saver])
    assert saver.paths == tuple(str(tmp_path / f"1_{batch}.keras") for batch in (2, 4))
    assert sorted(str(path) for path in tmp_path.iterdir()) == list(saver.paths)
