"""Mistakes that an editor shows: each line that ends in `# error` has one, and no other."""

import numpy as np

import trainkit as tk
from trainkit import keras
from trainkit.keras import layers
from trainkit.layers import Dense

tk.reduce_meen([1.0])  # error
tk.constan([1.0])  # error
tk.math.reduce_summ([1.0])  # error
tk.nn.reluu([1.0])  # error
tk.linalg.matmull([1.0], [1.0])  # error
tk.image.resizee([1.0], [1, 1])  # error
tk.layers.Dens(3)  # error
tk.keras.layers.Dens(3)  # error
keras.Sequentiall([])  # error
layers.Convv2D(3, 3)  # error
tk.losses.MeanSquareError()  # error
tk.optimizers.Addam()  # error
tk.metrics.Acuracy()  # error
tk.callbacks.EarlyStoping()  # error
tk.data.Datasett()  # error
tk.data.Dataset.from_tensor_slice([1])  # error
tk.train.Checkpointt()  # error
tk.summary.scaler("a", 1.0)  # error
tk.random.normall([3])  # error
tk.ops.summ([1.0])  # error
tk.strings.joinn(["a"])  # error
tk.io.read_filee("a")  # error
tk.config.list_physical_device("GPU")  # error
tk.errors.InvalidArgument()  # error

model = tk.Sequential([Dense(3)])
model.fitt(np.ones((3, 2)))  # error
model.fit(np.ones((3, 2)), epoch=3)  # error
model.compile(optimiser="adam")  # error
model.evaluate(np.ones((3, 2)), bach_size=3)  # error
model.predict(np.ones((3, 2)), step_size=3)  # error
model.sumary()  # error
Dense(units="3", activatoin="relu")  # error
tk.optimizers.Adam(learning_rat=0.1)  # error
tk.keras.callbacks.EarlyStopping(monitors="loss")  # error
tk.GradientTape(persist=True)  # error
keras.applications.ResNet50(weight=None)  # error
keras.applications.EfficientNetV2S(weights=None, include_preprocess=False)  # error
keras.applications.ConvNeXtBase(weights=None).fitt()  # error
tk.constant([1.0]).nump()  # error
tk.matmul([[1.0]], [[1.0]]).nump()  # error
tk.reduce_mean([1.0]).nump()  # error
tk.Variable(1.0).asign(2.0)  # error
tk.Variable(1.0, trainabel=False)  # error
tk.reduce_mean([1.0], axi=0)  # error
tk.matmul([[1.0]])  # error
tk.cos([1.0]).nump()  # error
tk.nn.conv2d(1.0, 1.0, 1, "SAME").nump()  # error
tk.nn.max_pool2d(1.0, 2, 2, "SAME").nump()  # error
model.fit(np.ones((3, 2))).histry()  # error

x, v = tk.constant([1.0]), tk.Variable(1.0)
tk.zeros(2, 3)  # error
tk.cast(x, 1.5)  # error
tk.reduce_sum(x, axis="rows")  # error
tk.exp(model)  # error
tk.add(x, None)  # error
tk.nn.softmax(model)  # error
tk.matmul(x, lambda: x)  # error
tk.cond(True, 1, 2)  # error
tk.cond(x > 0.0, lambda: x, lambda: x).nump()  # error
tk.map_fn(3, x)  # error
tk.random.normal([2], seed=1.5)  # error
tk.one_hot([1], depth=3, dtype=3.0)  # error
tape = tk.GradientTape()
tape.gradient(x, [v]).numpy()  # error
tape.gradient(x, v).nump()  # error
Dense(3, kernel_initializer=3)  # error
Dense(3, activation=1.0)  # error
layers.Conv2D(3, kernel_size="3")  # error
layers.Conv2D(3, 3, padding=1)  # error
tk.nn.conv2d(x, x, 1, None)  # error
tk.ops.max_pool(x, 2, padding=None)  # error
keras.optimizers.get("adam").apply_gradient([])  # error
model.evaluate(x, return_dict=True).summary()  # error


@tk.function
def traced(a: tk.Tensor, training: bool = False) -> tk.Tensor:
    return a


traced()  # error
traced(x, trainin=True)  # error
traced(x).nump()  # error
traced.get_concrete_functions(x)  # error
