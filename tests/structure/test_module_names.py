"""A module that a text names is there: in strings that become code, in messages and docstrings."""

import re

from tests.structure.imports import files, module_of

STAR = re.compile(r"^from (trainkit[\w.]*) import \*", re.MULTILINE)
NAMED = re.compile(r"\btrainkit(?:\.[A-Za-z_]\w*)+")
BUILT = {"trainkit.core.dispatch._native"}  # where there is a compiler


def with_lists(sources: dict[str, str], module: str) -> str:
    """The text of a module, and those of the lists of names that it takes over."""
    text = sources[module]
    return "\n".join([text, *(sources[name] for name in STAR.findall(text))])


def unknown_names(text: str, sources: dict[str, str]) -> list[str]:
    """The dotted names of trainkit in a text that name no module, and nothing in a module.

    Args:
        text: of a file.
        sources: the text of each module by its name.
    """
    found = []
    for name in NAMED.findall(text):
        module = module_of(name, set(sources)) or ""
        member = name[len(module) + 1 :].partition(".")[0]
        if (
            member
            and not member.startswith("__")
            and not re.search(rf"\b{member}\b", with_lists(sources, module))
            and name not in BUILT
        ):
            found.append(name)
    return found


def test_modules_that_texts_name_are_there():
    sources = {name: path.read_text(encoding="utf-8") for name, path in files().items()}
    found = [
        f"{name} speaks of {unknown}"
        for name, text in sources.items()
        for unknown in unknown_names(text, sources)
    ]
    assert not found, "\n".join(found)


def test_a_name_of_no_module_is_found():
    sources = {"trainkit": "", "trainkit.core": "", "trainkit.core.shapes": "class Spec: ..."}
    text = "from trainkit.core.old import f; trainkit.core.shapes.Spec; trainkit.core.shapes.gone"
    assert unknown_names(text, sources) == ["trainkit.core.old", "trainkit.core.shapes.gone"]
