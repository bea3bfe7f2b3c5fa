"""Train a model on handwritten digits; watch it, stop it, go on.

python examples/mnist.py                        # a small network on what data there is
python examples/mnist.py --model cnn --data mnist
python examples/mnist.py --resume    # go on where the last run was, even if it was killed
python examples/mnist.py --processes 2          # the same training, by two processes
tensorboard --logdir logs            # curves, graphs, wrong answers
"""

import argparse
import importlib.util
import os
import pathlib
import sys

import numpy as np
from mnist_pictures import confusion_picture, mistakes_picture

import trainkit as tk

# Epochs that reach the plateau, by data and model.
EPOCHS = {("mnist", "mlp"): 10, ("mnist", "cnn"): 6, ("digits", "mlp"): 60, ("digits", "cnn"): 30}
BATCH_SIZE = {"mlp": 32, "cnn": 64}
LEARNING_RATE = {"mlp": 1e-3, "cnn": 2e-3}


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Train a model on handwritten digits.")
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp")
    parser.add_argument("--data", choices=["auto", "mnist", "digits"], default="auto")
    parser.add_argument("--epochs", type=int, help="by default as many as the model needs")
    parser.add_argument("--batch-size", type=int, help="32 for the mlp, 64 for the cnn")
    parser.add_argument("--logdir", default="logs")
    parser.add_argument("--checkpoint-dir", default="checkpoints")
    parser.add_argument("--save-every", type=int, help="store the run each so many batches as well")
    parser.add_argument("--resume", action="store_true", help="go on where the last run was")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="how many train together")
    return parser.parse_args()


def start_processes(count):
    """Run this script again, in several processes that `mpiexec` starts; one runs on."""
    if count < 2 or "PMI_RANK" in os.environ:
        return
    mpiexec = pathlib.Path(sys.executable).parent / "mpiexec"
    if importlib.util.find_spec("mpi4py") is None or not mpiexec.exists():
        sys.exit(
            f"--processes {count} needs mpi4py and mpich beside this Python: "
            "pip install mpi4py mpich"
        )
    sys.stdout.flush()
    os.execv(mpiexec, [str(mpiexec), "-n", str(count), sys.executable, *sys.argv])


def load(choice):
    """Images in [0, 1] of shape (n, height, width, 1), and labels from 0 to 9."""
    if choice == "auto":
        choice = "mnist" if tk.datasets.mnist.available() else "digits"
    source, brightest = {"mnist": (tk.datasets.mnist, 255), "digits": (tk.datasets.digits, 16)}[
        choice
    ]
    train, test = source.load_data()
    scaled = [
        (x[..., None].astype("float32") / brightest, y.astype("int32")) for x, y in (train, test)
    ]
    return choice, *scaled


def make_model(kind, image_shape):
    """A network with one output per digit."""
    layers = tk.layers
    if kind == "mlp":
        hidden = [layers.Flatten(), layers.Dense(128, activation="relu")]
    else:
        hidden = [
            layers.Conv2D(16, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.4),
            layers.Dense(64, activation="relu"),
        ]
    return tk.Sequential([tk.Input(image_shape), *hidden, layers.Dense(10)])


class WrongAnswers(tk.callbacks.Callback):
    """Shows in TensorBoard, after each epoch, which digits are taken for which others."""

    def __init__(self, images, labels, logdir):
        super().__init__()
        self.images, self.labels, self.logdir = images, labels, logdir

    def on_train_begin(self, logs=None):
        """Open the file, in the first of several processes."""
        self.writes = self.model.distribute_strategy.rank == 0
        if not self.writes:
            return
        self.writer = tk.summary.create_file_writer(os.path.join(self.logdir, "validation"))

    def on_epoch_end(self, epoch, logs=None):
        """Write the confusion matrix and the digits with wrong answers."""
        scores = self.model.predict(self.images, verbose=0)  # all processes together
        if not self.writes:
            return
        answers = np.argmax(scores, axis=1)
        counts = tk.math.confusion_matrix(self.labels, answers, num_classes=10).numpy()
        wrong = mistakes_picture(self.images, self.labels, answers)
        with self.writer.as_default(step=epoch):
            tk.summary.image("wrong_answers/confusion", confusion_picture(counts))
            if wrong is not None:
                tk.summary.image("wrong_answers/digits", wrong)

    def on_train_end(self, logs=None):
        """Close the file."""
        if self.writes:
            self.writer.close()


def main():
    """Train, evaluate, save."""
    args = arguments()
    start_processes(args.processes)
    strategy = tk.distribute.MultiWorkerMirroredStrategy()
    say = print if strategy.rank == 0 else lambda text: None
    tk.random.set_seed(args.seed)
    data, (x_train, y_train), (x_test, y_test) = load(args.data)
    say(f"data: {data}, {len(x_train)} images to train on, {len(x_test)} to test with")
    epochs = args.epochs or EPOCHS[data, args.model]

    with strategy.scope():
        model = make_model(args.model, x_train.shape[1:])
        model.compile(
            optimizer=tk.optimizers.Adam(LEARNING_RATE[args.model]),
            loss=tk.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    model.fit(
        x_train,
        y_train,
        batch_size=args.batch_size or BATCH_SIZE[args.model],
        epochs=epochs,
        validation_data=(x_test, y_test),
        callbacks=[
            tk.callbacks.TensorBoard(args.logdir),
            WrongAnswers(x_test, y_test, args.logdir),
            tk.callbacks.BackupAndRestore(
                args.checkpoint_dir,
                save_freq=args.save_every or "epoch",
                delete_checkpoint=False,
                restore=args.resume,
            ),
        ],
    )

    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    say(f"right on {accuracy:.2%} of {len(y_test)} digits never seen (loss {loss:.4f})")
    weights = os.path.join(args.checkpoint_dir, "model.weights.h5")
    model.save_weights(weights)
    say(f"weights: {weights}; curves: tensorboard --logdir {args.logdir}")


if __name__ == "__main__":
    main()
