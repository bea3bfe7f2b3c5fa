"""A GAN trained by a loop of one's own: points on a ring, from noise.

A generator turns noise into points; a critic tells them from real ones. Each step trains the critic
a little to tell, then the generator a little to be taken for real. Two models, two optimizers, two
tapes: this is where `fit` ends and a loop of one's own begins.
Source: Goodfellow et al. 2014, "Generative adversarial networks", arXiv:1406.2661.
"""

import argparse

import numpy as np

import trainkit as tk

NOISE = 4


def ring(count):
    """Points near the circle of radius 2."""
    angle = tk.random.uniform([count], 0.0, 2 * np.pi)
    radius = 2.0 + tk.random.normal([count], stddev=0.1)
    return tk.stack([radius * tk.cos(angle), radius * tk.sin(angle)], axis=1)


def network(units):
    """Two layers of 64 units and one of `units`."""
    return tk.Sequential(
        [
            tk.layers.Dense(64, activation="leaky_relu"),
            tk.layers.Dense(64, activation="leaky_relu"),
            tk.layers.Dense(units),
        ]
    )


def main():
    """Train both, and show where the points lie."""
    parser = argparse.ArgumentParser(description="Train a GAN on points of a ring.")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()

    tk.random.set_seed(1)
    generator, critic = network(2), network(1)
    generator.build((None, NOISE))
    critic.build((None, 2))
    generator_optimizer = tk.optimizers.Adam(5e-4, beta_1=0.5)
    critic_optimizer = tk.optimizers.Adam(1e-3, beta_1=0.5)
    cross_entropy = tk.losses.BinaryCrossentropy(from_logits=True)

    @tk.function
    def step():
        noise = tk.random.normal([args.batch_size, NOISE])
        with tk.GradientTape() as generator_tape, tk.GradientTape() as critic_tape:
            real, made = critic(ring(args.batch_size)), critic(generator(noise))
            ones, zeros = tk.ones_like(real), tk.zeros_like(made)
            critic_loss = cross_entropy(0.9 * ones, real) + cross_entropy(zeros, made)
            generator_loss = cross_entropy(ones, made)
        for tape, loss, model, optimizer in (
            (critic_tape, critic_loss, critic, critic_optimizer),
            (generator_tape, generator_loss, generator, generator_optimizer),
        ):
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return critic_loss, generator_loss

    for number in range(1, args.steps + 1):
        critic_loss, generator_loss = step()
        if number % max(1, args.steps // 8) == 0:
            print(f"step {number}: critic {critic_loss:.3f}, generator {generator_loss:.3f}")

    points = generator(tk.random.normal([2000, NOISE])).numpy()
    radius = np.hypot(points[:, 0], points[:, 1])
    print(
        f"radius of made points: {radius.mean():.2f} +- {radius.std():.2f}, of real ones 2 +- 0.1"
    )
    counts, _, _ = np.histogram2d(points[:, 1], points[:, 0], bins=(13, 27), range=[[-3, 3]] * 2)
    for row in counts[::-1]:
        print("".join(" .:*#"[min(4, int(n + 3) // 4)] for n in row))


if __name__ == "__main__":
    main()
