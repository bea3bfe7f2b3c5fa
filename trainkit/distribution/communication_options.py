"""How processes talk to each other, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from trainkit.collectives.communication import BUCKET_BYTES, Communication
from trainkit.collectives.nccl import why_not

_DTYPES = ("float16", "bfloat16")


class CommunicationOptions:
    """How the gradients of all processes are joined.

    Args:
        bytes_per_pack: about how large a message is; gradients travel in several, the first ones
            while the backward pass of a compiled step still runs. 0 leaves it to trainkit.
        timeout_seconds: only `None`: a process that ends is noticed as soon as it does.
        implementation: `"AUTO"`: NCCL for arrays of GPUs where all processes have it, and MPI;
            `"NCCL"` is an error where they do not.
        gradient_dtype: `"float16"` or `"bfloat16"` halves what travels: gradients are rounded to
            it, added up in float32 and rounded once more. That takes the processor longer, so it
            pays where a network is slow, not within one machine. `None` sends them as they are.

    Raises:
        ValueError: a setting is another one; the text says which there are.

    Example:
        >>> options = tk.distribute.CommunicationOptions(gradient_dtype="bfloat16")
        >>> strategy = tk.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        >>> options.bytes_per_pack
        0
    """

    def __init__(
        self,
        bytes_per_pack: int = 0,
        timeout_seconds: None = None,
        implementation: Any = "AUTO",
        gradient_dtype: str | None = None,
    ) -> None:
        if bytes_per_pack < 0 or int(bytes_per_pack) != bytes_per_pack:
            raise ValueError(
                "CommunicationOptions: bytes_per_pack must be a whole number, 0 or more, got "
                f"{bytes_per_pack!r}"
            )
        if timeout_seconds is not None:
            raise ValueError(
                "CommunicationOptions: timeout_seconds must be None: a process that ends is "
                f"noticed as soon as it does; got {timeout_seconds!r}"
            )
        name = str(getattr(implementation, "value", implementation)).upper()
        if name not in ("AUTO", "NCCL"):
            raise ValueError(
                "CommunicationOptions: implementation must be 'AUTO' (NCCL between GPUs, else MPI) "
                f"or 'NCCL', got {implementation!r}"
            )
        if name == "NCCL" and why_not():
            raise ValueError(
                f"CommunicationOptions: implementation='NCCL' adds up on GPUs, and {why_not()}; "
                "take 'AUTO'"
            )
        if gradient_dtype not in (None, *_DTYPES):
            raise ValueError(
                f"CommunicationOptions: gradient_dtype must be None or one of {_DTYPES}, got "
                f"{gradient_dtype!r}"
            )
        self.bytes_per_pack = int(bytes_per_pack)
        self.timeout_seconds = timeout_seconds
        self.implementation = name
        self.gradient_dtype = gradient_dtype

    def __repr__(self) -> str:
        return (
            f"CommunicationOptions(bytes_per_pack={self.bytes_per_pack}, "
            f"gradient_dtype={self.gradient_dtype!r})"
        )


def communication_of(options: Any) -> Communication:
    """The settings of a process group.

    Args:
        options: a `CommunicationOptions`, or `None` for its defaults.

    Raises:
        TypeError: it is something else.
    """
    if options is None:
        return Communication()
    if not isinstance(options, CommunicationOptions):
        raise TypeError(
            "communication_options must be a tk.distribute.CommunicationOptions, got "
            f"{type(options).__name__}"
        )
    size = options.bytes_per_pack or BUCKET_BYTES
    return Communication(bucket_bytes=size, gradient_dtype=options.gradient_dtype)
