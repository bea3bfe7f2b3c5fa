"""`Distiller`: a model whose `fit` trains a student on targets and on its teacher's outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainkit import metrics, ops
from trainkit.core import keras_tree as tree
from trainkit.core.registry import deserialize_object, register_keras_serializable, serialize_object
from trainkit.core.trackable import set_silently
from trainkit.distillation.losses import check_structure, is_drawn, losses_of, total
from trainkit.losses.loss import Loss
from trainkit.models import Model

_FINAL = "final_output"


@register_keras_serializable("keras.distillation")
class Distiller(Model):
    """A student that learns from targets and from a teacher, which is frozen.

    loss = w * student_loss(y, student(x)) + (1 - w) * sum_i w_i * distillation_loss_i(...)

    Its outputs are the student's. Features of layers are found in the same pass as the outputs.

    Args:
        teacher: trained model.
        student: model to train, with inputs and outputs of the same shapes and dtypes.
        distillation_losses: a `DistillationLoss`, or a list of these.
        distillation_loss_weights: a number for each of a list; by default 1 for each.
        student_loss_weight: w, a number in [0, 1].
        name: name of the model.
        **kwargs: see `Model`.

    Attributes:
        teacher: the teacher, no longer trainable.
        student: the student.
        student_loss_tracker: mean of the loss by the targets, over the batches of an epoch.
        distillation_loss_tracker: mean of the weighted sum of the distillation losses.
        total_loss_tracker: mean of the loss that is trained on.

    Raises:
        ValueError: one of the two is no model, they do not fit, or losses and weights do not.
    """

    _student_feature_extractor: Any
    _teacher_feature_extractor: Any
    distillation_losses: Any

    def __init__(
        self,
        teacher: Any,
        student: Any,
        distillation_losses: Any,
        distillation_loss_weights: Sequence[float] | None = None,
        student_loss_weight: float = 0.5,
        name: str = "distiller",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        _check_models(teacher, student)
        several = isinstance(distillation_losses, list | tuple)
        compared = list(distillation_losses) if several else [distillation_losses]
        weights = distillation_loss_weights if several else None
        self.student_loss_weight = _checked_weight(student_loss_weight)
        self.distillation_loss_weights = _checked_weights(compared, weights)
        for loss in compared:
            loss.validate_model_compatibility(teacher, student)
        set_silently(self, distillation_losses=compared)
        self.teacher = teacher
        self.student = student
        self.__dict__["_teacher_feature_extractor"] = _extractor(
            teacher, [loss.teacher_layer_name for loss in compared]
        )
        self.__dict__["_student_feature_extractor"] = _extractor(
            student, [loss.student_layer_name for loss in compared]
        )
        set_silently(self, _last_outputs=(None, None))
        teacher.trainable = False
        self.student_loss_tracker = metrics.Mean(name="student_loss")
        self.distillation_loss_tracker = metrics.Mean(name="distillation_loss")
        self.total_loss_tracker = metrics.Mean(name="total_loss")

    def compile(  # type: ignore[override]
        self, optimizer: Any = "adam", loss: Any = None, metrics: Any = None, **kwargs: Any
    ) -> None:
        """Say how the student is trained.

        Args:
            optimizer: object or name.
            loss: name or object of the loss between targets and the student's outputs, or a nest of
                these like the outputs.
            metrics: list of metrics of the student's outputs.
            **kwargs: see `Model.compile`.

        Raises:
            ValueError: there is no loss, or the metrics are no list.
        """
        if loss is None:
            raise ValueError("Distiller.compile: 'loss' can't be None; it is that of the student")
        if metrics is not None and not isinstance(metrics, list | tuple):
            raise ValueError(
                f"Distiller.compile: metrics must be a list or tuple, got {type(metrics).__name__}"
            )
        set_silently(self, _student_loss=losses_of(loss, "Distiller.compile"))
        super().compile(optimizer=optimizer, loss=None, metrics=metrics, **kwargs)
        self.__dict__["_compile_arguments"]["loss"] = loss

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile by what `get_compile_config` gave."""
        self.compile(**deserialize_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)

    def call(self, inputs: Any, training: bool | None = None, **kwargs: Any) -> Any:
        """The outputs of the student."""
        extractor = self.__dict__["_student_feature_extractor"]
        if extractor is None or kwargs:
            return self.student(inputs, training=training, **kwargs)
        features = extractor(inputs, training=training)
        set_silently(self, _last_outputs=(features[_FINAL], features))
        return features[_FINAL]

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """The loss of a batch, which the three trackers take into account.

        Args:
            x: inputs.
            y: targets; without them the loss by targets is 0.
            y_pred: outputs of the student; computed if missing.
            sample_weight: a weight for each sample of the loss by targets.
            training: whether it is for training.

        Returns:
            A scalar tensor.

        Raises:
            ValueError: a distillation loss gives no scalar, or outputs do not fit.
        """
        if y_pred is None:
            y_pred = self(x, training=training)
        weight = self.student_loss_weight
        by_target: Any = 0.0
        if weight > 0 and y is not None:
            by_target = self._by_target(y, y_pred, sample_weight)
        by_teacher: Any = 0.0
        if weight < 1:
            by_teacher = self._by_teacher(x, y_pred, training)
        loss = ops.add(ops.multiply(by_target, weight), ops.multiply(by_teacher, 1.0 - weight))
        self.student_loss_tracker.update_state(by_target)
        self.distillation_loss_tracker.update_state(by_teacher)
        self.total_loss_tracker.update_state(loss)
        return loss

    def _by_target(self, y: Any, y_pred: Any, sample_weight: Any) -> Any:
        student_loss = self.__dict__["_student_loss"]
        check_structure(student_loss, y_pred, "Distiller.compile")

        def one(loss: Any, target: Any, prediction: Any) -> Any:
            if loss is None:
                return 0.0
            if isinstance(loss, Loss):
                return loss(target, prediction, sample_weight)
            values = loss(target, prediction)
            return ops.mean(values if sample_weight is None else values * sample_weight)

        return total(tree.map_structure(one, student_loss, y, y_pred))

    def _by_teacher(self, x: Any, y_pred: Any, training: bool) -> Any:
        of_teacher = _features(self._teacher_feature_extractor, self.teacher, x, False)
        student_output, of_student = self.__dict__["_last_outputs"]
        set_silently(self, _last_outputs=(None, None))
        if student_output is not y_pred:
            of_student = {_FINAL: y_pred}
            if self._student_feature_extractor is not None:
                of_student = self._student_feature_extractor(x, training=training)
        values = []
        pairs = zip(self.distillation_losses, self.distillation_loss_weights, strict=True)
        for loss, weight in pairs:
            targets = of_teacher[loss.teacher_layer_name or _FINAL]
            outputs = of_student[loss.student_layer_name or _FINAL]
            loss.validate_outputs(targets, outputs)
            value = ops.convert_to_tensor(loss.compute_loss(targets, outputs))
            if len(value.shape):
                raise ValueError(
                    f"Distiller: {type(loss).__name__}.compute_loss must give a scalar, it gave "
                    f"shape {tuple(value.shape)}; take its mean"
                )
            values.append(value * weight)
        return total(values)

    def get_config(self) -> dict[str, Any]:
        """The arguments, as plain values."""
        return {
            "name": self.name,
            "trainable": self.trainable,
            "teacher": serialize_object(self.teacher),
            "student": serialize_object(self.student),
            "distillation_losses": [serialize_object(x) for x in self.distillation_losses],
            "distillation_loss_weights": list(self.distillation_loss_weights),
            "student_loss_weight": self.student_loss_weight,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """A distiller like the one that gave `config`, with new weights."""
        arguments = dict(config)
        for name in ("teacher", "student", "distillation_losses"):
            arguments[name] = deserialize_object(arguments[name])
        return cls(**arguments)


def _check_models(teacher: Any, student: Any) -> None:
    for role, model in (("teacher", teacher), ("student", student)):
        if not isinstance(model, Model):
            raise ValueError(f"Distiller: the {role} must be a Model, got {model!r}")
    if not (is_drawn(teacher) and is_drawn(student)):
        return
    _check_alike("inputs", teacher.inputs, student.inputs)
    _check_alike("outputs", teacher.outputs, student.outputs)


def _check_alike(label: str, of_teacher: list[Any], of_student: list[Any]) -> None:
    described = [[(tuple(x.shape), x.dtype) for x in xs] for xs in (of_teacher, of_student)]
    fits = len(of_teacher) == len(of_student) and all(
        a.dtype == b.dtype
        and len(a.shape) == len(b.shape)
        and all(m in (n, None) or n is None for m, n in zip(a.shape, b.shape, strict=True))
        for a, b in zip(of_teacher, of_student, strict=True)
    )
    if not fits:
        raise ValueError(
            f"Distiller: the {label} of teacher and student must have the same shapes and dtypes\n"
            f"  teacher  {described[0]}\n  student  {described[1]}"
        )


def _checked_weight(weight: Any) -> float:
    if not isinstance(weight, int | float) or not 0 <= weight <= 1:
        raise ValueError(
            f"Distiller: student_loss_weight must be a number in [0, 1], got {weight!r}"
        )
    return weight


def _checked_weights(losses: list[Any], weights: Sequence[float] | None) -> list[float]:
    if any(loss is None for loss in losses):
        raise ValueError(
            "Distiller: distillation_losses can't be None; give a LogitsDistillation, a "
            "FeatureDistillation, or a list of these"
        )
    if weights is None:
        return [1.0] * len(losses)
    if len(weights) != len(losses):
        raise ValueError(
            f"Distiller: {len(losses)} distillation_losses and {len(weights)} "
            "distillation_loss_weights; there must be as many of each"
        )
    return list(weights)


def _extractor(model: Any, names: list[str | None]) -> Model | None:
    """A model that gives the outputs of `model` and of the layers named, by name."""
    layer_names = list(dict.fromkeys(name for name in names if name))
    if not layer_names:
        return None
    layers: dict[str, Any] = {name: model.get_layer(name).output for name in layer_names}
    name = f"{model.name}_multi_feature_extractor"
    return Model(model.input, {_FINAL: model.output, **layers}, name=name)


def _features(
    extractor: Callable[..., Any] | None, model: Any, x: Any, training: bool
) -> dict[str, Any]:
    if extractor is None:
        return {_FINAL: model(x, training=training)}
    outputs: dict[str, Any] = extractor(x, training=training)
    return outputs
