"""A training loop by hand: tape, metrics, summaries and checkpoints.

Killed at any point and started again, it ends with the weights it would have ended with.
"""

import argparse

import trainkit as tk


def main():
    """Train, and say how well it went."""
    parser = argparse.ArgumentParser(description="Train on handwritten digits by hand.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--steps", type=int, help="end after so many steps")
    parser.add_argument("--logdir", default="logs/custom")
    parser.add_argument("--checkpoint-dir", default="checkpoints/custom")
    args = parser.parse_args()

    tk.random.set_seed(0)
    (x_train, y_train), (x_test, y_test) = tk.datasets.digits.load_data()
    images = tk.data.Dataset.from_tensor_slices((x_train, y_train))
    images = images.map(lambda x, y: (tk.cast(x, tk.float32) / 16.0, tk.cast(y, tk.int32)))
    batches = iter(images.shuffle(len(x_train)).batch(32).repeat(args.epochs))

    model = tk.Sequential(
        [
            tk.Input((8, 8)),
            tk.layers.Flatten(),
            tk.layers.Dense(64, activation="relu"),
            tk.layers.Dense(10),
        ]
    )
    optimizer = tk.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss_function = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss_metric = tk.metrics.Mean()
    accuracy = tk.metrics.SparseCategoricalAccuracy()

    def train_step(x, y):
        with tk.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_function(y, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        loss_metric.update_state(loss)
        accuracy.update_state(y, logits)

    # All that the loop changes: restored, it goes on with the next batch as if nothing had been.
    checkpoint = tk.train.Checkpoint(
        model=model, optimizer=optimizer, batches=batches, loss=loss_metric, accuracy=accuracy
    )
    manager = tk.train.CheckpointManager(checkpoint, args.checkpoint_dir, max_to_keep=3)
    if manager.restore_or_initialize():
        print(f"going on from {manager.latest_checkpoint}")

    with tk.summary.create_file_writer(args.logdir).as_default():
        for x, y in batches:
            train_step(x, y)
            step = int(optimizer.iterations)
            if step % 45 == 0:
                print(
                    f"step {step}: loss {loss_metric.result():.4f}, accuracy "
                    f"{accuracy.result():.4f}"
                )
                tk.summary.scalar("loss", loss_metric.result(), step=step)
                tk.summary.scalar("accuracy", accuracy.result(), step=step)
                loss_metric.reset_state()
                accuracy.reset_state()
                manager.save()
            if args.steps is not None and step >= args.steps:
                break

    logits = model(x_test.astype("float32") / 16.0)
    right = tk.reduce_mean(
        tk.cast(tk.argmax(logits, axis=-1) == y_test.astype("int64"), tk.float32)
    )
    print(f"right on {float(right):.1%} of {len(y_test)} digits never seen")


if __name__ == "__main__":
    main()
