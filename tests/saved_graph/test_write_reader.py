"""How bodies are copied into the reader of saved graphs."""

import ast
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tests.saved_graph import write_reader
from tests.saved_graph.write_reader import Text, Unwritable, prune, strip, without_module
from trainkit.core.tensor import PRIMITIVES
from trainkit.saved_graph.standalone import OPERATIONS


@pytest.fixture(scope="module")
def text():
    return write_reader.reader()


def test_a_body_that_changes_is_seen(text, monkeypatch):
    module = write_reader.module_of("trainkit.ops.neural.activations")
    changed = module.text.replace("return x - xp.tanh(x)", "return x - 2 * xp.tanh(x)")
    monkeypatch.setattr(module, "text", changed)
    assert "return x - 2 * np.tanh(x)" in write_reader.reader() != text


def test_the_text_runs_where_trainkit_is_not(text, tmp_path):
    (tmp_path / "copied.py").write_text(text, encoding="utf-8")
    code = "import sys, copied; print(len(copied.OPERATIONS), 'trainkit' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.stdout.split() == [str(len(OPERATIONS)), "False"], run.stderr


def test_copies_refer_to_nothing_outside_of_the_reader(text):
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in (node.names if isinstance(node, ast.Import) else [ast.alias(node.module)])
    }
    assert imported <= {*sys.stdlib_module_names, "numpy", "h5py"}
    assert "xp" not in {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}


def test_facts_and_stand_ins_are_all_of_use(monkeypatch):
    known, asked = [], []
    facts = write_reader.FACTS
    stands_for = write_reader.STANDS_FOR

    class Asked(dict):
        def __contains__(self, key):
            asked.append(key)
            return super().__contains__(key)

    monkeypatch.setattr(write_reader, "STANDS_FOR", Asked(stands_for))
    ends = write_reader.Conditions.end

    def end(self, node):
        known.append(ast.unparse(node))
        return ends(self, node)

    monkeypatch.setattr(write_reader.Conditions, "end", end)
    write_reader.reader()
    assert sorted(facts.keys() - known) == [], "no body asks for these any more"
    assert sorted(stands_for.keys() - asked) == [], "no body takes these any more"


@pytest.mark.parametrize(
    ("source", "copy"),
    [
        ("if xp is np: return 1\nreturn 2", "return 1"),
        ("if xp is not np: return 1\nreturn 2", "return 2"),
        ("if xp is not np:\n    x = 1\nelse:\n    # why\n    x = 2", "# why\nx = 2"),
        ("if xp is np and x > 1: x = 1", "if x > 1: x = 1"),
        ("if x: x = 1\nelif xp is np: x = 2\nelse: x = 3", "if x: x = 1\nelse: x = 2"),
        ("if xp is not np: x = 1\nelif x: x = 2", "if x: x = 2"),
        ("x = 1 if xp is np else 2", "x = 1"),
        ("x = (a or b) * (c or xp is np and d)", "x = (a or b) * (c or d)"),
        ("on_gpu = xp is not np\nif on_gpu or x: x = 1", "if x: x = 1"),
        ("rows = None\nwhile rows is None: break", "while True: break"),
        ("zero = 0\nif zero: x = 1", "zero = 0\nif zero: x = 1"),
    ],
)
def test_what_never_runs_is_left_out(source, copy):
    lines = [f"def f(x):\n    y = 1\n{textwrap.indent(t, '    ')}\n" for t in (source, copy)]
    before, after = (t if "#" in t else ast.unparse(ast.parse(t)) + "\n" for t in lines)
    pruned = prune(Text(before)).text
    assert ast.unparse(ast.parse(pruned)) == ast.unparse(ast.parse(after))
    assert pruned.count("# why") == copy.count("# why")


def test_annotations_decorators_docstrings_and_the_module_are_left_out():
    source = '''
@primitive(rule, name="twice")
def twice(xp: ArrayModule, x: Array, *rest: Any, scale: float = 2) -> Array:
    """Twice x.

    Example:
        >>> twice(1)
    """
    rows: list[Array] = []
    room: Array
    return xp.add(other(xp, x, *rest), functools.partial(finish, xp))  # type: ignore[x]
'''
    copy = without_module(strip(Text(source.strip()))).text
    assert (
        copy.strip()
        == """
def twice(x, *rest, scale = 2) :
    rows = []
    return np.add(other(x, *rest), finish)
""".strip()
    )


def test_what_can_not_be_copied_is_said_with_the_reason(monkeypatch):
    with pytest.raises(Unwritable, match=r"takes FEWEST of .*concat_tuned, for which STANDS_FOR"):
        write_reader.resolve("trainkit.kernels.concat.concat_tuned", "FEWEST")
    monkeypatch.delitem(write_reader.STANDS_FOR, "trainkit.core.errors:ShapeError")
    words = "can't have the body of 'argmax', as it takes ShapeError of trainkit.core.errors"
    with pytest.raises(Unwritable, match=words):
        write_reader.Section(write_reader.declared().keys() - {"argmax"}, [])


def test_a_name_in_a_formatted_text_is_the_one_of_the_reader():
    names = {"sizes.reach": "_reach", "n": "_n"}
    new = write_reader.renamed('f"n {sizes.reach(k, n)} and {x.n} of {nn}"', names)
    assert new == 'f"n {_reach(k, _n)} and {x.n} of {nn}"'


def test_operations_are_those_that_are_exported():
    exported = {name for name, p in write_reader.declared().items() if p.facets.export}
    assert exported == OPERATIONS.keys() <= PRIMITIVES.keys()
    assert OPERATIONS["round"] is np.rint


def test_a_function_that_hands_its_arguments_on_is_not_copied():
    key = write_reader.key_of(PRIMITIVES["sigmoid"])
    assert key == "trainkit.kernels.elementwise.elementwise_reference:sigmoid"
    assert write_reader.key_of(PRIMITIVES["softmax"]).startswith("trainkit.ops.")
