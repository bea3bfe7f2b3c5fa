"""Fit a line to noisy points by gradient descent, with a model, a tape and an optimizer."""

import argparse

import trainkit as tk

POINTS = 1000


class Line(tk.Model):
    """A line: y = weight * x + bias."""

    def __init__(self):
        super().__init__()
        self.weight = tk.Variable(5.0, name="weight")
        self.bias = tk.Variable(10.0, name="bias")

    def call(self, x):
        return self.weight * x + self.bias


def mean_squared_error(model, x, y):
    """How far the line is from the points."""
    return tk.reduce_mean(tk.square(model(x) - y))


def main():
    """Make points, then fit the line to them."""
    parser = argparse.ArgumentParser(description="Fit a line to noisy points.")
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()

    tk.random.set_seed(0)
    x = tk.random.normal([POINTS])
    y = 3.0 * x + 2.0 + tk.random.normal([POINTS])

    model = Line()
    optimizer = tk.optimizers.SGD(learning_rate=0.01)
    print(f"before: loss {float(mean_squared_error(model, x, y)):.3f}")
    for step in range(args.steps):
        with tk.GradientTape() as tape:
            loss = mean_squared_error(model, x, y)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        if step % 20 == 0:
            print(f"step {step:3d}: loss {float(loss):.3f}")
    print(f"after: loss {float(mean_squared_error(model, x, y)):.3f}")
    print(f"weight {float(model.weight):.2f} (3 without noise), bias {float(model.bias):.2f} (2)")


if __name__ == "__main__":
    main()
