"""`Options` of data sets: TensorFlow's hints about how a pipeline runs; they change no result."""

from __future__ import annotations

import enum
from typing import Any


class AutoShardPolicy(enum.IntEnum):
    """How a data set is divided among the replicas of a strategy.

    Attributes:
        OFF: not at all: each replica goes through all elements, which it may have chosen by
            `shard` itself. Its batches are cut into as many pieces as there are replicas.
        AUTO: `FILE` where files are read, as many as there are replicas or more, else `DATA`.
        FILE: each replica reads files of its own.
        DATA: each replica has its rows of each batch, so that the order and the batches are those
            of one process.
        HINT: `shard(SHARD_HINT, SHARD_HINT)` says where in the pipeline.

    Example:
        >>> options = tk.data.Options()
        >>> policy = tk.data.experimental.AutoShardPolicy.DATA
        >>> options.experimental_distribute.auto_shard_policy = policy
        >>> dataset = tk.data.Dataset.range(4).batch(2).with_options(options)
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class Settings:
    """A group of settings with given names; other names are refused."""

    _names: tuple[str, ...] = ()

    def __init__(self) -> None:
        for name in self._names:
            object.__setattr__(self, name, None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(
                f"{type(self).__name__} has no setting {name!r}; there are {', '.join(self._names)}"
            )
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        settings = {name: value for name, value in vars(self).items() if value is not None}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in settings.items())})"


class AutotuneOptions(Settings):
    """How TensorFlow tunes a pipeline; here each step has one way to run."""

    _names = ("autotune_algorithm", "cpu_budget", "enabled", "initial_parallelism",
              "min_parallelism", "ram_budget")  # fmt: skip


class DistributeOptions(Settings):
    """How a pipeline is divided among the replicas of a strategy.

    Attributes:
        auto_shard_policy: an `AutoShardPolicy`; `None` acts as `AUTO`.
        num_devices: not used; the strategy says it.
    """

    _names = ("auto_shard_policy", "num_devices")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "auto_shard_policy" and value is not None:
            try:
                value = AutoShardPolicy(value)
            except ValueError:
                policies = ", ".join(f"AutoShardPolicy.{policy.name}" for policy in AutoShardPolicy)
                raise ValueError(
                    f"auto_shard_policy must be one of {policies}, got {value!r}"
                ) from None
        super().__setattr__(name, value)


class OptimizationOptions(Settings):
    """Which rewritings TensorFlow applies to a pipeline; here they need no switches."""

    _names = ("apply_default_optimizations", "filter_fusion", "filter_parallelization",
              "inject_prefetch", "map_and_batch_fusion", "map_and_filter_fusion", "map_fusion",
              "map_parallelization", "noop_elimination", "parallel_batch",
              "seq_interleave_prefetch", "shuffle_and_repeat_fusion", "warm_start")  # fmt: skip


class ThreadingOptions(Settings):
    """How many threads TensorFlow gives to a pipeline; here tk.config.threading says it.

    Example:
        >>> options = tk.data.Options()
        >>> options.threading.private_threadpool_size = 2
        >>> options.threading.private_threadpool_size
        2
    """

    _names = ("max_intra_op_parallelism", "private_threadpool_size")


class ServiceOptions(Settings):
    """How TensorFlow's data service is used; there is none here."""

    _names = ("pinned",)


class Options(Settings):
    """What TensorFlow's users say about how a pipeline runs.

    A data set keeps them and gives them back by `options()`. None of them changes an element: the
    order is always that of the source, and threads are set by `tk.config.threading`. Strategies
    of several replicas look at `experimental_distribute.auto_shard_policy`.

    Attributes:
        autotune, experimental_distribute, experimental_optimization, experimental_service,
            threading: groups of further settings.
        deterministic, experimental_deterministic: whether the order matters; it is always kept.
        dataset_name, experimental_external_state_policy, experimental_slack,
            experimental_symbolic_checkpoint, experimental_threading, experimental_warm_start,
            framework_type: as in TensorFlow.

    Example:
        >>> options = tk.data.Options()
        >>> options.deterministic = True
        >>> dataset = tk.data.Dataset.range(3).with_options(options)
        >>> [int(x) for x in dataset]
        [0, 1, 2]
    """

    _names = ("autotune", "dataset_name", "deterministic", "experimental_deterministic",
              "experimental_distribute", "experimental_external_state_policy",
              "experimental_optimization", "experimental_service", "experimental_slack",
              "experimental_symbolic_checkpoint", "experimental_threading",
              "experimental_warm_start", "framework_type", "threading")  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.autotune = AutotuneOptions()
        self.experimental_distribute = DistributeOptions()
        self.experimental_optimization = OptimizationOptions()
        self.experimental_service = ServiceOptions()
        self.threading = ThreadingOptions()

    def merge(self, options: Options) -> Options:
        """These settings, with those that `options` gives in their place."""
        merged = Options()
        for mine, theirs, into in ((self, options, merged), *_groups(self, options, merged)):
            for name in into._names:
                value = getattr(theirs, name)
                value = getattr(mine, name) if value is None else value
                if not isinstance(value, Settings):
                    setattr(into, name, value)
        return merged


def _groups(*options: Options) -> list[tuple[Any, ...]]:
    names = [n for n in Options._names if isinstance(getattr(options[0], n), Settings)]
    return [tuple(getattr(o, n) for o in options) for n in names]
