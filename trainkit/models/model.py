"""`Model`: a layer that can be trained, evaluated, used and saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from trainkit import optimizers
from trainkit.autodiff.tape import GradientTape
from trainkit.callbacks.callback import CallbackList
from trainkit.callbacks.history import History
from trainkit.callbacks.progress import LoopBar, ProgressBar
from trainkit.checkpoints import weights
from trainkit.core import devices, nest
from trainkit.core.registry import serialize_object
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, is_tensor, wrap
from trainkit.core.trackable import Trackable, tracked
from trainkit.layers import tracking
from trainkit.layers.layer import Layer
from trainkit.layers.symbolic import KerasTensor, Operation
from trainkit.metrics import Mean
from trainkit.models import batches, training
from trainkit.models.compiled_loss import CompiledLoss
from trainkit.models.compiled_metrics import CompiledMetrics
from trainkit.models.compiled_step import CompiledStep
from trainkit.models.functional import Graph, graph_config, graph_from_config
from trainkit.models.step_facts import StepFacts, held_metrics

_UNTRACKED = {"training_run", "history", "_loss_tracker"}


class Model(Layer):
    """A layer with a training loop.

    Made in three ways: from symbolic tensors, `Model(inputs, outputs)`; as a stack,
    `Sequential([...])`; or as a subclass with layers as attributes and its own `call`.

    Args:
        inputs: nest of symbolic tensors, made by `Input`.
        outputs: nest of symbolic tensors computed from them.
        **kwargs: see `Layer`.

    Attributes:
        stop_training: a callback sets it to end training after the batch.
        history: the `History` of the last `fit`.
        training_run: the run of `fit` under way, `None` outside.

    Raises:
        ValueError: the outputs do not depend on the inputs alone, or only one of the two is given.
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

    def __init__(self, inputs: Any = None, outputs: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if (inputs is None) != (outputs is None):
            raise ValueError("Model needs both inputs and outputs, or neither of them")
        if inputs is not None:
            self._draw(inputs, outputs)

    def _draw(self, inputs: Any, outputs: Any) -> None:
        graph = Graph(inputs, outputs)
        self.__dict__["_graph"] = graph
        self._layers = list(graph.operations)
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        graph = self._graph
        if graph is None:
            raise NotImplementedError(f"{type(self).__name__} has no method call(self, inputs)")
        return graph.run(args[0] if args else kwargs.pop("inputs"))

    def _build_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super()._build_for(args, kwargs)
        if args and "_build_shapes" not in self.__dict__:
            shape = nest.map_structure(_shape_of_any_batch, args[0])
            self.__dict__["_build_shapes"] = {"input_shape": shape}

    # ------------------------------------------------------------------ what it is made of

    @property
    def layers(self) -> list[Layer]:
        """The layers directly in this model, in order."""
        if self._graph is not None:
            return list(self._graph.layers)
        found = tracking.sublayers(self, Layer)
        return [layer for layer in found if not isinstance(layer, Operation)]

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """One layer by its name or its position.

        Raises:
            ValueError: there is none, or not exactly one of the two is given.
        """
        if (name is None) == (index is None):
            raise ValueError("get_layer needs either a name or an index")
        layers = self.layers
        if index is not None:
            if not -len(layers) <= index < len(layers):
                raise ValueError(
                    f"model {self.name!r} has {len(layers)} layers, there is no {index}"
                )
            return layers[index]
        for layer in layers:
            if layer.name == name:
                return layer
        names = ", ".join(layer.name for layer in layers)
        raise ValueError(f"model {self.name!r} has no layer {name!r}; it has {names}")

    @property
    def inputs(self) -> list[KerasTensor]:
        """The symbolic inputs of a model that was drawn up."""
        return list(self._drawn("inputs").flat_inputs)

    @property
    def outputs(self) -> list[KerasTensor]:
        """The symbolic outputs of a model that was drawn up."""
        return list(self._drawn("outputs").flat_outputs)

    @property
    def input(self) -> Any:
        """The symbolic input, nested as it was given."""
        return self._drawn("input").inputs

    @property
    def output(self) -> Any:
        """The symbolic output, nested as it was given."""
        return self._drawn("output").outputs

    @property
    def input_shape(self) -> Any:
        """The shape of the input, a nest of tuples."""
        return nest.map_structure(lambda x: tuple(x.shape), self.input)

    @property
    def output_shape(self) -> Any:
        """The shape of the output, a nest of tuples."""
        return nest.map_structure(lambda x: tuple(x.shape), self.output)

    def _drawn(self, what: str) -> Graph:
        if self._graph is None:
            raise AttributeError(
                f"model {self.name!r} has no {what}: only models made from symbolic tensors have"
            )
        return self._graph

    def parts(self) -> dict[str, Trackable]:
        """The trackable attributes by name, without the underscore in front of private ones."""
        return {name.removeprefix("_"): part for name, part in super().parts().items()}

    def summary(
        self,
        line_length: int = 80,
        print_fn: Callable[[str], Any] | None = None,
        expand_nested: bool = False,
        show_trainable: bool = False,
    ) -> None:
        """Print the layers with their output shapes and numbers of weights.

        Args:
            line_length: columns.
            print_fn: called with the whole text, in place of `print`.
            expand_nested: show the layers of models inside as well.
            show_trainable: show whether each layer is trained.
        """
        from trainkit.models.summarizing import summary_text

        (print_fn or print)(summary_text(self, line_length, expand_nested, show_trainable))

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
            spec: nest of `TensorSpec`s, (x, y, sample_weight); `None` does nothing.
        """
        if spec is None:
            return
        x, y, _ = nest.map_structure(_core_spec, spec)
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
        own = type(self).metrics is Model.metrics and self.compiled
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

    # ------------------------------------------------------------------ many batches

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
    ) -> History:
        """Train the model.

        Ctrl-C and SIGTERM end it after the batch: `ModelCheckpoint` and `BackupAndRestore` save,
        and the history so far is returned.

        Args:
            x: arrays, nested for several inputs; or a `Dataset`, generator or sequence of batches.
            y: targets, for arrays.
            batch_size: samples in a batch of arrays, 32 by default.
            epochs: number of the epoch to end with.
            verbose: 0 for silence, 1 for a bar, 2 for a line per epoch, `"auto"` for 1.
            callbacks: list of `Callback`s.
            validation_split: share of the arrays, at their end, that is kept out of training.
            validation_data: (x, y), (x, y, sample_weight), or a data set.
            shuffle: whether arrays are shuffled before each epoch; `"batch"` shuffles whole
                batches.
            class_weight: weights by class number.
            sample_weight: a weight for each sample, for arrays.
            initial_epoch: the epoch to begin with, from 0.
            steps_per_epoch: batches in an epoch.
            validation_steps: batches in a validation.
            validation_batch_size: samples in a batch of it, `batch_size` by default.
            validation_freq: validate each so many epochs, or after the epochs in a list, from 1.

        Returns:
            A `History`.

        Raises:
            ValueError: the model is not compiled, or arguments do not go together.
        """
        self._require_compiled("fit")
        if validation_split:
            if validation_data is not None:
                raise ValueError("fit: give either validation_split or validation_data")
            x, y, sample_weight, validation_data = _split(x, y, sample_weight, validation_split)
        feed = batches.feed(
            x,
            y,
            sample_weight,
            batch_size=batch_size,
            shuffle=shuffle,
            steps=steps_per_epoch,
            class_weight=class_weight,
        )
        held = _validation_feed(
            validation_data, validation_batch_size or batch_size, validation_steps
        )
        due = _due(validation_freq)
        history = History()
        params = {
            "epochs": epochs,
            "steps": feed.steps,
            "verbose": _verbosity(verbose),
            "validation": held is not None,
        }
        called = self._callback_list(callbacks, history, ProgressBar, params)

        def validate(epoch: int) -> dict[str, float]:
            if held is None or not due(epoch):
                return {}
            values = training.run_evaluate(self, held, called)
            return {f"val_{name}": value for name, value in values.items()}

        self.__dict__["history"] = history
        return training.run_fit(self, feed, called, history, epochs, initial_epoch, validate)

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
            batch_size: samples in a batch of arrays, 32 by default.
            verbose: 0 for silence, else a bar and a line at the end.
            sample_weight: a weight for each sample, for arrays.
            steps: how many batches.
            callbacks: list of `Callback`s.
            return_dict: give a dict by names.

        Returns:
            The loss, or a list of the loss and the metrics in the order of `metrics_names`, or a
            dict.

        Raises:
            ValueError: the model is not compiled, or there is no data.
        """
        self._require_compiled("evaluate")
        feed = batches.feed(x, y, sample_weight, batch_size=batch_size, steps=steps)
        params = {"steps": feed.steps, "verbose": _verbosity(verbose)}
        called = self._callback_list(callbacks, None, LoopBar, params)
        self.__dict__["stop_evaluating"] = False
        values = training.run_evaluate(self, feed, called)
        return values if return_dict else _in_order(values, self.metrics_names)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """The outputs for some data, as NumPy arrays.

        Args:
            x: as for `fit`.
            batch_size: samples in a batch of arrays, 32 by default.
            verbose: 0 for silence, else a bar if it takes long.
            steps: how many batches.
            callbacks: list of `Callback`s.

        Raises:
            ValueError: there is no data.
        """
        feed = batches.feed(x, batch_size=batch_size, steps=steps)
        params = {"steps": feed.steps, "verbose": _verbosity(verbose)}
        called = self._callback_list(callbacks, None, LoopBar, params)
        self.__dict__["stop_predicting"] = False
        outputs = training.run_predict(self, feed, called)
        if len(outputs) == 1:
            return nest.map_structure(np.array, outputs[0])
        return nest.map_structure(lambda *parts: np.concatenate(parts), *outputs)

    def _callback_list(self, given: Any, history: Any, bar: Any, params: Any) -> CallbackList:
        if isinstance(given, CallbackList):
            given = given.callbacks
        elif given is None:
            given = []
        elif not isinstance(given, list | tuple):
            given = [given]
        callbacks: list[Any] = list(given)
        if history is not None:
            callbacks.append(history)
        if params["verbose"]:
            callbacks.append(bar(params["verbose"]))
        return CallbackList(callbacks, self, params)

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
            class_weight: weights by class number.
            return_dict: give a dict by names.

        Returns:
            The loss, or a list of the loss and the metrics on this batch, or a dict.
        """
        self._require_compiled("train_on_batch")
        self._clear_metrics()
        if class_weight:
            sample_weight = batches.weights_of_classes(
                batches.as_arrays(y), sample_weight, class_weight
            )
        logs = self.make_train_function()(_as_batch(x, y, sample_weight))
        return self._results(logs, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Evaluate one batch; the arguments and the result are those of `train_on_batch`."""
        self._require_compiled("test_on_batch")
        self._clear_metrics()
        logs = self.make_test_function()(_as_batch(x, y, sample_weight))
        return self._results(logs, return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """The outputs for one batch, as NumPy arrays."""
        outputs = self.make_predict_function()(_as_batch(x, None, None))
        return nest.map_structure(np.array, outputs)

    def _results(self, logs: dict[str, Any], return_dict: bool) -> Any:
        values = {name: np.asarray(value)[()] for name, value in logs.items()}
        return values if return_dict else _in_order(values, self.metrics_names)

    # ------------------------------------------------------------------ saving

    def save_weights(self, filepath: str | os.PathLike[str], overwrite: bool = True) -> None:
        """Write all weights into one file, which appears whole or not at all.

        Args:
            filepath: its ending says the format: `.weights.h5` for Keras's layout, with the state
                of the optimizer; `.safetensors` or `.npz` for the weights alone; any other for a
                checkpoint.
            overwrite: whether a file that exists is replaced.

        Raises:
            FailedPreconditionError: the model has no weights yet.
            FileExistsError: the file exists and is not to be replaced.
        """
        if not overwrite and os.path.exists(filepath):
            raise FileExistsError(f"{filepath} exists already; pass overwrite=True to replace it")
        weights.save_weights(self, filepath)

    def load_weights(self, filepath: str | os.PathLike[str], skip_mismatch: bool = False) -> None:
        """Read what `save_weights` wrote, here or in Keras.

        Args:
            filepath: a file of weights, or the `.keras` file of a whole model.
            skip_mismatch: leave weights alone that do not fit the file, rather than fail.

        Raises:
            NotFoundError: there is no such file.
            CheckpointError: the file is damaged, or does not fit; nothing is changed.
        """
        weights.load_weights(self, filepath, skip_mismatch)

    def save(self, filepath: str | os.PathLike[str], overwrite: bool = True) -> None:
        """Write the whole model: how it is made, its weights, and how it is compiled.

        Args:
            filepath: ends in `.keras`.
            overwrite: whether a file that exists is replaced; otherwise it is an error.
        """
        from trainkit.models.saving import save_model

        save_model(self, filepath, overwrite)

    def to_json(self, **kwargs: Any) -> str:
        """How the model is made, without weights, as JSON; `kwargs` are those of `json.dumps`."""
        from trainkit.models.saving import model_to_json

        return model_to_json(self, **kwargs)

    def get_config(self) -> dict[str, Any]:
        if self._graph is None or type(self) is not Model:
            return super().get_config()
        return graph_config(self._graph, self.name, self.trainable, serialize_object)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        if "input_layers" not in config:
            return super().from_config(config)
        from trainkit.core.registry import deserialize_object

        inputs, outputs = graph_from_config(config, deserialize_object)
        return cls(
            inputs, outputs, name=config.get("name"), trainable=config.get("trainable", True)
        )


# ---------------------------------------------------------------------- arguments


def _shape_of_any_batch(x: Any) -> Any:
    return (None, *tuple(x.shape)[1:]) if hasattr(x, "shape") else None


def _core_spec(spec: Any) -> Any:
    return None if spec is None else Spec(spec.shape, spec.dtype)


def _batch_size(x: Any) -> Any:
    """How many samples a batch has."""
    if type(x) is Tensor:
        return x._array.shape[0]
    first = next(leaf for leaf in nest.flatten(x) if leaf is not None)
    return first.shape[0]


def _split(x: Any, y: Any, sample_weight: Any, share: float) -> tuple[Any, Any, Any, Any]:
    if not batches.is_arrays(x):
        raise ValueError(
            f"fit: validation_split needs arrays, x is a {type(x).__name__}; give validation_data"
        )
    parts = (batches.as_arrays(x), batches.as_arrays(y), batches.as_arrays(sample_weight))
    kept, held = batches.split_arrays(parts, share)
    return (*kept, held)


def _validation_feed(data: Any, batch_size: int | None, steps: int | None) -> Any:
    if data is None:
        return None
    if isinstance(data, tuple | list):
        x, y, weight = batches.unpack(tuple(data))
        return batches.feed(x, y, weight, batch_size=batch_size, steps=steps)
    size = batch_size if batches.is_arrays(data) else None
    return batches.feed(data, batch_size=size, steps=steps)


def _due(freq: Any) -> Callable[[int], bool]:
    """Whether an epoch, from 0, has a validation."""
    if isinstance(freq, int):
        if freq < 1:
            raise ValueError(f"fit: validation_freq must be at least 1, got {freq}")
        return lambda epoch: (epoch + 1) % freq == 0
    if isinstance(freq, Iterable):
        epochs = set(freq)
        return lambda epoch: epoch + 1 in epochs
    raise ValueError(f"fit: validation_freq must be a number or a list of epochs, got {freq!r}")


def _verbosity(verbose: Any) -> int:
    if verbose == "auto":
        return 1
    if verbose not in (0, 1, 2):
        raise ValueError(f"verbose must be 0, 1, 2 or 'auto', got {verbose!r}")
    return int(verbose)


def _as_batch(x: Any, y: Any, sample_weight: Any) -> Any:
    def tensor(value: Any) -> Any:
        if value is None or is_tensor(value):
            return value
        return wrap(devices.to_device(np.array(value), devices.current()))

    parts = [
        batches.as_arrays(part) if not is_tensor(part) else part for part in (x, y, sample_weight)
    ]
    return tuple(nest.map_structure(tensor, part) for part in parts)


def _in_order(values: dict[str, Any], names: list[str]) -> Any:
    """Values by the order of names, those of other names last; one alone as it is."""
    known = [name for name in names if name in values]
    rest = [name for name in values if name not in known]
    found = [values[name] for name in (*known, *rest)]
    return found[0] if len(found) == 1 else found
