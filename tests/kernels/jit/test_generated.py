"""Functions compiled from generated text."""

from trainkit.kernels.jit.generated import compiled_function

SOURCE = "def twice(x):\n    return 2 * x\n"


def test_the_same_text_with_and_without_threads_is_cached_apart():
    alone, spread = (compiled_function(SOURCE, "twice", parallel) for parallel in (False, True))
    assert alone.__module__ != spread.__module__
    assert compiled_function(SOURCE, "twice") is alone


def test_a_function_is_its_text():
    assert compiled_function(SOURCE, "twice").py_func(3) == 6
