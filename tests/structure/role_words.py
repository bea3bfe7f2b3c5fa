"""How often a name tells the part that a value plays, `found`, and not what it is: `cotangents`.

Cython's files count, too: of each such word the places where it stands as a name.

python -m tests.structure.role_words            counts, the worst files first
python -m tests.structure.role_words --write    keeps them, where no file has more than before
"""

import argparse
import ast
import json
import pathlib
import re
import sys

from tests.structure.imports import PACKAGE, nodes_of, own_tree

KEPT = pathlib.Path(__file__).with_name("role_words.json")

ROLE_WORDS = frozenset(
    """
    asked chosen done far fewest found given held here how its kept known least made most place
    places rest seen shown taken there told wanted what which whole why wide
    """.split()
)

# Functions are named by verbs or nouns: not by what was done to something, nor where it goes. A
# participle before a noun is part of a noun, as in `packed_weights`.
PARTICIPLE = re.compile(r"[a-z]+ed|[a-z]+ing|made|found|given|kept|held")
WITHOUT_A_NOUN = frozenset(
    """
    again along alone apart as at away back by first for from here in last later none nothing now
    of off on once or out second there to together up with
    """.split()
)
# Nouns and verbs that end as participles do.
NO_PARTICIPLES = frozenset(
    """
    binding bring coding dropping embed embedding encoding feed hamming hanning heading listing
    logging missing padding pooling ring routing saving seed shed speed spelling spring string
    tiling tracing training warning
    """.split()
)


def role_bindings(tree):
    """The line and name of each local variable and argument that is called by a role-word."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue
        if name.strip("_") in ROLE_WORDS:
            yield node.lineno, name


CYTHON_TEXT = re.compile(r'"""[\s\S]*?"""|"[^"\n]*"|#[^\n]*')
CYTHON_ROLE = re.compile(rf"(?<![\w.])_*(?:{'|'.join(sorted(ROLE_WORDS))})_*\b")


def cython_names(source):
    """The role-words of a file of Cython, but for those in strings, comments and of attributes."""
    return CYTHON_ROLE.findall(CYTHON_TEXT.sub("", source))


def cython_counts():
    """By file of Cython, how many names are so; files without any are left out."""
    table = {}
    for ending in ("pyx", "pxi"):
        for path in PACKAGE.rglob(f"*.{ending}"):
            names = cython_names(path.read_text(encoding="utf-8"))
            if names:
                table[path.relative_to(PACKAGE).as_posix()] = [len(names), 0]
    return table


def binding_count(tree):
    """How many names are bound."""
    return sum(
        isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        for node in nodes_of(tree)
    )


def is_named_by_a_role(name):
    """Whether the name of a function has neither a noun nor a verb."""
    words = name.strip("_").split("_")
    first, rest = words[0], words[1:]
    if first in NO_PARTICIPLES or not (PARTICIPLE.fullmatch(first) or first in ("along", "apart")):
        return False
    return all(word in WITHOUT_A_NOUN or PARTICIPLE.fullmatch(word) for word in rest)


def participle_functions(tree):
    """The line and name of each function that is named by a participle or a preposition."""
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if is_named_by_a_role(node.name):
                yield node.lineno, node.name


def trees():
    """Each file of the package by its path within, with its syntax tree."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), own_tree(path)


def counts():
    """By file, how many bindings and functions are named so; files without any are left out."""
    table = {}
    for path, tree in trees():
        numbers = [len(list(role_bindings(tree))), len(list(participle_functions(tree)))]
        if any(numbers):
            table[path] = numbers
    return table | cython_counts()


def totals():
    """Names that tell a role, all names, functions that are named so, and all functions."""
    names = all_names = functions = all_functions = 0
    for _, tree in trees():
        names += len(list(role_bindings(tree)))
        all_names += binding_count(tree)
        functions += len(list(participle_functions(tree)))
        all_functions += sum(isinstance(node, ast.FunctionDef) for node in nodes_of(tree))
    return names, all_names, functions, all_functions


def kept_counts():
    """The table that was kept."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def grown(now, before):
    """What to say of each file that has more than before."""
    for path, numbers in now.items():
        allowed = before.get(path, [0, 0])
        for number, limit, words in zip(numbers, allowed, ("names", "functions"), strict=True):
            if number > limit:
                yield f"{path}: {number} {words} tell a role, {limit} before"


def main():
    """Print the counts, or keep them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep the counts")
    now = counts()
    if parser.parse_args().write:
        more = list(grown(now, kept_counts())) if KEPT.exists() else []
        if more:
            sys.exit("\n".join(more))
        KEPT.write_text(json.dumps(now, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    for path, (names, functions) in sorted(now.items(), key=lambda item: -sum(item[1]))[:40]:
        print(f"{names:4} {functions:4}  {path}")
    names, all_names, functions, all_functions = totals()
    print(f"{names} of {all_names} names, {100 * names / all_names:.2f} %")
    print(f"{functions} of {all_functions} functions, {100 * functions / all_functions:.1f} %")


if __name__ == "__main__":
    main()
