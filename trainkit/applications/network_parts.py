"""What all networks share: their input, their head, and where their weights come from."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

from trainkit import activations, layers
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.values.python_signatures import signature_of
from trainkit.models import Input, Model
from trainkit.models.functional import source_inputs
from trainkit.ops.convolutional.window_arguments import is_channels_first

get_file = DeferredModule("trainkit.datasets.downloads").get_file

Network = TypeVar("Network", bound=Callable[..., Model])
"""A function that makes a network: a type checker sees the arguments of this very one."""
CLASSES = 1000
MEANS, DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colors of ImageNet's images, as parts of the brightest."""
FOLDER = "https://storage.googleapis.com/tensorflow/keras-applications/"
"""Where Keras keeps the weights that it has trained on ImageNet."""


def channel_axis() -> int:
    """The axis of colors and features in a batch, by the data format in force."""
    return 1 if is_channels_first(None, "applications") else -1


@dataclass(frozen=True)
class WeightFile:
    """A file of weights trained on ImageNet.

    Attributes:
        url: where it is.
        digest: MD5 or SHA-256 of its content, `None` where Keras names none.
        name: what it is called on this machine; by default as in `url`.
    """

    url: str
    digest: str | None = None
    name: str | None = None

    def path(self) -> str:
        """Where it lies on this machine; it is downloaded if it does not.

        Raises:
            OSError: it is not there, and there is no connection.
        """
        name = self.name or self.url.rpartition("/")[2]
        try:
            path: str = get_file(name, self.url, cache_subdir="models", file_hash=self.digest)
            return path
        except OSError as error:
            raise OSError(
                f"the weights {name} are not on this machine and could not be downloaded "
                f"({type(error).__name__}). Let it reach {self.url} once; or fetch the file "
                "elsewhere, and give its path as weights"
            ) from error


@dataclass(frozen=True)
class Wanted:
    """The arguments that all networks have, as Keras names them.

    Attributes:
        include_top: whether the classifier is part of the network.
        weights: `"imagenet"`, the path of a file, or `None` for fresh ones.
        input_tensor: a symbolic tensor to start from.
        input_shape: of one image; optional.
        pooling: `"avg"`, `"max"` or `None`: what ends a network without a classifier.
        classes: of the classifier.
        classifier_activation: of the classifier; `None` for logits.
        name: of the model.
    """

    include_top: bool
    weights: Any
    input_tensor: Any
    input_shape: Sequence[int | None] | None
    pooling: str | None
    classes: int
    classifier_activation: Any
    name: str | None

    def image(self, size: int, smallest: int, any_size: bool = False) -> Any:
        """The symbolic batch of images that the network starts from.

        Args:
            size: height and width for which the network was made.
            smallest: least height and width with which anything is left at its end.
            any_size: whether the classifier, too, takes images of all sizes, also unknown ones.

        Raises:
            InvalidArgumentError: an argument does not fit.
        """
        self._check()
        if self.input_tensor is None:
            return Input(shape=self._shape(size, smallest, any_size))
        if not hasattr(self.input_tensor, "_keras_history"):
            raise InvalidArgumentError(
                f"{self.name}: input_tensor must be a symbolic tensor, such as keras.Input gives, "
                f"got {type(self.input_tensor).__name__}"
            )
        self._shape(size, smallest, any_size)
        return self.input_tensor

    def colors(self, image: Any) -> int | None:
        """How many channels the images have."""
        channels: int | None = image.shape[channel_axis()]
        return channels

    def check_channels_last(self) -> None:
        """Refuse the data format that the network was not made for.

        Raises:
            InvalidArgumentError: channels come first.
        """
        if channel_axis() == 1:
            raise InvalidArgumentError(
                f"{self.name}: only data_format 'channels_last' is supported; call "
                "keras.config.set_image_data_format('channels_last') before"
            )

    def _check(self) -> None:
        is_known = self.weights in (None, "imagenet")
        if not is_known and not os.path.exists(local_path(self.weights)):
            raise InvalidArgumentError(
                f"{self.name}: weights must be None, 'imagenet' or the path of a file, and there "
                f"is no file {self.weights!r}"
            )
        if self.weights == "imagenet" and self.include_top and self.classes != CLASSES:
            raise InvalidArgumentError(
                f"{self.name}: weights='imagenet' with include_top=True has {CLASSES} classes, "
                f"got classes={self.classes}"
            )
        if self.pooling not in (None, "avg", "max"):
            raise InvalidArgumentError(
                f"{self.name}: pooling must be None, 'avg' or 'max', got {self.pooling!r}"
            )
        if self.include_top and self.weights is not None:
            activation = activations.get(self.classifier_activation)
            if activation not in (activations.get("softmax"), activations.get(None)):
                raise InvalidArgumentError(
                    f"{self.name}: with trained weights classifier_activation is None or "
                    f"'softmax', got {self.classifier_activation!r}"
                )

    def _shape(self, size: int, smallest: int, any_size: bool) -> tuple[int | None, ...]:
        first = channel_axis() == 1
        pretrained, input_shape = self.weights == "imagenet", self.input_shape
        if input_shape is not None and len(input_shape) != 3:
            raise InvalidArgumentError(
                f"{self.name}: input_shape must have three sizes, got {input_shape}"
            )
        channels = 3 if input_shape is None else input_shape[0 if first else 2]
        if channels not in (1, 3):
            warnings.warn(f"{self.name}: images of {channels} channels are unusual", stacklevel=5)
        usual = (channels, size, size) if first else (size, size, channels)
        if pretrained and channels != 3:
            raise InvalidArgumentError(
                f"{self.name}: weights='imagenet' are for 3 channels, got input_shape={input_shape}"
            )
        fixed = self.include_top and not any_size
        if pretrained and fixed and input_shape is not None and tuple(input_shape) != usual:
            raise InvalidArgumentError(
                f"{self.name}: weights='imagenet' with include_top=True are for input_shape="
                f"{usual}, got {tuple(input_shape)}; leave the top out, or the weights"
            )
        if input_shape is None:
            open_shape = (3, None, None) if first else (None, None, 3)
            return usual if fixed else open_shape
        sizes = input_shape[1:] if first else input_shape[:2]
        if any(s is not None and s < smallest for s in sizes):
            raise InvalidArgumentError(
                f"{self.name}: images must have {smallest} x {smallest} pixels or more, got "
                f"input_shape={tuple(input_shape)}"
            )
        if fixed and None in input_shape:
            raise InvalidArgumentError(
                f"{self.name}: with include_top=True all sizes of input_shape must be known, got "
                f"{tuple(input_shape)}"
            )
        return tuple(input_shape)

    def head(
        self,
        x: Any,
        top_name: str | None = "avg_pool",
        names: tuple[str | None, str | None] = (None, None),
        dropout: float = 0.0,
        **dense: Any,
    ) -> Any:
        """The classifier on average-pooled features, or what `pooling` says.

        Args:
            x: features, (batch, height, width, channels).
            top_name: of the pooling layer before the classifier.
            names: of the pooling layers without one, the average and the maximum.
            dropout: rate before the classifier.
            **dense: more arguments of the classifier.
        """
        if not self.include_top:
            return self.pooled(x, names)
        x = layers.GlobalAveragePooling2D(name=top_name)(x)
        if dropout:
            x = layers.Dropout(dropout, name="top_dropout")(x)
        return self.classified(x, **dense)

    def classified(self, x: Any, name: str = "predictions", **dense: Any) -> Any:
        """The last dense layer."""
        return layers.Dense(
            self.classes, activation=self.classifier_activation, name=name, **dense
        )(x)

    def pooled(self, x: Any, names: tuple[str | None, str | None] = (None, None)) -> Any:
        """What `pooling` makes of the features."""
        if self.pooling == "avg":
            return layers.GlobalAveragePooling2D(name=names[0])(x)
        return layers.GlobalMaxPooling2D(name=names[1])(x) if self.pooling == "max" else x

    def model(self, image: Any, x: Any, trained: WeightFile, name: str | None = None) -> Model:
        """The model from `image` to `x`, with its weights.

        Args:
            image: what `image()` gave.
            x: the output.
            trained: the file that `weights="imagenet"` means.
            name: of the model where the user gave none.
        """
        inputs = image if self.input_tensor is None else source_inputs(self.input_tensor)
        network = Model(inputs, x, name=self.name or name)
        if self.weights is not None:
            path = trained.path() if self.weights == "imagenet" else self.weights
            network.load_weights(path)
        return network


