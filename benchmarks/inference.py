"""Times of inference on one thread, beside ONNX Runtime, PyTorch and Keras on TensorFlow.

python benchmarks/inference.py [--torch PYTHON] [--tensorflow PYTHON] [--batches N N] [NETWORK ...]

`PYTHON` is an interpreter that has the framework; ONNX Runtime is asked of the one that runs this,
with the file that trainkit writes of the same network. Each framework of a row is a process of its
own. They take turns, forwards and backwards, so a change of the machine's speed meets all alike,
and what counts is the processor's time of the whole process on one core, so other processes matter
less. A number is the median over the turns. For ResNet-50, torchvision has strides in other
convolutions, which is a twentieth more arithmetic.
"""

import os

if __name__ == "__main__":  # before NumPy is there
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # images that set them halve its speed
        os.environ.pop(name, None)

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from contestant import compiling
from workloads.models import unet_features

THREADS = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1",
           "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}  # fmt: skip
BLOCKS, UNITS, HEADS, WORDS, LENGTH, PAST = 6, 512, 8, 2000, 256, 127
WORDS_READ = 128

# ------------------------------------------------------------------ networks of Keras's names


def _unet(k):
    images, x = unet_features(k)
    return k.Model(images, k.layers.Conv2D(2, 1)(x))


def _feed_forward(k, x):
    y = k.layers.LayerNormalization()(x)
    y = k.layers.Dense(4 * UNITS, activation="gelu")(y)
    return x + k.layers.Dense(UNITS)(y)


