"""`tk.distribute.cluster_resolver`: what programs ask for a TPU, and hear that there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.names import unknown_name as _unknown_name

_LAUNCHER = "the launcher, such as mpiexec, says which processes there are"


class TPUClusterResolver:
    """Raises, as TensorFlow's does where no TPU is to be found.

    Programs that try for a TPU first go on with another strategy after the `ValueError`.

    Args:
        tpu: the name of a TPU.
        **others: TensorFlow's other arguments.

    Raises:
        InvalidArgumentError: always; it is a `ValueError`.

    Example:
        >>> try:
        ...     resolver = tk.distribute.cluster_resolver.TPUClusterResolver()
        ... except ValueError:
        ...     strategy = tk.distribute.MirroredStrategy()
    """

    def __init__(self, tpu: Any = None, **others: Any) -> None:
        raise InvalidArgumentError(
            "TPUClusterResolver: trainkit has no TPUs; use tk.distribute.MirroredStrategy for the "
            "GPUs of this process, or tk.distribute.MultiWorkerMirroredStrategy for many processes"
        )

    @classmethod
    def connect(cls, tpu: Any = None, zone: Any = None, project: Any = None) -> Any:
        """Raise what the constructor raises.

        Raises:
            InvalidArgumentError: always.
        """
        return cls(tpu)


_LEFT_OUT = dict.fromkeys(
    (
        "ClusterResolver",
        "GCEClusterResolver",
        "KubernetesClusterResolver",
        "SimpleClusterResolver",
        "SlurmClusterResolver",
        "TFConfigClusterResolver",
        "UnionResolver",
    ),
    _LAUNCHER,
)


if not TYPE_CHECKING:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        raise _unknown_name(
            "trainkit.distribute.cluster_resolver", name, ["TPUClusterResolver"], _LEFT_OUT
        )
