"""Every argument of every class that a config may name, given a path, an address, a name of code.

Objects are made of such configs in safe mode and then used, while nothing that they name may be
opened, listed, asked for or imported. What does is printed. A process of its own: an audit hook
stays.
"""

import contextlib
import importlib
import inspect
import os
import pkgutil
import sys
import tempfile
import warnings

import numpy as np

import trainkit as tk
from tests.conformance import layer_table
from trainkit.core.registry import FAMILIES, deserialize_object, serialize_object

MARK = "canary-of-the-crawl"
X = np.ones((2, 3), "float32")


class Touched(BaseException):
    """Something that a config named was reached for; no `except Exception` hides it."""


class Watch:
    """What the audit hook and the wrapped functions look for."""

    on = False
    seen = None


def note(what):
    """Note that the canary was reached for, and stop there: a pipe would wait for ever."""
    Watch.seen = what
    raise Touched(what)


def hook(event, args):
    """The audit hook: any event with the canary in its arguments, and all ways to the network."""
    if not Watch.on:
        return
    if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system"):
        note(event)
    if event != "object.__getattr__" and any(MARK in str(a) for a in args[:2] if is_name(a)):
        note(f"{event} {args[0]!r}")


def is_name(x):
    """Whether an argument of an event may be a path or a name."""
    return isinstance(x, str | bytes | os.PathLike)


def watch_stat():
    """`os.stat` and HDF5's own files, which no event tells of."""
    import h5py

    for owner, name in ((os, "stat"), (os, "lstat"), (h5py.h5f, "open")):
        plain = getattr(owner, name)

        def watched(path, *args, plain=plain, name=name, **more):
            if Watch.on and is_name(path) and MARK in os.fsdecode(path):
                note(f"{name} {path!r}")
            return plain(path, *args, **more)

        setattr(owner, name, watched)


def classes():
    """All classes of all families, with the family's name."""
    for module in pkgutil.walk_packages(tk.__path__, "trainkit."):
        if not module.name.startswith(("trainkit.cli", "trainkit.__main__", "trainkit.kernels")):
            importlib.import_module(module.name)
    for plural, family in FAMILIES.items():
        kinds = {kind for kind in family.named.values() if isinstance(kind, type)}
        yield from ((plural, kind) for kind in sorted(kinds, key=lambda kind: kind.__name__))


# ---------------------------------------------------------------------- objects to begin with

INNER = {
    "layers": lambda: tk.layers.Dense(3, input_shape=(3,)),
    "optimizer": lambda: tk.optimizers.SGD(),
    "metric": lambda: tk.metrics.Mean(),
}
ARGUMENTS = {
    "boundaries": [1], "values": [0.1, 0.2], "initial_learning_rate": 0.1, "decay_steps": 3,
    "decay_rate": 0.5, "value_range": [0, 1], "num_classes": 3, "units": 3, "filters": 2,
    "kernel_size": 2, "threshold": 0.5, "recall": 0.5, "precision": 0.5, "sensitivity": 0.5,
    "specificity": 0.5, "target_class_ids": [0], "shape": [3], "num_thresholds": 5,
}  # fmt: skip


def starting_config(plural, kind):
    """The config of an object of the class, or what its arguments without a default may be."""
    row = next((row for row in layer_table.ROWS if row.name == kind.__name__), None)
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(serialize_object(row.make() if row else kind(**needed(kind)))["config"])
    return needed(kind)


