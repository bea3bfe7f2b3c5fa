"""Types of assignments, classes inside of functions, and template strings."""

import dataclasses
import importlib.util
import sys

import pytest

import trainkit as tk
from tests.graph.autograph.test_convert import both


def test_assignments_with_types_stand_in_branches_and_loops():
    class Scale:
        factor: tk.Tensor

    scale = Scale()

    def f(x):
        total: tk.Tensor = tk.constant(0.0)
        count: int
        count = 0
        while total < x:
            half: tk.Tensor = x / 2.0
            total: tk.Tensor = total + half
            count: int = count + 1
        if x > 3.0:
            total: tk.Tensor = -total
        scale.factor: float = 2.0
        return total * scale.factor, count

    both(f, tk.constant(4.0))
    both(f, tk.constant(2.0))


def test_a_class_of_a_function_keeps_its_fields():
    @tk.function
    def f(x):
        @dataclasses.dataclass
        class Pair:
            first: tk.Tensor
            second: float = 2.0

        return Pair(x if x > 0.0 else -x).first + Pair(x).second

    assert float(f(tk.constant(-1.0))) == 3.0


@pytest.mark.skipif(sys.version_info < (3, 14), reason="template strings came with Python 3.14")
def test_template_strings_hold_the_values_of_the_graph(tmp_path):
    (tmp_path / "of_templates.py").write_text("""
def f(x, texts):
    if x > 0.0:
        x = x * 2.0
    width = 8
    texts.append(t"x is {x!r:>{width}} and {[y for y in (1, 2)]}{'!'}")
    return x
""")
    spec = importlib.util.spec_from_file_location("of_templates", tmp_path / "of_templates.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    texts = []
    assert float(tk.function(lambda x: module.f(x, texts))(tk.constant(2.0))) == 4.0
    (text,) = texts
    assert text.strings == ("x is ", " and ", "", "")
    x, numbers, mark = text.interpolations
    assert (x.expression, x.conversion, x.format_spec) == ("x", "r", ">8")
    assert tk.is_symbolic_tensor(x.value)
    assert (numbers.value, numbers.expression, numbers.conversion, mark.value) == (
        [1, 2],
        "[y for y in (1, 2)]",
        None,
        "!",
    )
