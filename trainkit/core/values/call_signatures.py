"""What functions that another function makes are called with, as editors are to know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainkit.core.tensor import Tensor
    from trainkit.core.values.type_aliases import TensorLike, WindowPadding


class ConvolutionCall(Protocol):
    """A convolution over a number of axes."""

    def __call__(
        self,
        input: TensorLike,
        filters: TensorLike,
        strides: int | Sequence[int],
        padding: WindowPadding,
        data_format: str | None = None,
        dilations: int | Sequence[int] | None = None,
        name: str | None = None,
    ) -> Tensor: ...


class PoolingCall(Protocol):
    """Pooling over a number of axes."""

    def __call__(
        self,
        input: TensorLike,
        ksize: int | Sequence[int],
        strides: int | Sequence[int],
        padding: WindowPadding,
        data_format: str | None = None,
        name: str | None = None,
    ) -> Tensor: ...
