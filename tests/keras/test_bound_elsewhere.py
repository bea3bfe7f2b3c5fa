"""Names bound to another framework exist, and say in one sentence what to use instead."""

import pytest

import trainkit as tk
from trainkit import keras

NAMES = [
    (keras.callbacks.OrbaxCheckpoint, "ModelCheckpoint"),
    (keras.distribution.LayoutMap, "RematScope"),
    (keras.distribution.ModelParallel, "RematScope"),
    (keras.distribution.TensorLayout, "RematScope"),
    (keras.distribution.distribute_tensor, "tk.device"),
]


@pytest.mark.parametrize(("name", "instead"), NAMES, ids=lambda x: getattr(x, "__name__", ""))
def test_it_says_what_to_use_instead(name, instead):
    with pytest.raises(NotImplementedError) as raised:
        name(1, layout=2) if name is keras.distribution.distribute_tensor else name(1, key=2)
    text = str(raised.value)
    assert text.startswith(f"{name.__name__} ")
    assert instead in text
    assert text.count(". ") == 0
    assert text.endswith(".")


@pytest.mark.parametrize("kind", [kind for kind, _ in NAMES if isinstance(kind, type)])
def test_nothing_is_one_of_them(kind):
    """Code that asks for the class of an object goes on."""
    assert not isinstance(tk.layers.Dense(1), kind)
