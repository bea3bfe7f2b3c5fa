"""Names that are not there: what is near, or what another library's name is here."""

import functools
import re

import pytest

import trainkit as tk
from trainkit.core.errors import NoValueError
from trainkit.core.values import tf1_names, torch_names

layers = tk.layers


def model():
    stack = tk.Sequential([tk.Input((2,)), layers.Dense(1)])
    stack.compile("sgd", "mse")
    return stack


NAMES = {
    "a layer": (
        lambda: tk.layers.Dens,
        "'trainkit.layers' has no .* 'Dens'; did you mean 'Dense'?",
    ),
    "a layer by Keras's door": (lambda: tk.keras.layers.LTSM, "'LSTM'"),
    "a loss": (lambda: tk.losses.MeanSqaredError, "did you mean 'MeanSquaredError'"),
    "a metric": (lambda: tk.metrics.Acuracy, "'Accuracy'"),
    "an optimizer": (lambda: tk.optimizers.Adm, "'Adam'"),
    "a callback": (lambda: tk.callbacks.EarlyStop, "'EarlyStopping'"),
    "a data set": (lambda: tk.data.DataSet, "'Dataset'"),
    "an initializer": (lambda: tk.initializers.GlorotUnifrom, "'GlorotUniform'"),
    "an activation": (lambda: tk.activations.rellu, "'relu'"),
    "a regularizer": (lambda: tk.regularizers.OrthogonalRegulariser, "Regularizer'?"),
    "nothing near": (lambda: tk.layers.Zzzzz, "has no attribute 'Zzzzz'$"),
    "PyTorch's layer": (lambda: tk.nn.Linear, "'Linear': here it is tk.layers.Dense"),
    "PyTorch's layer elsewhere": (lambda: tk.layers.Conv2d, "tk.layers.Conv2D"),
    "PyTorch's loss": (lambda: tk.losses.CrossEntropyLoss, "from_logits=True"),
    "PyTorch's loader": (lambda: tk.data.DataLoader, "from_tensor_slices"),
    "PyTorch's function": (lambda: tk.no_grad, "outside of tk.GradientTape"),
    "a view": (lambda: tk.ones((2, 3)).view(3, 2), r"'view': use tk.reshape\(x, shape\)"),
    "a view in a function": (
        lambda: tk.function(lambda x: x.view(2))(tk.ones(2)),
        "use tk.reshape",
    ),
    "a view of a layer's output": (lambda: tk.Input((2,)).view(2), "use tk.reshape"),
    "a gradient": (lambda: tk.ones(()).backward(), "tape.gradient"),
    "a view of a variable": (lambda: tk.Variable([1.0]).value().detach(), "tk.stop_gradient"),
    "parameters": (lambda: model().parameters(), "'Sequential' .* use model.trainable_variables"),
    "TensorFlow 1's session": (lambda: tk.Session, r"tk\.compat\.v1\.Session inside"),
    "TensorFlow 1's optimizer": (lambda: tk.train.AdamOptimizer, "here it is tk.optimizers.Adam$"),
    "TensorFlow 1's layer": (lambda: tk.layers.conv2d, "here it is tk.keras.layers.Conv2D$"),
    "TensorFlow 1's metric": (lambda: tk.metrics.mean, "here it is tk.keras.metrics.Mean$"),
    "TensorFlow 1's loss": (
        lambda: tk.losses.softmax_cross_entropy,
        r"tk\.keras\.losses\.CategoricalCrossentropy\(from_logits=True\)$",
    ),
    "TensorFlow 1's files": (lambda: tk.gfile, "here it is tk.io.gfile"),
    "TensorFlow 1's writer": (lambda: tk.summary.FileWriter, "tk.summary.create_file_writer"),
    "an assertion that moved": (lambda: tk.assert_near, "here it is tk.debugging.assert_near$"),
    "a name that moved": (lambda: tk.lgamma, "here it is tk.math.lgamma$"),
    "a part of data sets": (lambda: tk.data.experimental.dense_to_ragged_batch, "use padded_batch"),
    "files of features": (
        lambda: tk.data.experimental.make_batched_features_dataset,
        "map tk.io.parse_example over it",
    ),
    "elements as a list": (lambda: tk.data.experimental.from_list, "Dataset.from_tensor_slices"),
    "a service of data": (lambda: tk.data.experimental.service, "shard of the data set"),
    "a coordinator": (
        lambda: tk.distribute.experimental.coordinator,
        "tk.distribute.MultiWorkerMirroredStrategy trains",
    ),
    "partitions": (
        lambda: tk.distribute.experimental.partitioners,
        "leave variable_partitioner out",
    ),
    "gradients to 0": (lambda: tk.optimizers.SGD().zero_grad(), "'SGD' .* none to make 0"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_name_that_is_not_there(case):
    call, text = NAMES[case]
    with pytest.raises(AttributeError, match=text):
        call()


def test_files_of_packages_can_still_be_imported():
    from trainkit.layers import dense, merging

    assert dense.Dense is layers.Dense
    assert merging
    assert not hasattr(tk.layers, "__path_of_nothing__")


ADVISED = {
    "tensors": (tk.ones((2,)), torch_names.TENSOR),
    "models": (model(), torch_names.MODEL),
    "optimizers": (tk.optimizers.SGD(), torch_names.OPTIMIZER),
    "names": (None, torch_names.NAMES),
    "names of version 1": (None, tf1_names.NAMES),
}


@pytest.mark.parametrize("case", ADVISED)
def test_what_is_advised_is_there_and_the_name_is_not(case):
    owner, spellings = ADVISED[case]
    assert [name for name in spellings if owner is not None and hasattr(owner, name)] == []
    for advice in spellings.values():
        for path in re.findall(r"\btk((?:\.\w+)+)", advice):
            assert functools.reduce(getattr, path[1:].split("."), tk) is not None
        for name in re.findall(r"\b(?:model|optimizer)\.(\w+)", advice):
            assert hasattr(owner or model(), name), name
        for name in re.findall(r"\bvariable\.(\w+)", advice):
            assert hasattr(tk.Variable(1.0), name), name


@pytest.mark.parametrize("path", tf1_names.NAMES)
def test_a_name_of_version_1_is_explained_and_not_there(path):
    space, _, name = path.rpartition(".")
    with pytest.raises(AttributeError) as caught:
        getattr(getattr(tk, space) if space else tk, name)
    assert str(caught.value).endswith(tf1_names.NAMES[path]) or space == ""


class Faulty(tk.Model):
    @property
    def train(self):
        return self.nothing


def test_the_error_of_a_property_is_its_own():
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        Faulty().train  # noqa: B018


KEYWORDS = {
    "fit": ({"epoch": 3}, "Sequential.fit has no argument 'epoch'; did you mean 'epochs'?"),
    "evaluate": ({"batchsize": 3}, "did you mean 'batch_size'?"),
    "predict": ({"verbos": 0}, "did you mean 'verbose'?"),
    "compile": ({"metric": ["mae"]}, "did you mean 'metrics'?"),
    "train_on_batch": ({"qqq": 1}, "'qqq'; they are x, y, sample_weight, class_weight"),
}


@pytest.mark.parametrize("method", KEYWORDS)
def test_an_argument_that_is_not_there(method):
    arguments, text = KEYWORDS[method]
    with pytest.raises(TypeError, match=re.escape(text)):
        getattr(model(), method)(tk.ones((2, 2)), **arguments)


def test_a_function_whose_source_cannot_be_read():
    space = {"tk": tk}
    exec(
        compile(
            "@tk.function\ndef halved(x):\n    while x > 1.0:\n        x = x / 2.0\n    return x\n",
            "<stdin>",
            "exec",
        ),
        space,
    )
    with pytest.raises(NoValueError, match="has none") as caught:
        space["halved"](tk.constant(4.0))
    assert "The source of halved could not be read, since it is in <stdin>" in str(caught.value)
    assert "put it into a file" in str(caught.value)

    @tk.function
    def halved(x):
        return x.__int__()

    with pytest.raises(NoValueError, match="has none") as caught:
        halved(tk.constant(4.0))
    assert "could not be read" not in str(caught.value)


class Unset(tk.Model):
    def __init__(self):
        self.kernel = 1.0

    def call(self, x):
        return x


class UnsetMetric(tk.metrics.Metric):
    def __init__(self):
        self.kernel = 1.0


class UnsetLoss(tk.losses.Loss):
    def __init__(self):
        self.kernel = 1.0

    def call(self, y_true, y_pred):
        return y_pred


class UnsetOptimizer(tk.optimizers.Optimizer):
    def __init__(self):
        self.kernel = 1.0


UNSET = {
    "Unset": lambda: Unset().compile("sgd", "mse"),
    "UnsetMetric": lambda: (
        model().compile("sgd", "mse", metrics=[UnsetMetric()]) or UnsetMetric().name
    ),
    "UnsetLoss": lambda: UnsetLoss()(tk.ones(2), tk.ones(2)),
    "UnsetOptimizer": lambda: UnsetOptimizer().apply([tk.ones(())], [tk.Variable(1.0)]),
}


@pytest.mark.parametrize("kind", UNSET)
def test_a_class_that_did_not_call_the_init_of_its_base(kind):
    with pytest.raises(AttributeError) as caught:
        UNSET[kind]()
    assert str(caught.value).endswith(f"call super().__init__() first in the __init__ of {kind}")


def test_other_things_that_cannot_be_done():
    with pytest.raises(TypeError, match="does not support item assignment: tensors never change"):
        tk.ones(3)[0] = 2.0
    with pytest.raises(ValueError, match=r"the class Dense; call it to make one, Dense\(...\)"):
        tk.Sequential([layers.Dense])
    scores, labels = tk.ones((4, 5, 5, 3)), tk.zeros(4)
    with pytest.raises(ValueError, match="Flatten, or global pooling, before the last layer"):
        tk.losses.SparseCategoricalCrossentropy()(labels, scores)
