"""Runs for every page of TensorBoard: a small model on digits, trained twice, and the rest."""

import os

import numpy as np

import trainkit as tk
from examples.mnist_pictures import confusion_picture, mistakes_picture

EPOCHS = 4


class _Evaluation(tk.callbacks.Callback):
    """Curves, pictures and words about the validation, after each epoch."""

    def __init__(self, images, labels, logdir):
        super().__init__()
        self.images, self.labels = images, labels
        self.folder = os.path.join(logdir, "validation")

    def on_train_begin(self, logs=None):
        self.writer = tk.summary.create_file_writer(self.folder)

    def on_epoch_end(self, epoch, logs=None):
        scores = tk.nn.softmax(self.model.predict(self.images, verbose=0)).numpy()
        answers = np.argmax(scores, axis=1)
        counts = tk.math.confusion_matrix(self.labels, answers, num_classes=10).numpy()
        with self.writer.as_default(step=epoch):
            for digit in (3, 8):
                tk.summary.pr_curve(f"pr/digit_{digit}", self.labels == digit, scores[:, digit])
            tk.summary.image("wrong_answers/confusion", confusion_picture(counts))
            wrong = mistakes_picture(self.images, self.labels, answers)
            if wrong is not None:
                tk.summary.image("wrong_answers/digits", wrong)
            tk.summary.text("notes", f"After epoch **{epoch}**: {len(answers)} digits looked at.")

    def on_train_end(self, logs=None):
        self.writer.close()


def _model():
    x = tk.Input((8, 8, 1), name="digit")
    y = tk.layers.Conv2D(8, 3, activation="relu", name="edges")(x)
    y = tk.layers.Flatten(name="flat")(y)
    y = tk.layers.Dense(32, activation="relu", name="hidden")(y)
    return tk.Model(x, tk.layers.Dense(10, name="scores")(y), name="digits")


def _train(logdir, rate, train, test, epochs):
    tk.random.set_seed(0)
    model = _model()
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.optimizers.Adam(rate), loss, metrics=["accuracy"])
    board = tk.callbacks.TensorBoard(
        logdir,
        histogram_freq=1,
        write_images=True,
        write_steps_per_second=True,
        update_freq=5,
        write_gradients=True,
        time_budget=1.0,
    )
    model.fit(
        *train,
        batch_size=64,
        epochs=epochs,
        verbose=0,
        validation_data=test,
        callbacks=[board, _Evaluation(*test, logdir)],
    )
    with tk.summary.create_file_writer(os.path.join(logdir, "validation")).as_default():
        tk.summary.hparams({"learning_rate": rate, "optimizer": "adam"}, ["epoch_accuracy"])
    return model


def _sphere():
    """Points, triangles and colors of a ball."""
    rows, columns = 12, 24
    v, u = np.meshgrid(
        np.linspace(0, np.pi, rows), np.linspace(0, 2 * np.pi, columns), indexing="ij"
    )
    points = np.stack([np.sin(v) * np.cos(u), np.cos(v), np.sin(v) * np.sin(u)], -1)
    here = np.arange((rows - 1) * columns).reshape(rows - 1, columns)[:, :-1].ravel()
    faces = np.stack(
        [here, here + 1, here + columns, here + 1, here + columns + 1, here + columns], -1
    )
    colors = ((points + 1) * 127.5).astype(np.uint8)
    return points.reshape(1, -1, 3), faces.reshape(1, -1, 3), colors.reshape(1, -1, 3)


def write_logs(folder, epochs=EPOCHS):
    """Train two models on digits and write what TensorBoard has pages for."""
    (x, y), held = tk.datasets.digits.load_data()
    train = (x[..., None].astype("float32") / 16)[:600], y[:600].astype("int32")
    test = held[0][..., None].astype("float32") / 16, held[1].astype("int32")
    for name, rate in (("slow", 1e-3), ("fast", 5e-3)):
        model = _train(os.path.join(folder, name), rate, train, test, epochs)
    writer = tk.summary.create_file_writer(os.path.join(folder, "extras"))
    with writer.as_default(step=0):
        layout = {"digits": {"loss of both": ["Multiline", ["epoch_loss"]]}}
        tk.summary.custom_scalars(layout)
        points, faces, colors = _sphere()
        tk.summary.mesh("ball", points, faces, colors)
        waves = np.sin(np.linspace(0, 440 * 2 * np.pi, 8000))[None, :, None] * 0.5
        tk.summary.audio("tone", waves, 8000)
        inside = tk.Model(model.input, model.get_layer("hidden").output)
        vectors = inside.predict(test[0][:200], verbose=0)
        tk.summary.embedding(
            "digits", vectors, metadata=list(test[1][:200]), sprites=1 - test[0][:200]
        )

        @tk.function
        def pythagoras(a, b):
            return tk.sqrt(a * a + b * b)

        tk.summary.trace_on()
        pythagoras(tk.constant(3.0), tk.constant(4.0))
        tk.summary.trace_export("pythagoras")
    writer.close()
