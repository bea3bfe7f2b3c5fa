"""`Trained`: how a model is compiled, and what it does with one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit import optimizers
from trainkit.autodiff.tape import GradientTape
from trainkit.core import nest
from trainkit.core.registry import serialize_object
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.trackable import tracked
from trainkit.layers import tracking
from trainkit.layers.layer import Layer
from trainkit.metrics import Mean
from trainkit.models import batches
from trainkit.models.compiled_loss import CompiledLoss
from trainkit.models.compiled_metrics import CompiledMetrics
from trainkit.models.compiled_step import CompiledStep
from trainkit.models.functional import Graph
from trainkit.models.step_facts import StepFacts, held_metrics

_UNTRACKED = {"training_run", "history", "_loss_tracker"}


class Trained(Layer):
    """A layer with an optimizer, a loss and metrics, and steps on batches; the base of `Model`.

    Attributes:
        compiled: whether `compile` was called.
        optimizer: the optimizer, `None` before.
        loss: what `compile` was given.
    """

    _untracked = Layer._untracked | _UNTRACKED
    _graph: Graph | None
    _compile_loss: CompiledLoss | None
    _compile_metrics: CompiledMetrics | None
    _compile_arguments: dict[str, Any] | None
    _train_function: Any
    _test_function: Any
    _predict_function: Any
    compiled: bool
    optimizer: Any
    loss: Any
    history: Any
    training_run: Any
    stop_training: bool
    stop_evaluating: bool
    stop_predicting: bool
    steps_per_execution: int
    run_eagerly: bool
    jit_compile: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        model = super().__new__(cls, *args, **kwargs)
        model.__dict__.update(
            _graph=None,
            training_run=None,
            history=None,
            stop_training=False,
            stop_evaluating=False,
            stop_predicting=False,
            compiled=False,
            optimizer=None,
            loss=None,
            steps_per_execution=1,
            run_eagerly=False,
            jit_compile="auto",
            _compile_loss=None,
            _compile_metrics=None,
            _compile_arguments=None,
            _train_function=None,
            _test_function=None,
            _predict_function=None,
            _facts_of_steps=None,
        )
        return model

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles take over: not the compiled steps, which they make anew."""
        made = ("_train_function", "_test_function", "_predict_function", "_facts_of_steps")
        return {**super().__getstate__(), **dict.fromkeys((*made, "training_run"))}

    # ------------------------------------------------------------------ compile

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: Any = "auto",
        auto_scale_loss: bool = True,
    ) -> None:
        """Say how the model is trained.

        Args:
            optimizer: name or `Optimizer`.
            loss: name, function or `Loss`; for several outputs a list, or a dict by output names.
            loss_weights: what the loss of each output counts, a list or a dict.
            metrics: list of names, functions or metrics; for several outputs a list of lists, or a
                dict.
            weighted_metrics: the same, for metrics that take sample weights into account.
            run_eagerly: run each step operation by operation, never compiled.
            steps_per_execution: so many batches between calls of callbacks.
            jit_compile: whether compiled steps may fuse operations; `"auto"` where that pays.
            auto_scale_loss: with a float16 policy, scale the loss so that gradients do not vanish.

        Raises:
            ValueError: an unknown name of an optimizer, loss or metric; the text lists those near
                it.
        """
        if jit_compile not in ("auto", True, False):
            raise ValueError(
                f"compile: jit_compile must be True, False or 'auto', got {jit_compile!r}"
            )
        if steps_per_execution < 1:
            raise ValueError(
                f"compile: steps_per_execution must be at least 1, got {steps_per_execution}"
            )
        found = optimizers.get(optimizer)
        names = None if self._graph is None else self._graph.output_names
        held = tracked([])  # all metrics made by this call, for checkpoints
        compiled_loss = (
            None if loss is None else CompiledLoss(loss, loss_weights, names, held.append)
        )
        compiled_metrics = CompiledMetrics(metrics, weighted_metrics, names, held.append)
        if auto_scale_loss and self.dtype_policy.name == "mixed_float16" and found is not None:
            if not isinstance(found, optimizers.LossScaleOptimizer):
                found = optimizers.LossScaleOptimizer(found)
        self.optimizer = found
        self._loss_tracker = Mean(name="loss")
        held.append(self._loss_tracker)
        self._compiled_metrics = held
        self.__dict__.update(
            loss=loss,
            _compile_loss=compiled_loss,
            _compile_metrics=compiled_metrics,
            run_eagerly=bool(run_eagerly),
            steps_per_execution=int(steps_per_execution),
            jit_compile=jit_compile,
            stop_training=False,
            compiled=True,
            _train_function=None,
            _test_function=None,
            _predict_function=None,
            _facts_of_steps=None,
            _compile_arguments={
                "optimizer": optimizer,
                "loss": loss,
                "loss_weights": loss_weights,
                "metrics": metrics,
                "weighted_metrics": weighted_metrics,
                "run_eagerly": run_eagerly,
                "steps_per_execution": steps_per_execution,
                "jit_compile": jit_compile,
            },
        )

    def _require_compiled(self, method: str) -> None:
        if not self.compiled:
            raise ValueError(f"model {self.name!r}: call compile() before {method}()")

    def get_compile_config(self) -> dict[str, Any] | None:
        """What `compile` was given, as plain values; `None` before it."""
        given = self._compile_arguments
        if given is None:
            return None
        return serialize_object({**given, "optimizer": self.optimizer})

    def prepare(self, spec: Any) -> None:
        """Make weights, metrics and slots for batches of these shapes, as a step would.

        Args:
            spec: nest of `TensorSpec`s of a batch; `None` does nothing.
        """
        if spec is None:
            return
        x, y, _ = batches.unpack(nest.map_structure(_core_spec, spec))
        try:
            y_pred = self.compute_output_spec(x)
        except Exception:  # a call that looks at values; what is missing is made by the first step
            return
        if y is not None and self._compile_loss is not None:
            self._compile_loss.build(y_pred)
        if y is not None and self._compile_metrics is not None:
            self._compile_metrics.build(y, y_pred)
        if self.optimizer is not None and self.trainable_variables and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    # ------------------------------------------------------------------ metrics

    @property
    def metrics(self) -> list[Any]:
        """The metrics that `fit` shows: loss, those of `compile`, then those held as attributes."""
        if not self.compiled:
            return held_metrics(self, [])
        found: list[Any] = [self._loss_tracker]
        if self._compile_loss is not None:
            found += list(self._compile_loss.trackers)
        if self._compile_metrics is not None:
            found += list(self._compile_metrics.metrics)
        found += held_metrics(self, self._compiled_metrics)
        return tracking.once(found)

    @property
    def metrics_names(self) -> list[str]:
        """The names of `metrics`."""
        return [metric.name for metric in self.metrics]

    def reset_metrics(self) -> None:
        """Put all metrics back to their beginning."""
        self._clear_metrics()
        self.__dict__["_facts_of_steps"] = None

    def _clear_metrics(self) -> None:
        for metric in self.metrics:
            metric.reset_state()

    def get_metrics_result(self) -> dict[str, Any]:
        """The results of all metrics by name."""
        results: dict[str, Any] = {}
        own = type(self).metrics is Trained.metrics and self.compiled
        for metric in self._steps.all_metrics() if own else self.metrics:
            if metric is self.__dict__.get("_loss_tracker") and not self._tracks_loss():
                continue
            value = metric.result()
            results.update(value if isinstance(value, dict) else {metric.name: value})
        return results

    def _tracks_loss(self) -> bool:
        return self._compile_loss is not None or bool(float(self._loss_tracker.count) > 0)

    @property
    def _steps(self) -> StepFacts:
        """What steps need of the tree of layers, until the metrics are reset."""
        facts = self.__dict__["_facts_of_steps"]
        if facts is None:
            facts = self.__dict__["_facts_of_steps"] = StepFacts(self)
        return facts

    # ------------------------------------------------------------------ one batch

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """The loss of a batch: what `compile` was given, and the losses that layers added.

        Args:
            x: inputs.
            y: targets.
            y_pred: outputs of the model.
            sample_weight: a weight for each sample.
            training: whether it is for training.

        Returns:
            A scalar tensor.

        Raises:
            ValueError: there is no loss at all.
        """
        total = None
        if self._compile_loss is not None:
            if y is None:
                raise ValueError(
                    f"model {self.name!r} is compiled with a loss, but the data has no targets y"
                )
            total = self._compile_loss(y, y_pred, sample_weight)
        for loss in self._steps.losses():
            total = loss if total is None else total + loss
        if total is None:
            raise ValueError(
                f"model {self.name!r} has no loss: give compile() one, or call add_loss in a layer"
            )
        return total

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Take a batch into account in the metrics of `compile`; the results of all metrics."""
        if self._compile_metrics is not None and y is not None:
            self._compile_metrics.update(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def train_step(self, data: Any) -> dict[str, Any]:
        """Train on one batch; override it for training of another kind.

        Args:
            data: x, (x, y) or (x, y, sample_weight).

        Returns:
            Scalars by name, which the bar, `History` and callbacks show.
        """
        x, y, sample_weight = batches.unpack(data)
        with GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight, training=True)
            scaled = self.optimizer.scale_loss(loss)
        self._loss_tracker.update_state(loss, sample_weight=_batch_size(x))
        variables = self._steps.trainable(tape.watched_variables())
        if variables:
            self.optimizer.apply(tape.gradient(scaled, variables), variables)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluate one batch.

        Args:
            data: x, (x, y) or (x, y, sample_weight).

        Returns:
            Scalars by name.
        """
        x, y, sample_weight = batches.unpack(data)
        y_pred = self(x, training=False)
        if self._compile_loss is not None or self._steps.losses():
            loss = self.compute_loss(x, y, y_pred, sample_weight, training=False)
            self._loss_tracker.update_state(loss, sample_weight=_batch_size(x))
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def predict_step(self, data: Any) -> Any:
        """The outputs for one batch.

        Args:
            data: x, (x, y) or (x, y, sample_weight).
        """
        return self(batches.unpack(data)[0], training=False)

    # The three places where steps become functions, such as compiled ones.

    def make_train_function(self) -> Callable[[Any], dict[str, Any]]:
        """The function that `fit` calls for each batch; a new one when layers have been frozen."""
        self._train_function = self._made(self._train_function, self.train_step)
        return self._train_function[1]

    def make_test_function(self) -> Callable[[Any], dict[str, Any]]:
        """The function that `evaluate` calls for each batch."""
        self._test_function = self._made(self._test_function, self.test_step)
        return self._test_function[1]

    def _made(self, made: Any, step: Callable[[Any], Any]) -> tuple[Any, Any]:
        """A pair of what the compiled step depends on, and the step; `made` if it still holds."""
        if self.run_eagerly:
            return (None, step)
        depends = tuple(id(v) for v in self.trainable_variables)
        if made is not None and made[0] == depends:
            return made
        return depends, CompiledStep(step, self.jit_compile)

    def make_predict_function(self) -> Callable[[Any], Any]:
        """The function that `predict` calls for each batch."""
        if self._predict_function is None:
            self.__dict__["_predict_function"] = self.predict_step
        return self._predict_function


def _core_spec(spec: Any) -> Any:
    return None if spec is None else Spec(spec.shape, spec.dtype)


def _batch_size(x: Any) -> Any:
    """How many samples a batch has."""
    if type(x) is Tensor:
        return x._array.shape[0]
    first = next(leaf for leaf in nest.flatten(x) if leaf is not None)
    return first.shape[0]
