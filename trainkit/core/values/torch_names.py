"""Names of PyTorch and NumPy that trainkit spells otherwise, and how: for errors about them."""

from __future__ import annotations

_TAPE = "gradients come from a tape: tape.gradient(loss, variables) after `with tk.GradientTape()`"
_DEVICE = "tensors are made on the default device; `with tk.device(...)`, x.gpu() and x.cpu() copy"

NAMES = {
    "AdaptiveAvgPool2d": "here it is tk.layers.GlobalAveragePooling2D, or AdaptiveAveragePooling2D",
    "AvgPool2d": "here it is tk.layers.AveragePooling2D",
    "BCELoss": "here it is tk.losses.BinaryCrossentropy",
    "BCEWithLogitsLoss": "here it is tk.losses.BinaryCrossentropy(from_logits=True)",
    "BatchNorm1d": "here it is tk.layers.BatchNormalization",
    "BatchNorm2d": "here it is tk.layers.BatchNormalization",
    "Conv1d": "here it is tk.layers.Conv1D",
    "Conv2d": "here it is tk.layers.Conv2D",
    "Conv3d": "here it is tk.layers.Conv3D",
    "ConvTranspose2d": "here it is tk.layers.Conv2DTranspose",
    "CrossEntropyLoss": "here it is tk.losses.SparseCategoricalCrossentropy(from_logits=True)",
    "DataLoader": "here it is tk.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(32)",
    "GELU": "here it is tk.layers.Activation('gelu')",
    "GroupNorm": "here it is tk.layers.GroupNormalization",
    "L1Loss": "here it is tk.losses.MeanAbsoluteError",
    "LayerNorm": "here it is tk.layers.LayerNormalization",
    "Linear": "here it is tk.layers.Dense",
    "MSELoss": "here it is tk.losses.MeanSquaredError",
    "MaxPool2d": "here it is tk.layers.MaxPooling2D",
    "Module": "here it is tk.Model, or tk.layers.Layer for a part of one",
    "ModuleList": "a list of layers that is set as an attribute is tracked",
    "NLLLoss": "use tk.losses.SparseCategoricalCrossentropy, which takes probabilities",
    "Parameter": "here it is tk.Variable, or add_weight of a layer",
    "ReLU": "here it is tk.layers.ReLU",
    "Sigmoid": "here it is tk.layers.Activation('sigmoid')",
    "SmoothL1Loss": "here it is tk.losses.Huber",
    "Tanh": "here it is tk.layers.Activation('tanh')",
    "TensorDataset": "here it is tk.data.Dataset.from_tensor_slices((x, y))",
    "autograd": _TAPE,
    "cat": "here it is tk.concat",
    "cuda": "see tk.config.list_physical_devices('GPU') and tk.device",
    "from_numpy": "here it is tk.convert_to_tensor",
    "functional": "operations are in tk.nn and tk.ops",
    "inference_mode": "nothing is recorded outside of tk.GradientTape",
    "manual_seed": "here it is tk.random.set_seed",
    "no_grad": "nothing is recorded outside of tk.GradientTape",
    "optim": "here it is tk.optimizers",
    "permute": "here it is tk.transpose(x, axes)",
    "randn": "here it is tk.random.normal",
    "tensor": "here it is tk.constant",
    "unsqueeze": "here it is tk.expand_dims",
}
"""By names of modules' members."""

TENSOR = {
    "astype": "use tk.cast(x, dtype)",
    "backward": _TAPE,
    "clone": "use tk.identity(x); tensors never change",
    "contiguous": "every tensor can be used as it is",
    "cuda": _DEVICE,
    "detach": "use tk.stop_gradient(x); nothing is recorded outside of a tape",
    "dim": "use x.ndim",
    "expand": "use tk.broadcast_to(x, shape)",
    "flatten": "use tk.reshape(x, [-1]), or layers.Flatten for samples of a batch",
    "float": "use tk.cast(x, 'float32')",
    "grad": _TAPE,
    "long": "use tk.cast(x, 'int64')",
    "max": "use tk.reduce_max(x, axis)",
    "mean": "use tk.reduce_mean(x, axis)",
    "min": "use tk.reduce_min(x, axis)",
    "numel": "use x.size",
    "permute": "use tk.transpose(x, axes)",
    "requires_grad": "variables are trained; tape.watch(x) follows a tensor",
    "requires_grad_": "variables are trained; tape.watch(x) follows a tensor",
    "reshape": "use tk.reshape(x, shape)",
    "squeeze": "use tk.squeeze(x, axis)",
    "std": "use tk.math.reduce_std(x, axis)",
    "sum": "use tk.reduce_sum(x, axis)",
    "to": f"use tk.cast(x, dtype); {_DEVICE}",
    "transpose": "use tk.transpose(x, axes)",
    "unsqueeze": "use tk.expand_dims(x, axis)",
    "var": "use tk.math.reduce_variance(x, axis)",
    "view": "use tk.reshape(x, shape)",
}
"""By attributes of tensors."""

MODEL = {
    "children": "use model.layers",
    "cuda": "make it in `with tk.device(...)`",
    "eval": "predict and evaluate run it for inference; model(x, training=False) does for a batch",
    "fit_generator": "fit takes generators",
    "forward": "the method is call(x); call the model itself, model(x)",
    "load_state_dict": "use model.load_weights(path), or set_weights(arrays)",
    "modules": "use model.layers, or model.submodules for all inside",
    "named_parameters": "use model.weights, which have names",
    "parameters": "use model.trainable_variables",
    "predict_classes": "use model.predict(x).argmax(-1)",
    "predict_proba": "use model.predict(x)",
    "score": "use model.evaluate(x, y)",
    "state_dict": "use model.save_weights(path), or get_weights()",
    "to": "make it in `with tk.device(...)`",
    "train": "fit trains; model(x, training=True) runs a batch as in training",
    "zero_grad": "a tape starts without gradients, so there are none to make 0",
}
"""By attributes of models."""

OPTIMIZER = {
    "param_groups": "use optimizer.variables, and optimizer.learning_rate",
    "state_dict": "a tk.train.Checkpoint with the optimizer keeps its state",
    "step": f"use optimizer.apply_gradients(zip(gradients, variables)); {_TAPE}",
    "zero_grad": "a tape starts without gradients, so there are none to make 0",
}
"""By attributes of optimizers."""
