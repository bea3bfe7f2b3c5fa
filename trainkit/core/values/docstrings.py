"""Docstrings of which parts are written once for several objects."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import CodeType
from typing import Any

_SECTION = re.compile(r"\n( *)(?:Args|Attributes|Returns|Yields|Raises|Examples?|Usage):\n")


def longer_docstring(base: type) -> Callable[[str], str]:
    """What puts a text behind the docstring of `base`, both without their indentation."""
    start = inspect.cleandoc(base.__doc__ or "")
    return lambda text: f"{start}\n\n{inspect.cleandoc(text)}\n"


def same_but_summary(base: type, summary: str) -> str:
    """The docstring of `base` with another first line."""
    _, *others = inspect.cleandoc(base.__doc__ or "").split("\n")
    return "\n".join([summary, *others, ""])


def describe_arguments(members: dict[str, Any], table: str, package: str | None = None) -> None:
    """Describe arguments that mean the same in many functions and classes.

    Each public one that takes an argument of the table, and does not describe it itself, gets the
    entry in its section `Args:`, in the order of the signature. One whose docstring has no
    sections stays as it is.

    Args:
        members: `globals()` of a module or a package, when all of them are defined.
        table: entries as in a docstring, `name: what it is.`, with further lines indented.
        package: where those are defined that are described; by default the module or the package
            itself.
    """
    entry_of = _by_name(re.split(r"\n(?=\S)", inspect.cleandoc(table)))
    home = package or members["__name__"]
    for name, member in members.items():
        module = getattr(member, "__module__", None) or ""
        if name[0] == "_" or not (module == home or module.startswith(f"{home}.")):
            continue
        is_class = isinstance(member, type)
        names = _arguments(member.__init__ if is_class else member)
        if entry_of.keys().isdisjoint(names):
            continue
        doc = vars(member)["__doc__"] if is_class else member.__doc__
        section = _SECTION.search(doc or "")
        if section:
            separator = f"\n{section[1]}    "
            shared = {n: entry_of[n].replace("\n", separator) for n in names if n in entry_of}
            new = {n: entry for n, entry in shared.items() if f"{separator}{n}:" not in doc}
            if new:
                member.__doc__ = _merged_section(doc, section, names, new)


def _by_name(entries: list[str]) -> dict[str, str]:
    """Entries by the names before their colons: one or, with commas, more; without stars."""
    return {
        name.lstrip("*"): entry for entry in entries for name in entry.partition(":")[0].split(", ")
    }


def _arguments(function: Any) -> tuple[str, ...]:
    """The names of all arguments, in order; none where no code says them."""
    code: CodeType | None = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ()
    by_position, by_keyword = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    stars = bool(code.co_flags & inspect.CO_VARARGS)
    end = by_keyword + stars + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    variadic, keywords = names[by_keyword : by_keyword + stars], names[by_keyword + stars : end]
    return names[:by_position] + variadic + names[by_position:by_keyword] + keywords


def _merged_section(
    doc: str, section: re.Match[str], names: tuple[str, ...], new: dict[str, str]
) -> str:
    """The docstring, of which `section` is one, with further entries in the order of `names`."""
    heading, separator = f"\n{section[1]}Args:", f"\n{section[1]}    "
    before, has_section, after = doc.partition(f"{heading}\n")
    present: list[str] = []
    if has_section:
        section_text, _, after = after.partition("\n\n")
        present = re.split(rf"{separator}(?=\S)", f"\n{section_text.rstrip()}")[1:]
    else:
        before, after = doc[: section.start()], doc[section.start() + 1 :]
    entry_of = new | _by_name(present)
    entries = dict.fromkeys([entry_of[n] for n in names if n in entry_of] + present)
    text = "".join([before, heading, *(separator + entry for entry in entries)])
    return f"{text}\n\n{after}" if after.strip() else f"{text}\n{section[1]}"
