"""Public functions whose texts do not tell their arguments, or what they raise.

python -m tests.structure.told_arguments            shares by door, the worst first
python -m tests.structure.told_arguments --list     each name, and what its text lacks
python -m tests.structure.told_arguments --write    keeps the counts, where none has grown
"""

import argparse
import ast
import functools
import inspect
import json
import pathlib
import re
import sys
import textwrap

from tests.docs.test_reference import reference

KEPT = pathlib.Path(__file__).with_name("told_arguments.json")
# Their meaning is the same everywhere, and often nothing.
PLAIN = frozenset({"self", "cls", "name", "kwargs", "args"})


def public_callables():
    """Each function and class that a door describes: `(tk.nn.relu, value)`, once."""
    seen = set()
    for door in reference.DOORS:
        for name in reference.public_names(door):
            value = getattr(reference.holder(door), name)
            if callable(value) and id(value) not in seen:
                seen.add(id(value))
                yield f"{door}.{name}", value


def body_of(value):
    """The Python function that a public name runs: a constructor, a kernel, or itself."""
    if inspect.isclass(value):
        return vars(value).get("__init__")
    kernel = getattr(getattr(value, "primitive", None), "body", None)
    return inspect.unwrap(kernel if inspect.isfunction(kernel) else value)


@functools.cache
def tree_of(function):
    """The syntax tree of a function; `None` where there is no source."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError):
        return None


def arguments(function):
    """The names of arguments that a text has to tell."""
    names = {n for n, p in inspect.signature(function).parameters.items() if n[0] != "_"}
    return names - PLAIN - {"xp"}


def raises(function):
    """Whether the function itself has a `raise` of an error that it makes."""
    tree = tree_of(function)
    return tree is not None and any(
        isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) for node in ast.walk(tree)
    )


def gaps(text, has_arguments, has_errors):
    """What a text lacks: `Args`, `Raises`."""
    if has_arguments and not re.search(r"^ *(Args|Arguments):$", text, re.MULTILINE):
        yield "Args"
    if has_errors and not re.search(r"^ *Raises:$", text, re.MULTILINE):
        yield "Raises"


def find_gaps():
    """By door, `(name, part)` for each part that a text lacks, and how many names there are."""
    table, sizes = {}, {}
    for name, value in public_callables():
        function = body_of(value)
        if not inspect.isfunction(function):
            continue
        door = name.rpartition(".")[0]
        sizes[door] = sizes.get(door, 0) + 1
        text = inspect.getdoc(value) or ""
        parts = gaps(text, bool(arguments(function)), raises(function))
        table.setdefault(door, []).extend((name, part) for part in parts)
    return table, sizes


def counts(table):
    """By door, how many texts lack their arguments, and how many what they raise."""
    numbers = {
        door: [sum(part == kind for _, part in gap_list) for kind in ("Args", "Raises")]
        for door, gap_list in sorted(table.items())
    }
    return {door: pair for door, pair in numbers.items() if any(pair)}


def grown(now, before):
    """A line for each count that is larger than before."""
    for door, numbers in now.items():
        for kind, number, kept in zip(
            ("Args", "Raises"), numbers, before.get(door, [0, 0]), strict=True
        ):
            if number > kept:
                yield f"{door}: {number} texts without {kind!r}, {kept} before"


def read_kept():
    """The counts that may only fall."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def main():
    """Print the counts, or keep them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    choices = parser.parse_args()
    table, sizes = find_gaps()
    now = counts(table)
    for door, pair in sorted(now.items(), key=lambda item: -sum(item[1]) / sizes[item[0]]):
        print(f"{door}: of {sizes[door]} texts {pair[0]} lack Args, {pair[1]} lack Raises")
        if choices.list:
            print("\n".join(f"    {name}: {part}" for name, part in table[door]))
    totals = [sum(column) for column in zip(*now.values(), strict=True)] or [0, 0]
    print(f"of {sum(sizes.values())} texts {totals[0]} lack Args, {totals[1]} lack Raises")
    more = list(grown(now, read_kept() if KEPT.exists() else now))
    print("\n".join(more), end="\n" if more else "")
    if choices.write and not more:
        KEPT.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    return bool(more)


if __name__ == "__main__":
    sys.exit(main())
