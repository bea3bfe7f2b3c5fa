"""`OrbaxCheckpoint`: bound to JAX."""

from typing import ClassVar

from trainkit.core.names import BoundElsewhere


class OrbaxCheckpoint(BoundElsewhere):
    """Keras's callback that saves with Orbax.

    Raises:
        UnimplementedError: always; the text says what to use instead.
    """

    instead: ClassVar[str] = (
        "needs Orbax, which works with JAX: use ModelCheckpoint for the best model, "
        "BackupAndRestore to continue a run, or tk.train.CheckpointManager."
    )
