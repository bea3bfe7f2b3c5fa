"""`Trainer`: how a model is compiled, what it does with one batch, and with all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self, overload

import numpy as np

from trainkit.autodiff.tape import GradientTape
from trainkit.callbacks.callback import numbers
from trainkit.callbacks.history import History
from trainkit.core.dispatch import trace_state
from trainkit.core.names import with_known_arguments
from trainkit.core.registry import serialize_object
from trainkit.core.trackable import set_silently
from trainkit.distribution.strategy import Strategy, get_strategy, scoped_strategy
from trainkit.graph.ir.graph import Graph
from trainkit.layers.base import tracking
from trainkit.layers.base.layer import Layer
from trainkit.layers.base.stateless_call import scope_of_values
from trainkit.models.functional import FunctionalGraph
from trainkit.models.layer_links import LayerLinks
from trainkit.models.layer_scopes import graph_by_layers
from trainkit.models.training import data_adapters, first_batch, fit_arguments, training_loop
from trainkit.models.training.compile_loss import CompiledLoss, batch_size
from trainkit.models.training.compile_metrics import CompiledMetrics
from trainkit.models.training.compiling import compile_model
from trainkit.models.training.fit import evaluate_model, fit_model, host_copies, predict_model
from trainkit.models.training.step_cache import StepCache, held_metrics
from trainkit.models.training.step_function import make_steps, minimize
from trainkit.models.training.step_parts import build_for_step, loss_of, outputs_of

_UNTRACKED = {"training_run", "history", "_loss_tracker", "_compile_metrics"}


class Trainer(Layer):
    """A layer with an optimizer, a loss and metrics, and loops over batches; the base of `Model`.

    Attributes:
        compiled: whether `compile` was called.
        optimizer: the optimizer, `None` before.
        loss: what `compile` was given.
    """

    _untracked = Layer._untracked | _UNTRACKED
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
    _loss_tracker: Any
    _compiled_metrics: Any
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

    def reset_states(self) -> None:
        """Put what stateful layers keep between calls back to zeros, in models inside too."""
        for layer in self._flatten_layers(include_self=False):
            if hasattr(layer, "reset_states") and not isinstance(layer, Trainer):
                layer.reset_states()

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
                a nest as the outputs are. `None` stands for that of the last call, if there was
                one.
            loss_weights: what the loss of each output counts, a number or nested alike.
            metrics: list of names, functions or metrics; for several outputs a list of lists, a
                dict, or a nest as the outputs are. Without any, those of the last call stay.
            weighted_metrics: the same, for metrics that take sample weights into account.
            run_eagerly: run each step operation by operation, never compiled.
            steps_per_execution: so many batches between calls of callbacks.
            jit_compile: whether compiled steps may fuse operations; `"auto"` where that pays.
            auto_scale_loss: with a float16 policy, scale the loss so that gradients do not vanish.

        Raises:
            ValueError: an unknown name of an optimizer, loss or metric; the text lists those near
                it.
        """
        arguments = {
            "optimizer": optimizer,
            "loss": loss,
            "loss_weights": loss_weights,
            "metrics": metrics,
            "weighted_metrics": weighted_metrics,
            "run_eagerly": run_eagerly,
            "steps_per_execution": steps_per_execution,
            "jit_compile": jit_compile,
        }
        compile_model(self, arguments, auto_scale_loss)

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
        if spec is not None:
            build_for_step(self, spec)

    def graph_for(self, spec: Any) -> Any:
        """The graph of the outputs for batches like these, each operation named after its layer.

        Args:
            spec: nest of `TensorSpec`s of a batch.
        """
        return graph_by_layers(self, data_adapters.unpack(spec)[0])

    def layer_links(self, graph: Any) -> LayerLinks:
        """How the layers feed one another in a graph that `graph_for` gave."""
        return LayerLinks(self, graph)

    # ------------------------------------------------------------------ many batches

    @with_known_arguments
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: dict[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
        run: Any = None,
        loggers: Any = None,
    ) -> History:
        """Train the model.

        Ctrl-C, SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP end it after the batch, or after the
        validation under way: `ModelCheckpoint` and `BackupAndRestore` save, a line says so, and the
        history so far is returned, with `interrupted` set; `BackupAndRestore(exit_status=75)` ends
        the process instead. A second signal acts as usual.

        Args:
            x: arrays, nested for several inputs; or a `Dataset`, generator or sequence of batches.
            y: targets, for arrays.
            batch_size: samples in a batch of arrays; 32 by default, or, with `steps_per_epoch`, as
                many as let an epoch see all. Of all replicas together, where a strategy has
                several.
            epochs: number of the epoch to end with.
            verbose: 0 for silence, 1 for a bar, 2 for two lines per epoch, `"auto"` for 1.
            callbacks: list of `Callback`s.
            validation_split: share of the arrays, at their end, that is kept out of training.
            validation_data: (x, y), (x, y, sample_weight), or a data set.
            shuffle: whether arrays are shuffled before each epoch; `"batch"` shuffles whole
                batches.
            class_weight: weights by class number; not beside weights of samples.
            sample_weight: a weight for each sample, for arrays.
            initial_epoch: the epoch to begin with, from 0.
            steps_per_epoch: batches in an epoch; 0 stands for all, as in Keras.
            validation_steps: batches in a validation; likewise.
            validation_batch_size: samples in a batch of it, `batch_size` by default; without
                both, `validation_steps` batches hold all.
            validation_freq: validate each so many epochs, or after the epochs in a list, from 1.
            run: a folder, or a `RunJournal`: writes down what happens step by step, with
                checkpoints, for `tk.runs.open`; a run that was killed goes on.
            loggers: a list of `tk.loggers`, which get the settings, the numbers of each epoch, and
                the end.

        Returns:
            A `History`.

        Raises:
            ValueError: the model is not compiled, or arguments do not go together.
        """
        self._require_compiled("fit")
        return fit_model(
            self,
            (x, y, sample_weight),
            validation_split,
            validation_data,
            callbacks,
            loggers,
            run,
            batch_size=batch_size,
            epochs=epochs,
            verbose=verbose,
            shuffle=shuffle,
            class_weight=class_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_batch_size=validation_batch_size,
            validation_freq=validation_freq,
        )

    @overload
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        *,
        return_dict: Literal[True],
    ) -> dict[str, float]: ...
    @overload
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
    ) -> Any: ...
    @with_known_arguments
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """The loss and metrics on some data.

        Args:
            x: as for `fit`.
            y: targets, for arrays.
            batch_size: samples in a batch of arrays; 32 by default, or, with `steps`, as many as
                let so many batches hold all.
            verbose: 0 for silence, else a bar and a line at the end.
            sample_weight: a weight for each sample, for arrays.
            steps: how many batches.
            callbacks: list of `Callback`s.
            return_dict: give a dict by names.

        Returns:
            The loss, or a list of the loss, the metrics and the losses of several outputs, or a
            dict.

        Raises:
            ValueError: the model is not compiled, or there is no data.
        """
        self._require_compiled("evaluate")
        data = (x, y, sample_weight)
        values = evaluate_model(self, data, batch_size, steps, verbose, callbacks)
        return values if return_dict else fit_arguments.in_order(values, self.metrics)

    @with_known_arguments
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> np.ndarray[Any, Any]:
        """The outputs for some data, as NumPy arrays.

        Args:
            x: as for `fit`.
            batch_size: samples in a batch of arrays; 32 by default, or, with `steps`, as many as
                let so many batches hold all.
            verbose: 0 for silence, else a bar if it takes long.
            steps: how many batches.
            callbacks: list of `Callback`s.

        Raises:
            ValueError: there is no data.
        """
        return predict_model(self, x, batch_size, steps, verbose, callbacks)

    # ------------------------------------------------------------------ one batch

    @with_known_arguments
    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: dict[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        """Train on one batch.

        Args:
            x: inputs.
            y: targets.
            sample_weight: a weight for each sample.
            class_weight: weights by class number; not beside weights of samples.
            return_dict: give a dict by names.

        Returns:
            The loss, or a list of the loss and the metrics on this batch, or a dict.
        """
        self._require_compiled("train_on_batch")
        self._clear_metrics()
        if class_weight:
            sample_weight = data_adapters.weights_of_classes(
                data_adapters.as_arrays(y), sample_weight, class_weight
            )
        logs = self._on_batch("train", x, y, sample_weight)
        return self._results(logs, return_dict)

    @with_known_arguments
    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Evaluate one batch; the arguments and the result are those of `train_on_batch`."""
        self._require_compiled("test_on_batch")
        self._clear_metrics()
        logs = self._on_batch("test", x, y, sample_weight)
        return self._results(logs, return_dict)

    @with_known_arguments
    def predict_on_batch(self, x: Any) -> np.ndarray[Any, Any]:
        """The outputs for one batch, as NumPy arrays."""
        return host_copies(self._on_batch("predict", x))

    def _on_batch(self, mode: str, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        with self.distribute_strategy.placement():
            batch = fit_arguments.as_batch(x, y, sample_weight)
            return training_loop.on_batch(self, mode, batch)

    def _results(self, logs: dict[str, Any], return_dict: bool) -> Any:
        values = numbers(logs)
        if return_dict:
            return dict(sorted(values.items()))  # by name, as Keras's and those of `evaluate`
        return fit_arguments.in_order(values, self.metrics)

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
        set_silently(self, _step_cache=StepCache())

    def _clear_metrics(self) -> None:
        for metric in self.metrics:
            metric.reset_state()

    def get_metrics_result(self) -> dict[str, Any]:
        """The results of all metrics by name."""
        results: dict[str, Any] = {}
        own = type(self).metrics is Trainer.metrics and self.compiled
        tracker = self.__dict__.get("_loss_tracker")
        for metric in self._step_cache.all_metrics(self) if own else self.metrics:
            if metric is tracker and self._compile_loss is None and not self._tracks_loss():
                continue
            value = metric.result()
            results.update(value if isinstance(value, dict) else {metric.name: value})
        return results

    def _tracks_loss(self) -> bool:
        if self._compile_loss is not None or type(self).compute_loss is not Trainer.compute_loss:
            return True
        count, trace = self._loss_tracker.count, trace_state.current_trace()
        # a traced step has no count yet, but it says whether there will be one
        if isinstance(trace, Graph) and trace.assigns(count):
            return True
        return bool(float(count._value) > 0)

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

    # ------------------------------------------------------------------ steps

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

    def stateless_compute_loss(
        self,
        trainable_variables: Sequence[Any],
        non_trainable_variables: Sequence[Any],
        metrics_variables: Sequence[Any],
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> tuple[Any, tuple[Any, Any, Any]]:
        """`compute_loss` with other values of the variables; the model's own stay as they are.

        Args:
            trainable_variables: a value for each of `trainable_variables`.
            non_trainable_variables: a value for each of `non_trainable_variables`.
            metrics_variables: a value for each of `metrics_variables`.
            x: inputs.
            y: targets.
            y_pred: outputs of the model, as `stateless_call` gives them.
            sample_weight: a weight for each sample.
            training: whether it is for training.

        Returns:
            The loss, a scalar tensor, and a tuple of three lists: the values of
            `trainable_variables`, `non_trainable_variables` and `metrics_variables` after it.

        Raises:
            NotBuiltError: the model has no weights yet.
            ValueError: there is not one value for each variable, or there is no loss at all.

        Example:
            >>> model = tk.Sequential([tk.layers.Dense(1, input_shape=(2,))])
            >>> model.compile("sgd", "mse")
            >>> weights = [v.value() for v in model.trainable_variables]
            >>> counts = [v.value() for v in model.metrics_variables]
            >>> loss, after = model.stateless_compute_loss(
            ...     weights, [], counts, y=tk.ones((1, 1)), y_pred=tk.zeros((1, 1))
            ... )
            >>> float(loss), len(after)
            (1.0, 3)
        """
        state, metrics = self.non_trainable_variables, self.metrics_variables
        replacements = {
            "trainable_variables": (self.trainable_variables, trainable_variables),
            "non_trainable_variables": (state, non_trainable_variables),
            "metrics_variables": (metrics, metrics_variables),
        }
        with scope_of_values(self, "stateless_compute_loss", replacements):
            loss = self.compute_loss(
                x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
            )
            after = [variable.value() for variable in state]
            metrics_after = [variable.value() for variable in metrics]
        return loss, (trainable_variables, after, metrics_after)

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
            y_pred = outputs_of(self, x, training=True)
            loss = loss_of(self, x, y, y_pred, sample_weight, training=True)
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
            minimize(self.optimizer, tape, scaled, variables)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluate one batch.

        Args:
            data: x, (x, y) or (x, y, sample_weight).

        Returns:
            Scalars by name.
        """
        x, y, sample_weight = data_adapters.unpack(data)
        y_pred = outputs_of(self, x, training=False)
        own_loss = type(self).compute_loss is not Trainer.compute_loss
        if own_loss or self._compile_loss is not None or self._step_cache.losses(self):
            loss = loss_of(self, x, y, y_pred, sample_weight, training=False)
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
        return make_steps(self, "train", self.train_step, force)

    def make_test_function(self, force: bool = False) -> Callable[[Iterator[Any]], Any]:
        """Make `test_function`, the like for `evaluate`."""
        return make_steps(self, "test", self.test_step, force)

    def make_predict_function(self, force: bool = False) -> Callable[[Iterator[Any]], Any]:
        """Make `predict_function`, which gives the outputs for so many batches, joined."""
        return make_steps(self, "predict", self.predict_step, force)