def needed(kind):
    """Values for the arguments that have no default, where the table has some."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {p.name: ARGUMENTS[p.name] for p in parameters if p.name in ARGUMENTS}


def arguments(kind, config):
    """The names of all arguments of a class and of those that it is derived from."""
    names = dict.fromkeys(config)
    for base in kind.__mro__:
        init = vars(base).get("__init__")
        if inspect.isfunction(init):
            names |= dict.fromkeys(inspect.signature(init).parameters)
    return [name for name in names if name not in ("self", "args", "kwargs")]


def canaries(folder):
    """Values that name a file, a folder, an address or code."""
    path = os.path.join(folder, MARK)
    return [path, [path], f"file://{path}", f"http://127.0.0.1:9/{MARK}", MARK,
            {"class_name": "function", "config": MARK, "module": MARK, "registered_name": MARK},
            {"class_name": MARK, "config": {}, "module": MARK}]  # fmt: skip


# ---------------------------------------------------------------------- using what was made


def use(plural, made):
    """Do with an object what it is there for: a path may be opened late."""
    with contextlib.suppress(Exception):
        made.get_config()
    if plural == "layers":
        row = next((row for row in layer_table.ROWS if row.name == type(made).__name__), None)
        rng = np.random.default_rng(0)
        args = [draw(rng) for draw in (row.inputs, *row.more)] if row else [X]
        attempt(made, *args, **(row.call if row else {}))
        attempt(made.adapt, args[0]) if hasattr(made, "adapt") else None
    elif plural in ("initializers", "random"):
        attempt(made, (2, 3))
    elif plural == "optimizers":
        attempt(made.apply_gradients, [(tk.ones([2]), tk.Variable(tk.ones([2])))])
    elif plural == "schedules":
        attempt(made, 1)
    elif plural in ("losses", "metrics"):
        attempt(made, X, X)
    else:
        attempt(made, X)


def attempt(function, *args, **more):
    """Call it; any error will do."""
    with contextlib.suppress(Exception):
        function(*args, **more)


def touched(plural, kind, folder):
    """The arguments of a class by which a config reaches for what it names."""
    config = starting_config(plural, kind)
    module = f"keras.{plural}"
    for name in arguments(kind, config):
        for value in canaries(folder):
            described = {
                "module": module, "class_name": kind.__name__, "registered_name": None,
                "config": {**config, name: value},
            }  # fmt: skip
            ways = (deserialize_object, FAMILIES[plural].deserialize)
            for read in ways if type(value) is str and value.startswith("/") else ways[:1]:
                Watch.on, Watch.seen = True, None
                try:
                    with contextlib.suppress(Exception, Touched):
                        use(plural, read(described))
                finally:
                    Watch.on = False
                if Watch.seen:
                    yield f"{plural}.{kind.__name__}: {name} -> {Watch.seen}"
                    break


def reading_operations(folder):
    """The operations that a config may name, called with each argument once a path."""
    from trainkit.layers.base import keras_operations

    spaces = [getattr(tk.ops, name, None) if name else tk.ops for name in keras_operations._PLACES]
    names = {n for space in spaces for n in getattr(space, "__all__", None) or dir(space or ())}
    for name in sorted(names):
        function = keras_operations._function(name.replace("_", ""))
        if function is None:
            continue
        with contextlib.suppress(TypeError, ValueError):
            for argument in inspect.signature(function).parameters:
                config = {"module": "keras.src.ops.numpy", "class_name": name.replace("_", ""),
                          "config": {argument: os.path.join(folder, MARK)}}  # fmt: skip
                Watch.on, Watch.seen = True, None
                try:
                    with contextlib.suppress(Exception, Touched):
                        deserialize_object(config)(tk.keras.Input((3,)))
                finally:
                    Watch.on = False
                if Watch.seen:
                    yield f"ops.{name}: {argument} -> {Watch.seen}"


def main(with_example):
    """Print each argument that reaches out; with an example, one class that does is added."""
    warnings.simplefilter("ignore")
    sys.addaudithook(hook)
    watch_stat()
    if with_example:
        from tests.attacks import unguarded_layer  # noqa: F401  (it registers itself)
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, MARK), "w") as file:
            file.write("0\n")
        for plural, kind in classes():
            if with_example and kind.__name__ != "Unguarded":
                continue
            count += 1
            for text in touched(plural, kind, folder):
                print(text, flush=True)
        for text in () if with_example else reading_operations(folder):
            print(text, flush=True)
    print(f"{count} classes", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("TRAINKIT_JIT", "0")
    main(with_example=sys.argv[1:] == ["example"])