def _gpt(k):
    layers = k.layers
    words = k.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, UNITS)(words) + layers.Embedding(LENGTH, UNITS)(
        k.ops.arange(LENGTH)
    )
    for _ in range(BLOCKS):
        y = layers.LayerNormalization()(x)
        y = layers.MultiHeadAttention(HEADS, UNITS // HEADS)(y, y, use_causal_mask=True)
        x = _feed_forward(k, x + y)
    return k.Model(words, layers.Dense(WORDS)(layers.LayerNormalization()(x)))


def _encoder(k):
    """Words of both directions to one vector, as in BERT: normalized behind each sum."""
    layers = k.layers
    words = k.Input((WORDS_READ,), dtype="int32")
    x = layers.Embedding(WORDS, UNITS)(words) + layers.Embedding(WORDS_READ, UNITS)(
        k.ops.arange(WORDS_READ)
    )
    x = layers.LayerNormalization()(x)
    for _ in range(BLOCKS):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(HEADS, UNITS // HEADS)(x, x))
        y = layers.Dense(4 * UNITS, activation="gelu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(UNITS)(y))
    return k.Model(words, layers.Dense(UNITS, activation="tanh")(x[:, 0]))


def _digits(k):
    layers = k.layers
    stack = [k.Input((28, 28, 1))]
    for filters in (32, 64):
        stack += [layers.Conv2D(filters, 3, activation="relu"), layers.MaxPooling2D()]
    return k.Sequential([*stack, layers.Flatten(), layers.Dense(10, activation="softmax")])


def _gpt_token(k):
    """The next word's scores, and the keys and values of all words so far."""
    layers, ops, size = k.layers, k.ops, UNITS // HEADS
    word = k.Input((1,), dtype="int32")
    pasts = [k.Input((HEADS, PAST, size)) for _ in range(2 * BLOCKS)]
    x = layers.Embedding(WORDS, UNITS)(word)
    presents = []
    for i in range(BLOCKS):
        y = layers.LayerNormalization()(x)
        q, key, value = (
            ops.transpose(ops.reshape(layers.Dense(UNITS)(y), (-1, 1, HEADS, size)), (0, 2, 1, 3))
            for _ in range(3)
        )
        key = ops.concatenate([pasts[2 * i], key], axis=2)
        value = ops.concatenate([pasts[2 * i + 1], value], axis=2)
        presents += [key, value]
        scores = ops.softmax(ops.matmul(q, ops.transpose(key, (0, 1, 3, 2))) * size**-0.5)
        y = ops.reshape(ops.transpose(ops.matmul(scores, value), (0, 2, 1, 3)), (-1, 1, UNITS))
        x = _feed_forward(k, x + layers.Dense(UNITS)(y))
    scores = layers.Dense(WORDS)(layers.LayerNormalization()(x))
    return k.Model([word, *pasts], [scores, *presents])


def _recurrent(k, layer):
    stack = [k.Input((100, 64)), layer(128, return_sequences=True), layer(128)]
    return k.Sequential([*stack, k.layers.Dense(10)])


def _mlp(k):
    stack = [k.Input((784,)), k.layers.Dense(256, activation="relu"), k.layers.Dense(10)]
    return k.Sequential(stack)


def _application(name):
    def build(k):
        return getattr(k.applications, name)(weights=None, input_shape=(224, 224, 3))

    return build


# ------------------------------------------------------------------ the same of PyTorch's


def _torch_application(name):
    def build(torch):
        import torchvision

        model = getattr(torchvision.models, name)(weights=None)
        return torch.nn.Sequential(model, torch.nn.Softmax(-1))

    return build


def _torch_unet(torch):
    nn = torch.nn

    def pair(channels, filters):
        parts = []
        for inside in (channels, filters):
            parts += [nn.Conv2d(inside, filters, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*parts)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = (3, 32, 64, 128, 256)
            self.down = nn.ModuleList(pair(a, b) for a, b in itertools.pairwise(sizes))
            self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in (128, 64, 32))
            self.merged = nn.ModuleList(pair(2 * n, n) for n in (128, 64, 32))
            self.last = nn.Conv2d(32, 2, 1)

        def forward(self, x):
            skips = []
            for i, part in enumerate(self.down):
                x = part(nn.functional.max_pool2d(x, 2) if i else x)
                skips.append(x)
            for up, merged, skip in zip(self.up, self.merged, skips[2::-1], strict=True):
                x = merged(torch.cat([up(x), skip], 1))
            return self.last(x)

    return UNet()


def _torch_gpt(torch, cached=False):
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(UNITS) for _ in range(2))
            self.qkv, self.out = nn.Linear(UNITS, 3 * UNITS), nn.Linear(UNITS, UNITS)
            self.wide, self.narrow = nn.Linear(UNITS, 4 * UNITS), nn.Linear(4 * UNITS, UNITS)

        def forward(self, x, past):
            qkv = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            q, key, value = qkv
            if past is not None:
                key, value = (torch.cat(pair, 2) for pair in zip(past, (key, value), strict=True))
            y = functional.scaled_dot_product_attention(q, key, value, is_causal=past is None)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            x = x + self.narrow(functional.gelu(self.wide(self.norms[1](x))))
            return x, (key, value)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, UNITS), nn.Embedding(LENGTH, UNITS)
            self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
            self.norm, self.head = nn.LayerNorm(UNITS), nn.Linear(UNITS, WORDS)

        def forward(self, words, *pasts):
            x = self.words(words)
            if not pasts:
                x = x + self.places(torch.arange(LENGTH))
            presents = []
            for i, block in enumerate(self.blocks):
                x, present = block(x, pasts[2 * i : 2 * i + 2] if pasts else None)
                presents += present
            scores = self.head(self.norm(x))
            return [scores, *presents] if cached else scores

    return GPT()


def _torch_encoder(torch):
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, UNITS), nn.Embedding(WORDS_READ, UNITS)
            self.norm, self.head = nn.LayerNorm(UNITS), nn.Linear(UNITS, UNITS)
            block = nn.TransformerEncoderLayer(
                UNITS, HEADS, 4 * UNITS, activation="gelu", batch_first=True
            )
            self.blocks = nn.TransformerEncoder(block, BLOCKS)

        def forward(self, words):
            x = self.norm(self.words(words) + self.places(torch.arange(WORDS_READ)))
            return torch.tanh(self.head(self.blocks(x)[:, 0]))

    return Encoder()


def _torch_digits(torch):
    nn = torch.nn
    parts = []
    for channels, filters in ((1, 32), (32, 64)):
        parts += [nn.Conv2d(channels, filters, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(1600, 10), nn.Softmax(-1))


def _torch_recurrent(torch, layer):
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stack = layer(64, 128, 2, batch_first=True)
            self.head = torch.nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.stack(x)[0][:, -1])

    return Recurrent()


