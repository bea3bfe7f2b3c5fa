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
