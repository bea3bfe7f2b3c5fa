"""Run by the real Keras: writes quantized models, or reads those that trainkit has written.

python keras_exchange.py write FOLDER      models, what they are called with and give
python keras_exchange.py read FOLDER       whether trainkit's models give the same in Keras
"""

import pathlib
import sys

import keras
import numpy as np

CONFIGS = {
    "int8": lambda: keras.quantizers.Int8QuantizationConfig(),
    "int4": lambda: keras.quantizers.Int4QuantizationConfig(block_size=8),
    "int4_plain": lambda: keras.quantizers.Int4QuantizationConfig(block_size=None),
    "float8": lambda: keras.quantizers.Float8QuantizationConfig(),
}


def model():
    keras.utils.set_random_seed(3)
    tokens = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(11, 8)(tokens)
    x = keras.layers.EinsumDense("abc,cde->abde", (6, 2, 5), bias_axes="de")(x)
    x = keras.layers.EinsumDense("abde,dec->abc", (6, 9), bias_axes="c", activation="relu")(x)
    x = keras.layers.Dense(7, bias_initializer="normal")(x)
    return keras.Model(tokens, x)


# 3.15 leaves the zero points of calibrated layers out of its files.
WRITES_CALIBRATED = tuple(map(int, keras.__version__.split(".")[:2])) >= (3, 16)


class Tokenizer:
    def tokenize(self, text):
        return [ord(c) % 11 for c in text]


def calibrated(mode):
    made = model()
    kind = keras.quantizers.GPTQConfig if mode == "gptq" else keras.quantizers.AWQConfig
    block = keras.Sequential(made.layers[2:])
    config = kind(
        dataset=["some text to look at " * 9],
        tokenizer=Tokenizer(),
        num_samples=4,
        sequence_length=6,
        group_size=4,
        quantization_layer_structure={
            "pre_block_layers": [made.layers[1]],
            "sequential_blocks": [block],
        },
    )
    made.quantize(config=config)
    config.quantization_layer_structure = None  # Keras 3.15 would describe the layers in it
    return made


def main(what, folder):
    folder = pathlib.Path(folder)
    tokens = np.arange(12, dtype="int32").reshape(2, 6) % 11
    if what == "write":
        for name, config in CONFIGS.items():
            made = model()
            made.quantize(config=config())
            made.save(folder / f"{name}.keras")
            made.save_weights(folder / f"{name}.weights.h5")
            np.save(folder / f"{name}.npy", np.asarray(made(tokens)))
        for mode in ("gptq", "awq") if WRITES_CALIBRATED else ():
            made = calibrated(mode)
            made.save(folder / f"{mode}.keras")
            np.save(folder / f"{mode}.npy", np.asarray(made(tokens)))
        return
    for path in sorted(folder.glob("*.keras")):
        got = np.asarray(keras.saving.load_model(path)(tokens))
        wanted = np.load(path.with_suffix(".npy"))
        print(path.stem, float(np.abs(got - wanted).max()), float(np.abs(wanted).max()))


if __name__ == "__main__":
    main(*sys.argv[1:])
