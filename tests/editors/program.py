"""Ordinary programs, in which an editor shows no error."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

import trainkit as tk
import trainkit.keras.backend as K
from trainkit import Variable, keras, layers, ops
from trainkit.keras import Model, Sequential, regularizers
from trainkit.keras.callbacks import EarlyStopping, ModelCheckpoint
from trainkit.keras.datasets import mnist
from trainkit.keras.layers import LSTM, Conv2D, Dense, Dropout, Flatten, Input, MaxPooling2D
from trainkit.keras.optimizers import Adam
from trainkit.keras.utils import to_categorical
from trainkit.nn import relu

# ------------------------------------------------------------------ a stack and its training


def digits_model(classes: int = 10) -> keras.Model:
    model = Sequential(
        [
            Input((28, 28, 1)),
            Conv2D(16, 3, activation="relu", padding="same"),
            MaxPooling2D(),
            Flatten(),
            Dropout(0.3),
            Dense(classes, kernel_regularizer=regularizers.L2(1e-4)),
        ]
    )
    model.compile(
        optimizer=Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def train(folder: pathlib.Path) -> float:
    (x_train, y_train), (x_test, y_test) = mnist.load_data()
    x_train = x_train[..., None].astype("float32") / 255
    model = digits_model()
    history = model.fit(
        x_train,
        y_train,
        batch_size=64,
        epochs=3,
        validation_split=0.1,
        callbacks=[EarlyStopping(patience=2), ModelCheckpoint(str(folder / "best.keras"))],
    )
    model.summary()
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(max(history.history["val_accuracy"]), loss)
    model.save(str(folder / "model.keras"))
    again = keras.models.load_model(str(folder / "model.keras"))
    print(again.predict(x_test[:3]).argmax(axis=-1))
    return float(accuracy)


# ------------------------------------------------------------------ functional models


def functional() -> Model:
    inputs = keras.Input(shape=(20,), name="numbers")
    x = layers.Dense(32, activation=relu)(inputs)
    x = layers.BatchNormalization()(x)
    skip = layers.Dense(32)(inputs)
    x = layers.add([x, skip])
    x = layers.concatenate([x, inputs * 2.0])
    outputs = layers.Dense(1)(x)
    model = keras.Model(inputs=inputs, outputs=outputs)
    model.compile("sgd", "mse", metrics=[keras.metrics.MeanAbsoluteError()])
    print(model.count_params(), [weight.name for weight in model.trainable_weights])
    return model


def text_model(words: int) -> keras.Sequential:
    model = keras.Sequential()
    model.add(layers.Embedding(words, 16, mask_zero=True))
    model.add(LSTM(32, return_sequences=True))
    model.add(layers.Bidirectional(layers.GRU(8)))
    model.add(layers.Dense(1, activation="sigmoid"))
    return model


def fine_tuned(classes: int) -> keras.Model:
    base = keras.applications.ResNet50V2(include_top=False, weights=None, pooling="avg")
    base.trainable = False
    large = keras.applications.EfficientNetV2S(weights=None, include_preprocessing=False)
    print(large.name, keras.applications.ConvNeXtBase(True, False, None).output_shape)
    return Sequential([base, Dense(classes, activation="softmax")])


# ------------------------------------------------------------------ layers and models of one's own


class Scale(layers.Layer):
    def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, input_shape: tuple[int, ...]) -> None:
        self.bias = self.add_weight(shape=(input_shape[-1],), initializer="zeros", name="bias")

    def call(self, inputs: tk.Tensor, training: bool = False) -> tk.Tensor:
        if training:
            inputs = inputs + tk.random.normal(tk.shape(inputs), stddev=0.1)
        return inputs * self.factor + self.bias

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "factor": self.factor}


class Classifier(tk.Model):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.hidden = Dense(32, activation="relu")
        self.scale = Scale(3.0)
        self.head = Dense(classes)

    def call(self, x: tk.Tensor, training: bool = False) -> tk.Tensor:
        return self.head(self.scale(self.hidden(x), training=training))

    def train_step(self, data: tuple[tk.Tensor, tk.Tensor]) -> dict[str, tk.Tensor]:
        x, y = data
        with tk.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {metric.name: metric.result() for metric in self.metrics}


class Best(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.best = float("inf")

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.best = min(self.best, (logs or {}).get("loss", self.best))
        if epoch > 3:
            self.model.stop_training = True


class F1(keras.metrics.Metric):
    def __init__(self, name: str = "f1", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.hits = self.add_weight(name="hits", initializer="zeros")

    def update_state(
        self, y_true: tk.Tensor, y_pred: tk.Tensor, sample_weight: tk.Tensor | None = None
    ) -> None:
        self.hits.assign_add(tk.reduce_sum(tk.cast(y_true == tk.round(y_pred), tk.float32)))

    def result(self) -> tk.Tensor:
        return self.hits / 2.0


# ------------------------------------------------------------------ loops of one's own


def loop(steps: int = 100) -> list[float]:
    w = tk.Variable(tk.random.normal([3, 1]), name="w")
    b = Variable(0.0)
    optimizer = tk.optimizers.SGD(learning_rate=0.1, momentum=0.9)
    x = tk.constant(np.random.rand(32, 3).astype("float32"))
    y = tk.matmul(x, [[1.0], [2.0], [3.0]])
    losses: list[float] = []

    @tk.function
    def step() -> tk.Tensor:
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean(tk.square(x @ w + b - y))
        gradients = tape.gradient(loss, [w, b])
        optimizer.apply_gradients(zip(gradients, [w, b], strict=True))
        return loss

    for number in range(steps):
        losses.append(float(step()))
        if number % 10 == 0:
            tk.print("step", number, losses[-1])
    w.assign_add(tk.ones_like(w))
    b.assign(1.0)
    return losses


def higher_order(x: float) -> tk.Tensor:
    v = tk.constant(x)
    with tk.GradientTape() as outer:
        outer.watch(v)
        with tk.GradientTape(persistent=True) as inner:
            inner.watch(v)
            y = v**3 + tk.sin(v) * tk.exp(-v)
        dy = inner.gradient(y, v)
    return outer.gradient(dy, v)


@tk.custom_gradient
def clipped(x: tk.Tensor) -> object:
    def grad(upstream: tk.Tensor) -> tk.Tensor:
        return tk.clip_by_value(upstream, -1.0, 1.0)

    return tk.identity(x), grad


# ------------------------------------------------------------------ tensors


def tensors() -> None:
    a = tk.constant([[1, 2], [3, 4]], dtype=tk.float32)
    b = tk.ones((2, 2)) + a * 2 - a / 3
    c = tk.concat([a, b], axis=0)
    d = tk.reshape(c, [-1])[1:3]
    e = tk.where(a > 2.0, a, tk.zeros_like(a))
    f = tk.stack([a, e]) ** 2
    g, h = tk.split(f, 2, axis=0)
    print(d.numpy().sum(), g.shape, h.dtype, a.shape[0], len(a), a.device)
    print(tk.argmax(a, axis=1).numpy().tolist(), float(tk.reduce_max(b)))
    values, indices = tk.math.top_k(a, k=1)
    print(values.numpy(), indices.numpy())
    print(tk.einsum("ij,jk->ik", a, b), tk.linalg.inv(a), tk.nn.softmax(a))
    print(tk.one_hot([0, 1], 3), tk.cast(a, "int32"), tk.transpose(a), tk.expand_dims(a, 0))
    print(ops.mean(a), ops.relu(a), ops.convert_to_numpy(a), K.int_shape(a))
    for row in a:
        print(row.numpy(), row + 1)
    print(tk.image.resize(tk.ones((1, 4, 4, 3)), (8, 8)).shape, tk.signal.fft)
    with tk.device("/cpu:0"):
        print(tk.range(10), tk.linspace(0.0, 1.0, 5), tk.eye(3), tk.fill([2], 1.0))


# ------------------------------------------------------------------ data, checkpoints, summaries


def pipeline() -> tk.data.Dataset:
    dataset = tk.data.Dataset.from_tensor_slices((np.ones((10, 3)), np.zeros(10)))
    dataset = dataset.shuffle(10).map(lambda x, y: (x * 2, y)).batch(4).prefetch(tk.data.AUTOTUNE)
    for x, y in dataset.take(2):
        print(x.shape, y.numpy())
    return dataset.repeat(2)


def checkpoints(model: tk.Model, folder: str) -> int:
    checkpoint = tk.train.Checkpoint(model=model, step=tk.Variable(0))
    manager = tk.train.CheckpointManager(checkpoint, folder, max_to_keep=3)
    status = checkpoint.restore(manager.latest_checkpoint)
    status.expect_partial()
    path = manager.save()
    print(path, tk.train.latest_checkpoint(folder))
    return 0


def summaries(folder: str) -> None:
    writer = tk.summary.create_file_writer(folder)
    with writer.as_default():
        tk.summary.scalar("loss", 0.5, step=1)
        tk.summary.histogram("weights", tk.random.normal([100]), step=1)
    writer.close()


def labels(numbers: np.ndarray) -> np.ndarray:
    try:
        return to_categorical(numbers, num_classes=3)
    except tk.errors.InvalidArgumentError as error:
        print(error.message)
        raise


def schedules() -> tk.optimizers.Optimizer:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1000, 0.9)
    optimizer = keras.optimizers.RMSprop(schedule, rho=0.9)
    print(optimizer.learning_rate, optimizer.iterations)
    return optimizer


if __name__ == "__main__":
    tensors()
    print(higher_order(1.0), loop(5)[-1], schedules())
    functional().fit(np.ones((8, 20)), np.ones((8, 1)), epochs=1, verbose=0, callbacks=[Best()])
    classifier = Classifier(3)
    classifier.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    classifier.fit(pipeline(), epochs=1)
