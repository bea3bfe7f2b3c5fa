"""Names say what a value is, and verbs what a function does: the shares may only fall."""

import ast

from tests.structure import role_words


def test_no_file_has_more_names_that_tell_a_role_than_before():
    more = list(role_words.grown(role_words.counts(), role_words.kept_counts()))
    assert not more, (
        "\n".join(more)
        + "\nname what the value is, or what the function does; "
        + "python -m tests.structure.role_words lists them"
    )


def test_the_shares_are_small():
    names, all_names, functions, all_functions = role_words.totals()
    assert names < 0.005 * all_names
    assert functions < 0.03 * all_functions


def test_what_counts_as_a_role():
    tree = ast.parse(
        "def _made_of(given, *places, axes):\n"
        "    found: int = given\n"
        "    for kept, _node in axes: found.wanted = kept\n"
        "    return [whole for whole in places]\n"
        "def packed_weights(x): ...\n"
        "async def _joined(x): ...\n"
        "def along(x): ...\n"
        "def padding_of(x): ...\n"
    )
    names = [name for _, name in role_words.role_bindings(tree)]
    assert sorted(names) == ["found", "given", "kept", "places", "whole"]
    functions = {name for _, name in role_words.participle_functions(tree)}
    assert functions == {"_made_of", "along", "_joined"}


def test_names_of_cython_count_and_words_in_texts_do_not():
    source = (
        "cdef object given  # what is given\n"
        "def f(list made, x):\n"
        '    """What is found."""\n'
        '    return made[x.place], "kept", given_rows\n'
    )
    assert role_words.cython_names(source) == ["given", "made", "made"]


def test_a_file_that_grows_is_named():
    before = {"a.py": [2, 1], "b.py": [0, 1]}
    now = {"a.py": [3, 1], "b.py": [0, 0], "c.py": [0, 2]}
    assert list(role_words.grown(now, before)) == [
        "a.py: 3 names tell a role, 2 before",
        "c.py: 2 functions tell a role, 0 before",
    ]
