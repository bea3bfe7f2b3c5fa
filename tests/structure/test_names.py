"""A name stands for one thing: modules and classes of the package do not share theirs."""

import ast
from collections import Counter, defaultdict

from tests.structure.imports import files, is_second_name, own_tree

# A door names its modules and classes as TensorFlow and Keras do.
DOORS = {"tf", "keras", "array_api", "eager", "compat", "cli"}

# Base names that several modules have, with how many: a layer's, a loss's and an operation's file
# of one name are about one thing, and so are registries, readers and writers of different rooms.
# These numbers may only fall.
MODULES = {
    "activations": 2,
    "convolution": 2,
    "dense": 2,
    "dropout": 2,
    "embedding": 2,
    "experimental": 4,
    "functional": 2,
    "masks": 2,
    "normalization": 2,
    "options": 3,
    "pooling": 2,
    "random": 2,
    "registry": 4,
    "regression": 2,
    "rows": 2,
    "saving": 2,
    "tensorboard": 2,
    "weights": 2,
    "writer": 3,
}

# Names that several classes have today, without leading underscores, with how many of them.
# These numbers may only fall.
CLASSES = {
    "Call": 2,
    "Drawing": 3,
    "Function": 2,
    "Given": 2,
    "Graph": 2,
    "Group": 2,
    "Kept": 2,
    "Loop": 2,
    "NotElementwise": 2,
    "Open": 2,
    "Operation": 2,
    "Place": 4,
    "Reader": 4,
    "Reduction": 2,
    "Rows": 2,
    "Scopes": 2,
    "Settings": 2,
    "Source": 2,
    "State": 2,
    "TFRecordWriter": 2,
    "Target": 2,
    "Windows": 2,
    "Writer": 2,
    "Written": 2,
}

# Classes that are one thing in two places, as Keras has them.
SAME_IN_KERAS = {
    **dict.fromkeys(
        """
        BinaryCrossentropy CategoricalCrossentropy CategoricalHinge CosineSimilarity Hinge
        KLDivergence MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredError
        MeanSquaredLogarithmicError Poisson SparseCategoricalCrossentropy SquaredHinge
        """.split(),
        "a loss, and the metric of it",
    ),
    **dict.fromkeys(
        "Adagrad Adam Ftrl Optimizer RMSprop SGD".split(), "an optimizer, and its legacy form"
    ),
    "Identity": "a layer and an initializer",
}


def inside(name: str) -> bool:
    """Whether a module is no door's."""
    return name.count(".") > 0 and name.split(".")[1] not in DOORS


def modules_by_name() -> dict[str, list[str]]:
    found = defaultdict(list)
    for name, path in files().items():
        if inside(name) and path.name != "__init__.py" and not is_second_name(path):
            found[path.stem].append(name)
    return found


def class_names(tree: ast.Module) -> list[str]:
    """The classes at the top of a file, without leading underscores."""
    return [node.name.lstrip("_") for node in tree.body if isinstance(node, ast.ClassDef)]


def classes_by_name() -> dict[str, list[str]]:
    found = defaultdict(list)
    for name, path in files().items():
        if inside(name):
            for its in class_names(own_tree(path)):
                found[its].append(name)
    return found


def shared(names: dict[str, list[str]], known: dict[str, int]) -> list[str]:
    """The names that more places have than are known of."""
    return [
        f"{name}: {', '.join(places)}"
        for name, places in sorted(names.items())
        if len(places) > known.get(name, 1)
    ]


def test_no_two_modules_share_a_base_name():
    found = shared(modules_by_name(), MODULES)
    assert not found, "\n".join([*found, "name each for what it alone is about"])


def test_no_two_classes_share_a_name():
    names = {name: its for name, its in classes_by_name().items() if name not in SAME_IN_KERAS}
    found = shared(names, CLASSES)
    assert not found, "\n".join([*found, "name each for what it alone is"])


def test_a_name_shared_by_one_more_is_found():
    names = {"Plan": ["a", "b", "c"], "Step": ["a", "b"], "Node": ["a"]}
    assert shared(names, {"Plan": 2, "Step": 2}) == ["Plan: a, b, c"]


def test_classes_are_read_without_their_underscore():
    source = "class _Step:\n    class Inner: ...\nclass Plan: ...\n"
    assert Counter(class_names(ast.parse(source))) == Counter(["Step", "Plan"])