def _torch_mlp(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


# ------------------------------------------------------------------ what is measured

NETWORKS = {
    # name: (words for it, Keras's form, PyTorch's form)
    "MobileNetV2": ("(224, 224, 3)", _application("MobileNetV2"),
                    _torch_application("mobilenet_v2")),
    "ResNet50": ("(224, 224, 3)", _application("ResNet50"), _torch_application("resnet50")),
    "unet": ("U-Net of 32 to 256 filters (128, 128, 3)", _unet, _torch_unet),
    "gpt": ("GPT of 6 blocks of 512, 256 words at a time", _gpt, _torch_gpt),
    "token": ("the same, one word with 127 cached keys", _gpt_token,
              lambda torch: _torch_gpt(torch, cached=True)),
    "lstm": ("two LSTM of 128 (100, 64)", lambda k: _recurrent(k, k.layers.LSTM),
             lambda torch: _torch_recurrent(torch, torch.nn.LSTM)),
    "gru": ("two GRU of 128 (100, 64)", lambda k: _recurrent(k, k.layers.GRU),
            lambda torch: _torch_recurrent(torch, torch.nn.GRU)),
    "mlp": ("Dense 784, 256, 10", _mlp, _torch_mlp),
    "EfficientNetB0": ("(224, 224, 3)", _application("EfficientNetB0"),
                       _torch_application("efficientnet_b0")),
    "DenseNet121": ("(224, 224, 3)", _application("DenseNet121"),
                    _torch_application("densenet121")),
    "digits": ("two convolutions of 32 and 64 filters (28, 28, 1)", _digits, _torch_digits),
    "encoder": ("BERT's 6 blocks of 512, 128 words", _encoder, _torch_encoder),
}  # fmt: skip
MODES = {
    "trainkit": ("compiled", "predict", "eager"),
    "onnxruntime": ("ONNX Runtime",),
    "torch": ("PyTorch",),
    "tensorflow": ("TensorFlow", "Keras predict"),
}
MOST_COMPILING = 30.0  # seconds that code is waited for


def inputs_of(network, batch):
    """The arrays that a network is called with, images with channels last."""
    generator = np.random.default_rng(0)
    if network in ("gpt", "token", "encoder"):
        count = {"gpt": LENGTH, "token": 1, "encoder": WORDS_READ}[network]
        words = generator.integers(0, WORDS, (batch, count))
        shape = batch, HEADS, PAST, UNITS // HEADS
        pasts = [generator.normal(size=shape) for _ in range(2 * BLOCKS)]
        return [words.astype("int32"), *(x.astype("float32") for x in pasts)][
            : None if network == "token" else 1
        ]
    shapes = {"mlp": (784,), "lstm": (100, 64), "gru": (100, 64), "unet": (128, 128, 3),
              "digits": (28, 28, 1)}  # fmt: skip
    shape = batch, *shapes.get(network, (224, 224, 3))
    return [generator.normal(size=shape).astype("float32")]


def _trainkit_model(network):
    from trainkit import keras

    keras.utils.set_random_seed(0)
    return NETWORKS[network][1](keras)


def _trainkit(network, arrays):
    import trainkit as tk

    model = _trainkit_model(network)
    xs = [tk.constant(x) for x in arrays]
    x, values = (xs, arrays) if len(xs) > 1 else (xs[0], arrays[0])
    compiled = tk.function(lambda *xs: model(list(xs) if len(xs) > 1 else xs[0]))
    size = len(arrays[0])
    return {
        "compiled": lambda: compiled(*xs),
        "predict": lambda: model.predict(values, batch_size=size, verbose=0),
        "eager": lambda: model(x),
    }


def _onnxruntime(network, arrays):
    import onnxruntime

    model = _trainkit_model(network)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "model.onnx")
        model.export(path, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    feed = dict(zip([x.name for x in session.get_inputs()], arrays, strict=True))
    return {"ONNX Runtime": lambda: session.run(None, feed)}


def _torch(network, arrays):
    import torch

    torch.set_num_threads(1)
    model = NETWORKS[network][2](torch).eval()
    xs = [torch.from_numpy(x) for x in arrays]
    if arrays[0].ndim == 4:
        model = model.to(memory_format=torch.channels_last)
        xs = [x.permute(0, 3, 1, 2) for x in xs]

    def run():
        with torch.inference_mode():
            return model(*xs)

    return {"PyTorch": run}


def _tensorflow(network, arrays):
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = NETWORKS[network][1](keras)
    xs = [tf.constant(x) for x in arrays]
    values = arrays if len(arrays) > 1 else arrays[0]
    compiled = tf.function(lambda *xs: model(list(xs) if len(xs) > 1 else xs[0]))
    size = len(arrays[0])
    return {
        "TensorFlow": lambda: compiled(*xs),
        "Keras predict": lambda: model.predict(values, batch_size=size, verbose=0),
    }


FRAMEWORKS = {
    "trainkit": _trainkit,
    "onnxruntime": _onnxruntime,
    "torch": _torch,
    "tensorflow": _tensorflow,
}


class Mode:
    """One way to call a network, warmed up.

    Args:
        run: calls it.
        seconds: about how long a sample lasts; each has at least one call.
    """

    def __init__(self, run, seconds):
        self._run, self.mean = run, _mean(run())
        began = time.monotonic()
        count = 3
        while time.monotonic() - began < seconds or count:
            run()
            count = max(0, count - 1)
            if not count and compiling() and time.monotonic() - began < MOST_COMPILING:
                count = 1
        run()
        self._count = 1
        while (spent := self._seconds()) < seconds / 2 and self._count < 1 << 16:
            self._count *= max(2, min(10, int(seconds / max(spent, 1e-9))))

    def _seconds(self):
        began = time.process_time()
        for _ in range(self._count):
            self._run()
        return time.process_time() - began

    def sample(self):
        """Seconds of a call; one before brings the caches back."""
        self._run()
        return self._seconds() / self._count


def _mean(result):
    """The mean of the first result, which tells whether two frameworks ran one network."""
    while isinstance(result, list | tuple):
        result = result[0]
    return float(np.mean(np.asarray(result)))


def serve(framework, network, batch, seconds):
    """Answer lines that name a mode with the seconds of one call."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints is no answer
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    runs = FRAMEWORKS[framework](network, inputs_of(network, batch))
    modes = {name: Mode(run, seconds) for name, run in runs.items()}
    answers.write(json.dumps({name: mode.mean for name, mode in modes.items()}) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(modes[line.strip()].sample()) + "\n")


class _Contestant:
    """A framework's process.

    Attributes:
        means: by mode, the mean of its first result.
    """

    def __init__(self, python, *cell):
        quiet = cell[0] == "tensorflow"  # it says what it was built with
        self._process = subprocess.Popen(
            [python, __file__, "--cell", *map(str, cell)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL if quiet else None, env={**os.environ, **THREADS},
        )  # fmt: skip
        self.means = self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a process ended: {' '.join(self._process.args)}")
        return json.loads(line)

    def sample(self, mode):
        """Seconds of one call."""
        self._process.stdin.write(f"{mode}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def measure(pythons, network, batch, seconds, rounds):
    """By mode, the median milliseconds of a call."""
    contestants = [_Contestant(p, f, network, batch, seconds) for f, p in pythons.items()]
    means = {mode: mean for c in contestants for mode, mean in c.means.items()}
    exported = means.get("ONNX Runtime", means["compiled"])
    if not np.isclose(exported, means["compiled"], rtol=1e-3, atol=1e-4):
        raise SystemExit(f"{network}: means of results differ: {means}")
    turns = [(mode, c) for c in contestants for mode in c.means]
    samples = {mode: [] for mode, _ in turns}
    for number in range(rounds):
        for mode, contestant in turns if number % 2 == 0 else reversed(turns):
            samples[mode].append(contestant.sample(mode))
    for contestant in contestants:
        contestant.close()
    return {mode: 1e3 * statistics.median(times) for mode, times in samples.items()}


def _row(name, batch, ms, modes):
    peers = {mode: ms[mode] for mode in modes if mode not in MODES["trainkit"]}
    best = min(peers.values(), default=float("nan"))
    shares = " | ".join(f"{ms[mode] / best:.2f}" for mode in MODES["trainkit"])
    numbers = " | ".join(
        f"{ms[mode]:.3g}" if ms[mode] < 100 else f"{ms[mode]:,.0f}" for mode in modes
    )
    return f"| {name} | {batch} | {numbers} | {shares} |"


def main(arguments=None):
    """Print a line for each network and batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter with PyTorch")
    parser.add_argument("--tensorflow", metavar="PYTHON", help="one with Keras and TensorFlow")
    parser.add_argument("--onnxruntime", metavar="PYTHON", default=sys.executable,
                        help="one with ONNX Runtime, trainkit and onnx; none if empty")  # fmt: skip
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=0.3, help="that a sample lasts")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each mode")
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.cell:
        framework, network, batch, seconds = options.cell
        serve(framework, network, int(batch), float(seconds))
        return
    unknown = set(options.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"no network {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    pythons = {"trainkit": sys.executable, "onnxruntime": options.onnxruntime,
               "torch": options.torch, "tensorflow": options.tensorflow}  # fmt: skip
    pythons = {framework: python for framework, python in pythons.items() if python}
    modes = [mode for framework in pythons for mode in MODES[framework]]
    shares = [f"{mode} / best peer" for mode in MODES["trainkit"]]
    print(f"| network | batch | {' | '.join([*modes, *shares])} |")
    print(f"| --- | {'---: | ' * (1 + len(modes) + len(shares))}".rstrip())
    for network in options.networks or NETWORKS:
        for batch in options.batches:
            ms = measure(pythons, network, batch, options.seconds, options.rounds)
            print(_row(f"{network}: {NETWORKS[network][0]}", batch, ms, modes), flush=True)


if __name__ == "__main__":
    main()
