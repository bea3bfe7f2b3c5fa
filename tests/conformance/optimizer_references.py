"""What each optimizer's paper says, once more, in float64 and without the package.

A reference is `reference(w, grads, lr)`: the weight after each gradient, from the weight `w`.
"""

import math

import numpy as np


def sgd(w, grads, lr, momentum=0.0, nesterov=False):
    velocity = np.zeros_like(w)
    for g in grads:
        velocity = momentum * velocity - lr * g
        w = w + (momentum * velocity - lr * g if nesterov else velocity)
        yield w


def adam(w, grads, lr, b1=0.9, b2=0.999, epsilon=1e-7, decay=0.0, amsgrad=False):
    m, v, top = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(grads, 1):
        w = w - lr * decay * w
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        top = np.maximum(top, v) if amsgrad else v
        rate = lr * math.sqrt(1 - b2**t) / (1 - b1**t)
        w = w - rate * m / (np.sqrt(top) + epsilon)
        yield w


def adamax(w, grads, lr, b1=0.9, b2=0.999, epsilon=1e-7):
    m, u = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        u = np.maximum(b2 * u, np.abs(g))
        w = w - lr / (1 - b1**t) * m / (u + epsilon)
        yield w


def nadam(w, grads, lr, b1=0.9, b2=0.999, epsilon=1e-7):
    m, v = np.zeros_like(w), np.zeros_like(w)

    def mu(t):
        return b1 * (1 - 0.5 * 0.96**t)

    for t, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        so_far = math.prod(mu(i) for i in range(1, t + 1))
        m_hat = mu(t + 1) * m / (1 - so_far * mu(t + 1)) + (1 - mu(t)) * g / (1 - so_far)
        w = w - lr * m_hat / (np.sqrt(v / (1 - b2**t)) + epsilon)
        yield w


def rmsprop(w, grads, lr, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False):
    v, mean, velocity = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for g in grads:
        v = rho * v + (1 - rho) * g**2
        mean = rho * mean + (1 - rho) * g
        below = v - mean**2 if centered else v
        velocity = momentum * velocity + lr * g / np.sqrt(below + epsilon)
        w = w - velocity
        yield w


def adagrad(w, grads, lr, start=0.1, epsilon=1e-7):
    total = np.full_like(w, start)
    for g in grads:
        total = total + g**2
        w = w - lr * g / np.sqrt(total + epsilon)
        yield w


def adadelta(w, grads, lr, rho=0.95, epsilon=1e-7):
    squares, steps = np.zeros_like(w), np.zeros_like(w)
    for g in grads:
        squares = rho * squares + (1 - rho) * g**2
        step = np.sqrt(steps + epsilon) / np.sqrt(squares + epsilon) * g
        steps = rho * steps + (1 - rho) * step**2
        w = w - lr * step
        yield w


def ftrl(w, grads, lr, power=0.5, start=0.1, l1=0.0, l2=0.0, shrinkage=0.0, beta=0.0):
    n, z = np.full_like(w, start), np.zeros_like(w)
    for g in grads:
        shrunk = g + 2 * shrinkage * w
        sigma = ((n + g**2) ** power - n**power) / lr
        z = z + shrunk - sigma * w
        n = n + g**2
        curvature = n**power / lr + 2 * l2 + beta / lr
        w = np.where(np.abs(z) <= l1, 0.0, -(z - np.sign(z) * l1) / curvature)
        yield w


def lion(w, grads, lr, b1=0.9, b2=0.99):
    m = np.zeros_like(w)
    for g in grads:
        w = w - lr * np.sign(b1 * m + (1 - b1) * g)
        m = b2 * m + (1 - b2) * g
        yield w


def lamb(w, grads, lr, b1=0.9, b2=0.999, epsilon=1e-7, decay=0.0):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(grads, 1):
        w = w - lr * decay * w
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        u = m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + epsilon)
        a, b = np.linalg.norm(w), np.linalg.norm(u)
        w = w - lr * (a / b if a and b else 1.0) * u
        yield w


def adafactor(w, grads, lr, decay=-0.8, e1=1e-30, e2=1e-3, threshold=1.0):
    r, c, v = 0.0, 0.0, 0.0
    for t, g in enumerate(grads, 1):
        keep = 1 - float(t) ** decay
        s = g**2 + e1
        if w.ndim >= 2:
            r = keep * r + (1 - keep) * s.mean(-1)
            c = keep * c + (1 - keep) * s.mean(-2)
            v = np.einsum("...i,...j->...ij", r / r.mean(-1, keepdims=True), c)
        else:
            v = keep * v + (1 - keep) * s
        u = g / np.sqrt(v)
        u = u / max(1.0, np.sqrt((u**2).mean()) / threshold)
        w = w - max(e2, np.sqrt((w**2).mean())) * min(lr, 1 / math.sqrt(t)) * u
        yield w


def muon(w, grads, lr, momentum=0.95, decay=0.004, adam_decay=0.004, steps=5, rate=0.2):
    if w.ndim != 2:
        yield from adam(w, grads, lr, decay=adam_decay)
        return
    m = np.zeros_like(w)
    for g in grads:
        w = w - lr * decay * w
        m = momentum * m + g
        x = g + momentum * m
        x = x.T if w.shape[0] > w.shape[1] else x
        x = x / (np.linalg.norm(x) + 1e-7)
        for _ in range(steps):
            s = x @ x.T
            x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
        x = x.T if w.shape[0] > w.shape[1] else x
        w = w - lr * rate * math.sqrt(max(w.shape)) * x
        yield w


def schedule_free(w, grads, lr, b1=0.9, b2=0.999, epsilon=1e-8, warmup=0, decay=0.0):
    z, v = w, np.zeros_like(w)
    for t, g in enumerate(grads, 1):
        w = w - lr * decay * w
        x = (w - (1 - b1) * z) / b1
        v = b2 * v + (1 - b2) * g**2
        rate = lr * (min(1.0, t / warmup) if warmup else 1.0)
        z = z - rate * g / (np.sqrt(v / (1 - b2**t)) + epsilon)
        x = x + (z - x) / t
        w = (1 - b1) * z + b1 * x
        yield w