def network_like(
    pattern: Network,
    name: str,
    model_name: str,
    about: str,
    build: Callable[..., Model],
    **settings: Any,
) -> Network:
    """A function that makes another network of a family, with the arguments of `pattern`.

    Args:
        pattern: a function that makes a network; its docstring describes the arguments.
        name: of the function.
        model_name: of the models, where users give none.
        about: what the docstring says before the arguments.
        build: makes the model of a `Wanted`, `settings`, and what else `pattern` takes, by keyword.
        **settings: what sets this network apart in its family.
    """
    signature = signature_of(pattern)
    parameters = [
        parameter.replace(default=model_name) if parameter.name == "name" else parameter
        for parameter in signature.parameters.values()
    ]
    signature = signature.replace(parameters=parameters)

    def make(*args: Any, **kwargs: Any) -> Model:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        bound.apply_defaults()
        arguments = bound.arguments
        spec = Wanted(**{field.name: arguments.pop(field.name) for field in fields(Wanted)})
        return build(spec, **settings, **arguments)

    _, heading, arguments = inspect.cleandoc(pattern.__doc__ or "").partition("Args:\n")
    make.__name__ = make.__qualname__ = name
    make.__module__ = build.__module__
    make.__doc__ = f"{inspect.cleandoc(about)}\n\n{heading}{arguments}\n"
    make.__signature__ = signature  # type: ignore[attr-defined]
    return cast(Network, make)


def halving_pad(x: Any, kernel: int) -> Any:
    """Zeros around images so that a valid convolution of stride 2 halves them, as in TensorFlow 1.

    Args:
        x: symbolic images.
        kernel: size of the convolution's window.
    """
    sizes = x.shape[2:4] if channel_axis() == 1 else x.shape[1:3]
    less = [1 if size is None else 1 - size % 2 for size in sizes]
    half = kernel // 2
    return tuple((half - n, half) for n in less)


def divisible(number: float, by: int = 8) -> int:
    """The multiple of `by` that is nearest to `number`, but not less than 0.9 of it."""
    near = max(by, int(number + by / 2) // by * by)
    return near + by if near < 0.9 * number else near
