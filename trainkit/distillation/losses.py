"""What compares a student with its teacher: their logits, or features of layers inside."""

from __future__ import annotations

from typing import Any

from trainkit import losses, ops
from trainkit.core import keras_tree as tree
from trainkit.core.registry import deserialize_object, register_keras_serializable, serialize_object
from trainkit.core.tensor import Tensor
from trainkit.losses.divergence import KLDivergence, kl_divergence


class DistillationLoss:
    """Base of losses between the outputs of a teacher and those of a student.

    A subclass writes `compute_loss`. With attributes `teacher_layer_name` and `student_layer_name`
    it is given the outputs of these layers in place of the models'.
    """

    teacher_layer_name: str | None = None
    student_layer_name: str | None = None

    def compute_loss(self, teacher_outputs: Any, student_outputs: Any, **kwargs: Any) -> Any:
        """The loss of a batch.

        Args:
            teacher_outputs: tensor, or a nest of them, that the teacher gave.
            student_outputs: the same of the student.
            **kwargs: what a subclass takes besides.

        Returns:
            A scalar tensor.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method compute_loss")

    def validate_outputs(self, teacher_outputs: Any, student_outputs: Any) -> None:
        """Check that the outputs can be compared.

        Raises:
            ValueError: they are nested differently.
        """
        tree.assert_same_structure(teacher_outputs, student_outputs)

    def validate_model_compatibility(self, teacher: Any, student: Any) -> None:
        """Check that the two models have what this loss compares; here all have.

        Args:
            teacher: model.
            student: model.
        """


def losses_of(identifiers: Any, owner: str) -> Any:
    """A nest of loss functions from names, objects and `None`.

    Raises:
        ValueError: all are `None`, or a name is unknown.
    """
    functions = tree.map_structure(
        lambda x: losses.get(x) if isinstance(x, str) else x, identifiers
    )
    if all(x is None for x in tree.flatten(functions)):
        raise ValueError(f"{owner}: at least one loss must be other than None, got {identifiers!r}")
    return functions


def total(values: Any) -> Tensor:
    """The sum of a nest of scalars."""
    return ops.sum(ops.stack([ops.convert_to_tensor(x, "float32") for x in tree.flatten(values)]))


@register_keras_serializable("keras.distillation")
class FeatureDistillation(DistillationLoss):
    """Loss between features of a layer of the teacher and of one of the student.

    Source: Romero et al. 2015, "FitNets: hints for thin deep nets", arXiv:1412.6550.

    Args:
        loss: name or object of a loss, called with the teacher's features as targets; or a nest of
            these for outputs that are nested, `None` for one that is not compared.
        teacher_layer_name: layer of the teacher; by default its outputs.
        student_layer_name: layer of the student; by default its outputs.

    Raises:
        ValueError: no loss is given.
    """

    def __init__(
        self,
        loss: Any = "mse",
        teacher_layer_name: str | None = None,
        student_layer_name: str | None = None,
    ) -> None:
        self.teacher_layer_name = teacher_layer_name
        self.student_layer_name = student_layer_name
        self.loss = losses_of(loss, "FeatureDistillation")

    def validate_model_compatibility(self, teacher: Any, student: Any) -> None:
        """Check that both models have the layers.

        Raises:
            ValueError: one has no such layer, or is not made of symbolic inputs and outputs, so
                that its layers have no outputs of their own.
        """
        if self.teacher_layer_name is None and self.student_layer_name is None:
            return
        models = {"teacher": teacher, "student": student}
        written = [role for role, model in models.items() if not is_drawn(model)]
        if written:
            raise ValueError(
                f"FeatureDistillation: features of layers need models made of symbolic inputs "
                f"(Functional, or Sequential with an Input); {' and '.join(written)} is not. Leave "
                "the names of layers away to compare final outputs, or use LogitsDistillation"
            )
        for role, name in (
            ("teacher", self.teacher_layer_name),
            ("student", self.student_layer_name),
        ):
            if name is not None:
                try:
                    models[role].get_layer(name=name)
                except ValueError as error:
                    raise ValueError(f"FeatureDistillation: in the {role}: {error}") from None

    def validate_outputs(self, teacher_outputs: Any, student_outputs: Any) -> None:
        """Check that the features are nested alike, and like the losses.

        Raises:
            ValueError: they are not.
        """
        super().validate_outputs(teacher_outputs, student_outputs)
        check_structure(self.loss, teacher_outputs, "FeatureDistillation")

    def compute_loss(self, teacher_outputs: Any, student_outputs: Any, **kwargs: Any) -> Any:
        """The sum of the losses' means over the batch."""

        def one(loss: Any, target: Any, features: Any) -> Any:
            return 0.0 if loss is None else ops.mean(loss(target, features))

        return total(tree.map_structure(one, self.loss, teacher_outputs, student_outputs))

    def get_config(self) -> dict[str, Any]:
        """The arguments, as plain values."""
        return {
            "loss": serialize_object(self.loss),
            "teacher_layer_name": self.teacher_layer_name,
            "student_layer_name": self.student_layer_name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A loss like the one that gave `config`."""
        return cls(**{**config, "loss": deserialize_object(config["loss"])})


@register_keras_serializable("keras.distillation")
class LogitsDistillation(DistillationLoss):
    """Loss between the logits of both models, divided by a temperature.

    For the divergence of Kullback and Leibler, the default, by name or object:
    T**2 * mean(KL(softmax(teacher / T) || softmax(student / T))). Other losses are called with the
    divided logits themselves, so those of probabilities need `from_logits=True`.
    Source: Hinton, Vinyals and Dean 2015, arXiv:1503.02531.

    Args:
        temperature: number above 0; a higher one makes softer targets.
        loss: name or object of a loss, called with the teacher's logits as targets; or a nest of
            these for outputs that are nested, `None` for one that is not compared.

    Raises:
        ValueError: no loss is given, or the temperature is no number above 0.
    """

    def __init__(self, temperature: float = 3.0, loss: Any = "kl_divergence") -> None:
        self.loss = losses_of(loss, "LogitsDistillation")
        if not isinstance(temperature, int | float):
            raise ValueError(
                f"LogitsDistillation: temperature must be a number, got {temperature!r}"
            )
        if temperature <= 0:
            raise ValueError(
                f"LogitsDistillation: temperature must be greater than 0, got {temperature}"
            )
        self.temperature = temperature

    def compute_loss(self, teacher_outputs: Any, student_outputs: Any, **kwargs: Any) -> Any:
        """The sum of the losses' means over the batch."""

        def one(loss: Any, target: Any, logits: Any) -> Any:
            if loss is None:
                return 0.0
            target, logits = target / self.temperature, logits / self.temperature
            if loss is kl_divergence or isinstance(loss, KLDivergence):
                divergence = ops.mean(loss(ops.softmax(target), ops.softmax(logits)))
                return divergence * self.temperature**2
            return ops.mean(loss(target, logits))

        return total(tree.map_structure(one, self.loss, teacher_outputs, student_outputs))

    def get_config(self) -> dict[str, Any]:
        """The arguments, as plain values."""
        return {"temperature": self.temperature, "loss": serialize_object(self.loss)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A loss like the one that gave `config`."""
        return cls(**{**config, "loss": deserialize_object(config["loss"])})


def is_drawn(model: Any) -> bool:
    """Whether a model has symbolic inputs and outputs."""
    return getattr(model, "inputs", None) is not None


def check_structure(expected: Any, structure: Any, owner: str) -> None:
    """Check that losses are nested like outputs.

    Raises:
        ValueError: they are not.
    """
    try:
        tree.assert_same_structure(expected, structure)
    except ValueError as error:
        raise ValueError(f"{owner}: the losses are not nested like the outputs: {error}") from None
