"""What many steps show: memory, variables that are held or moved, threads, streams, equal losses.

python -m tests.gpu_session.endurance [--small] [--on stand-in | --on null-driver]
"""

import gc
import threading

import numpy as np

from tests.gpu_session import session

GROWN = 8 << 20
"""Bytes that a process may have more after many replays: what other libraries keep."""


def _net(seed=3, dropout=0.2):
    import trainkit as tk

    tk.random.set_seed(seed)
    layers = tk.layers
    model = tk.Sequential(
        [
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(dropout),
            layers.Dense(32, activation="relu"),
            layers.Dense(5),
        ]
    )
    rule = tk.optimizers.Adam(1e-3)
    loss_of = tk.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return model, step


def _batch():
    import trainkit as tk

    x = np.random.default_rng(0).standard_normal((16, 12, 12, 3)).astype(np.float32)
    return tk.constant(x), tk.constant(np.arange(16) % 5)


def _grown(before, after, most=GROWN):
    if before is None or after is None:
        return True, "memory can't be asked here"
    return after - before <= most, f"{(after - before) / 1e6:+.1f} MB"


def replays(options):
    """Memory after many replays is that after some."""
    import trainkit as tk

    _, step = _net()
    run, given = tk.function(step), _batch()
    few, many = (5, 20) if options.small else (100, 2000)
    for i in range(many):
        float(run(*given)) if i % 50 == 0 else run(*given)
        if i == few:
            before = session.device_bytes()
    good, text = _grown(before, session.device_bytes())
    how = next(line.strip() for line in run.explain().splitlines() if "GPU" in line)
    return good and "CUDA graph" in how, f"{text} in {many - few} replays; {how}"


def dropped_functions(options):
    """The memory of captured functions comes back."""
    import cupy

    import trainkit as tk

    given = _batch()
    count = 3 if options.small else 40
    before = None
    for i in range(count):
        _, step = _net()
        run = tk.function(step)
        for _ in range(5):
            run(*given)
        del run, step
        if i == 1:
            before = _collected(cupy)
    good, text = _grown(before, _collected(cupy), 4 * GROWN)
    return good, f"{text} after {count - 2} more functions"


def _collected(cupy):
    gc.collect()
    cupy.cuda.get_current_stream().synchronize()
    if hasattr(cupy, "get_default_memory_pool"):
        cupy.get_default_memory_pool().free_all_blocks()
    return session.device_bytes()


def disturbed(options):
    """A captured step goes on where a variable is held, or another thread or stream calls it."""
    import cupy

    import trainkit as tk

    model, step = _net(dropout=0.0)
    run, given = tk.function(step), _batch()
    losses = [float(run(*given)) for _ in range(6)]
    held = tk.identity(model.trainable_variables[0])
    kept = held.numpy().copy()
    losses += [float(run(*given)) for _ in range(3)]
    thread = threading.Thread(target=lambda: losses.extend(float(run(*given)) for _ in range(2)))
    thread.start()
    thread.join()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        losses.append(float(run(*given)))
        stream.synchronize()
    losses += [float(run(*given)) for _ in range(3)]
    other, plain = _net(dropout=0.0)
    wanted = [float(plain(*given)) for _ in losses]
    off = float(np.abs(np.array(losses) - wanted).max())
    same = bool((held.numpy() == kept).all())
    del other
    stays = "stays" if same else "CHANGED"
    return off < 1e-3 and same, f"losses are off by {off:.1e}; a held value {stays}"


def _losses(options, compiled, captures=True):
    import trainkit as tk
    from trainkit.graph.gpu import gpu_program

    before = gpu_program._Captures.wanted
    gpu_program._Captures.wanted = captures
    try:
        _, step = _net()
        run, given = tk.function(step) if compiled else step, _batch()
        return np.array([float(run(*given)) for _ in range(8 if options.small else 200)])
    finally:
        gpu_program._Captures.wanted = before


def eager_losses(options):
    """Eager steps, for `compute-sanitizer`, which reports by itself."""
    found = _losses(options, False)
    return bool(np.isfinite(found).all()), f"{len(found)} steps, last loss {found[-1]:.5f}"


def equal_losses(options):
    """Eager, compiled, and compiled without CUDA graphs, from one seed."""
    eager, compiled = _losses(options, False), _losses(options, True)
    plain = _losses(options, True, captures=False)
    off = max(float(np.abs(found - eager).max()) for found in (compiled, plain))
    return off < 1e-3, f"off by {off:.1e} in {len(eager)} steps"


def same_bits(options):
    """The same run twice."""
    one, two = (_losses(options, True) for _ in range(2))
    off = float(np.abs(one - two).max())
    return off == 0, "the same bits" if off == 0 else f"off by {off:.1e}"


def host_copies(options):
    """Nothing is copied in ten replays but the loss that is read, by CUPTI's record."""
    import trainkit as tk

    try:
        import torch
    except ImportError:
        return True, "no PyTorch here, whose profiler sees copies"
    if not torch.cuda.is_available():
        return True, "PyTorch sees no GPU"
    _, step = _net()
    run, given = tk.function(step), _batch()
    for _ in range(6):
        run(*given)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(10):
            run(*given)
        torch.cuda.synchronize()
    names = [event.name for event in profile.events()]
    host = [name for name in names if "DtoH" in name or "HtoD" in name]
    return not host, f"{len(host)} copies between host and device among {len(names)} activities"


CHECKS = {
    "memory of replays": replays,
    "memory of dropped functions": dropped_functions,
    "held variables, threads, streams": disturbed,
    "losses of eager steps": eager_losses,
    "losses eagerly, compiled, captured": equal_losses,
    "the same run twice": same_bits,
    "copies in replays": host_copies,
}

if __name__ == "__main__":
    session.main("endurance", __doc__, CHECKS)
