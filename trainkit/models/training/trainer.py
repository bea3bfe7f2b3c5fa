"""`Trained`: how a model is compiled, and what it does with one batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from trainkit import optimizers
from trainkit.autodiff.tape import GradientTape
from trainkit.collectives.replica import REPLICAS
from trainkit.core import nest
from trainkit.core.names import with_known_arguments
from trainkit.core.registry import serialize_object
from trainkit.core.shapes import Spec
from trainkit.core.trackable import tracked
from trainkit.distribution.strategy import Strategy, get_strategy, scoped_strategy
from trainkit.graph.tracing.function import function
from trainkit.layers.base import tracking
from trainkit.metrics import Mean
from trainkit.models.functional import FunctionalGraph
from trainkit.models.layer_links import LayerLinks
from trainkit.models.layer_scopes import layer_scopes, shorten_names
from trainkit.models.training import data_adapters, first_batch
from trainkit.models.training.compile_loss import CompiledLoss, batch_size
from trainkit.models.training.compile_metrics import CompiledMetrics
from trainkit.models.training.stateless_loss import StatelessLosses
from trainkit.models.training.step_cache import StepCache, held_metrics
from trainkit.models.training.step_function import (
    EAGER_PREDICTIONS,
    FIRST_EAGER,
    CompiledStep,
    OwnTrainStep,
    StepsInARow,
    own_step_run_eagerly,
)

_UNTRACKED = {"training_run", "history", "_loss_tracker", "_compile_metrics"}


class Trained(StatelessLosses):
    """A layer with an optimizer, a loss and metrics, and steps on batches; the base of `Model`.

    Attributes:
        compiled: whether `compile` was called.
        optimizer: the optimizer, `None` before.
        loss: what `compile` was given.
    """

    _untracked = StatelessLosses._untracked | _UNTRACKED
    # parts that only training needs: what is saved to be served has none of them
    _training_parts = frozenset({"optimizer", "compiled_metrics"})
    _graph: FunctionalGraph | None
    _compile_loss: CompiledLoss | None
    _compile_metrics: CompiledMetrics | None
    _compile_arguments: dict[str, Any] | None
    _steps_made: dict[str, tuple[Any, Any]]
    _step_cache: StepCache
    train_function: Any
    test_function: Any
    predict_function: Any
    compiled: bool
    optimizer: Any
    loss: Any
    history: Any
    training_run: Any
    stop_training: bool
    _unseen: bool
    stop_evaluating: bool
    stop_predicting: bool
    steps_per_execution: int
    run_eagerly: bool
    jit_compile: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
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
            train_function=None,
            test_function=None,
            predict_function=None,
            _steps_made={},
            _step_cache=StepCache(),
            _unseen=False,
            _strategy=scoped_strategy(),
        )
        return model

    @property
    def distribute_strategy(self) -> Strategy:
        """The strategy in whose scope the model was made, else that of the scope this code is in.

        Its `rank` is the number of this process: what is to be written once, the first writes.

        Example:
            >>> model = tk.Sequential([tk.layers.Dense(1)])
            >>> model.distribute_strategy.rank
            0
        """
        own: Strategy | None = self.__dict__.get("_strategy")
        return get_strategy() if own is None else own

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles take over: not the compiled steps, which they make anew."""
        names = ("train_function", "test_function", "predict_function", "training_run", "_strategy")
        state = {**super().__getstate__(), **dict.fromkeys(names), "_steps_made": {}}
        del state["_step_cache"]
        return state

    def _forget_steps(self) -> None:
        """Make the compiled steps anew when they are run next: the layers are others now."""
        names = ("train_function", "test_function", "predict_function", "_facts_of_steps")
        self.__dict__.update(dict.fromkeys(names), _steps_made={})

    # ------------------------------------------------------------------ compile

    @with_known_arguments
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
            loss: name, function or `Loss`; for several outputs a list, a dict by output names, or
                a nest as the outputs are. `None` stands for no loss.
            loss_weights: what the loss of each output counts, a number or nested alike.
            metrics: list of names, functions or metrics; for several outputs a list of lists, a
                dict, or a nest as the outputs are.
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
        if not isinstance(steps_per_execution, int | np.integer) or steps_per_execution < 1:
            raise ValueError(
                f"compile: steps_per_execution must be a whole number, 1 or more, got "
                f"{steps_per_execution!r}"
            )
        if jit_compile is True and run_eagerly:
            warnings.warn(
                "compile: with run_eagerly=True nothing is compiled, jit_compile=True does nothing",
                stacklevel=3,
            )
            jit_compile = False
        resolved_optimizer = None if optimizer is None else optimizers.get(optimizer)
        names = None if self._graph is None else self._graph.output_operations
        tracked_metrics = tracked([])  # all metrics made by this call, for checkpoints
        with self.distribute_strategy.placement():
            compiled_loss = (
                None
                if loss is None
                else CompiledLoss(loss, loss_weights, names, tracked_metrics.append)
            )
            compiled_metrics = None
            if metrics is not None or weighted_metrics is not None:
                compiled_metrics = CompiledMetrics(
                    metrics, weighted_metrics, names, tracked_metrics.append
                )
            if (
                auto_scale_loss
                and self.dtype_policy.name == "mixed_float16"
                and resolved_optimizer is not None
            ):
                if not isinstance(resolved_optimizer, optimizers.LossScaleOptimizer):
                    resolved_optimizer = optimizers.LossScaleOptimizer(resolved_optimizer)
            self.optimizer = resolved_optimizer
            self._loss_tracker = Mean(name="loss")
            tracked_metrics.append(self._loss_tracker)
        self._compiled_metrics = tracked_metrics
        self.__dict__.update(
            loss=loss,
            _compile_loss=compiled_loss,
            _compile_metrics=compiled_metrics,
            run_eagerly=bool(run_eagerly),
            steps_per_execution=int(steps_per_execution),
            jit_compile=jit_compile,
            stop_training=False,
            compiled=True,
            _unseen=True,
            train_function=None,
            test_function=None,
            predict_function=None,
            _steps_made={},
            _step_cache=StepCache(),
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
        arguments = self._compile_arguments
        if arguments is None:
            return None
        return serialize_object({**arguments, "optimizer": self.optimizer})

    def prepare(self, spec: Any) -> None:
        """Make weights, metrics and slots for batches of these shapes, as a step would.

        Args:
            spec: nest of `TensorSpec`s of a batch; `None` does nothing.
        """
        if spec is None:
            return
        x, y, _ = data_adapters.unpack(nest.map_structure(_core_spec, spec))
        try:
            y_pred = self.compute_output_spec(x)
        except Exception:  # a call that looks at values; what is missing is made by the first step
            return
        if y is not None and self._compile_loss is not None:
            self._compile_loss.build(y, y_pred)
        if y is not None and self._compile_metrics is not None:
            self._compile_metrics.build(y, y_pred)
        if self.optimizer is not None and self.trainable_variables and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    def graph_for(self, spec: Any) -> Any:
        """The graph of the outputs for batches like these, each operation named after its layer.

        Args:
            spec: nest of `TensorSpec`s of a batch.
        """
        x, _, _ = data_adapters.unpack(spec)

        def outputs(x: Any) -> Any:
            return self(x, training=False)

        with layer_scopes(self):
            graph = function(outputs).get_concrete_function(x).graph
        shorten_names(graph)
        return graph

    def layer_links(self, graph: Any) -> LayerLinks:
        """How the layers feed one another in a graph that `graph_for` gave."""
        return LayerLinks(self, graph)

    # ------------------------------------------------------------------ metrics

    @property
    def metrics(self) -> list[Any]:
        """The metrics that `fit` shows.

        The mean of the loss; one that stands for all that `compile` was given, whose result is a
        dict; the means of each output's loss; and those held as attributes, here or by layers.
        """
        metric_list: list[Any] = []
        if self.compiled:
            metric_list.append(self._loss_tracker)
            if self._compile_metrics is not None:
                metric_list.append(self._compile_metrics)
            if self._compile_loss is not None:
                metric_list += self._compile_loss.metrics
        return tracking.once(metric_list + held_metrics(self))

    @property
    def metrics_names(self) -> list[str]:
        """The names of `metrics`."""
        return [metric.name for metric in self.metrics]

    def reset_metrics(self) -> None:
        """Put all metrics back to their beginning."""
        self._clear_metrics()
        self.__dict__["_step_cache"] = StepCache()

    def _clear_metrics(self) -> None:
        for metric in self.metrics:
            metric.reset_state()

    def get_metrics_result(self) -> dict[str, Any]:
        """The results of all metrics by name."""
        results: dict[str, Any] = {}
        own = type(self).metrics is Trained.metrics and self.compiled
        tracker = self.__dict__.get("_loss_tracker")
        for metric in self._step_cache.all_metrics(self) if own else self.metrics:
            if metric is tracker and self._compile_loss is None and not self._tracks_loss():
                continue
            value = metric.result()
            results.update(value if isinstance(value, dict) else {metric.name: value})
        return results

    def _tracks_loss(self) -> bool:
        if self._compile_loss is not None or type(self).compute_loss is not Trained.compute_loss:
            return True
        return bool(float(self._loss_tracker.count) > 0)

    @property
    def compiled_metrics(self) -> Any:
        """The metrics of `compile` as one: `compiled_metrics.update_state(y, y_pred)`."""
        compiled = self._compile_metrics
        return CompiledMetrics(None, None, None) if compiled is None and self.compiled else compiled

    def compiled_loss(
        self, y: Any, y_pred: Any, sample_weight: Any = None, regularization_losses: Any = None
    ) -> Any:
        """`compute_loss`, as steps for Keras 2 call it; the metric `loss` counts it.

        Args:
            y: targets.
            y_pred: outputs of the model.
            sample_weight: a weight for each sample.
            regularization_losses: left out, since `compute_loss` adds the model's `losses`.
        """
        if regularization_losses and len(regularization_losses) != len(self.losses):
            raise ValueError(
                "compiled_loss adds all of the model's losses; other regularization_losses must be "
                "added to its result"
            )
        loss = self.compute_loss(y=y, y_pred=y_pred, sample_weight=sample_weight)
        self._loss_tracker.update_state(loss, sample_weight=batch_size(y))
        return loss

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
        for loss in self._step_cache.losses(self):
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
            self._compile_metrics.update_state(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def train_step(self, data: Any) -> dict[str, Any]:
        """Train on one batch; override it for training of another kind.

        Args:
            data: x, (x, y) or (x, y, sample_weight).

        Returns:
            Scalars by name, which the bar, `History` and callbacks show.
        """
        x, y, sample_weight = data_adapters.unpack(data)
        with GradientTape() as tape:
            y_pred = self._outputs(x, training=True)
            loss = self._loss_of(x, y, y_pred, sample_weight, training=True)
            scaled = loss if self.optimizer is None else self.optimizer.scale_loss(loss)
        if self._unseen:
            first_batch.look(self, tape, x, y, y_pred, sample_weight)
        self._loss_tracker.update_state(loss, sample_weight=batch_size(x))
        variables = self._step_cache.trainable(self, tape.watched_variables())
        if variables:
            if self.optimizer is None:
                raise ValueError(
                    f"model {self.name!r} has weights to train: give compile() an optimizer"
                )
            if not (REPLICAS and self.optimizer._step_from(tape, scaled, variables, True)):
                self.optimizer.apply(tape.gradient(scaled, variables), variables)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def _outputs(self, x: Any, training: bool) -> Any:
        y_pred = self(x, training=training)
        if y_pred is None:
            raise ValueError(
                f"the model {self.name!r} gave None: does {type(self).__name__}.call end with "
                "`return`?"
            )
        return y_pred

    def _loss_of(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool) -> Any:
        """`compute_loss`, which a subclass may have written without the argument `training`."""
        if self._step_cache.loss_takes_training(self):
            return self.compute_loss(x, y, y_pred, sample_weight, training=training)
        return self.compute_loss(x, y, y_pred, sample_weight)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluate one batch.

        Args:
            data: x, (x, y) or (x, y, sample_weight).

        Returns:
            Scalars by name.
        """
        x, y, sample_weight = data_adapters.unpack(data)
        y_pred = self._outputs(x, training=False)
        own_loss = type(self).compute_loss is not Trained.compute_loss
        if own_loss or self._compile_loss is not None or self._step_cache.losses(self):
            loss = self._loss_of(x, y, y_pred, sample_weight, training=False)
            self._loss_tracker.update_state(loss, sample_weight=batch_size(x))
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data: Any) -> Any:
        """The outputs for one batch.

        Args:
            data: x, (x, y) or (x, y, sample_weight).
        """
        return self(data_adapters.unpack(data)[0], training=False)

    # The three places where steps become functions, such as compiled ones. A subclass may make
    # functions of its own, of an iterator over batches.

    def make_train_function(self, force: bool = False) -> Callable[[Iterator[Any]], Any]:
        """Make `train_function`, which `fit` calls with an iterator over batches.

        It takes `steps_per_execution` batches, or those left, and gives the logs of the last. A new
        one is made when layers have been frozen.

        Args:
            force: make it anew in any case.

        Returns:
            The function.
        """
        self.train_function = self._made("train", self.train_step, force)
        return self.train_function

    def make_test_function(self, force: bool = False) -> Callable[[Iterator[Any]], Any]:
        """Make `test_function`, the like for `evaluate`."""
        self.test_function = self._made("test", self.test_step, force)
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Callable[[Iterator[Any]], Any]:
        """Make `predict_function`, which gives the outputs for so many batches, joined."""
        self.predict_function = self._made("predict", self.predict_step, force)
        return self.predict_function

    def _made(self, mode: str, step: Callable[[Any], Any], force: bool) -> Any:
        """A function of batches; the one made before, unless what it depends on has changed."""
        depends: list[Any] = [self.run_eagerly, self.jit_compile, self.steps_per_execution]
        if mode == "train":
            depends += [id(v) for v in self.trainable_variables]
        entry = self._steps_made.get(mode)
        if force or entry is None or entry[0] != depends:
            module = str(getattr(step, "__module__", ""))  # a functools.partial has none
            is_own = mode == "train" and not module.startswith("trainkit.")
            if not self.run_eagerly:
                many = self.steps_per_execution > 1
                first_eager = 1 if many else EAGER_PREDICTIONS if mode == "predict" else FIRST_EAGER
                if self.distribute_strategy.virtual is not None:  # as many turns make many calls
                    first_eager = 0
                kind = OwnTrainStep if is_own else CompiledStep
                step = kind(self, step, self.jit_compile, first_eager)
            elif is_own:
                step = own_step_run_eagerly(step)
            entry = self._steps_made[mode] = (depends, StepsInARow(self, step, mode == "predict"))
        return entry[1]


def _core_spec(spec: Any) -> Any:
    return None if spec is None else Spec(spec.shape, spec.dtype)
