"""What an editor does not know of the public names: results and arguments without a type.

python -m tests.editors.signatures            counts by door, compared with the kept ones
python -m tests.editors.signatures --list     each result and argument without a type
python -m tests.editors.signatures --write    keeps the counts, where none has grown
"""

from __future__ import annotations

import argparse
import io
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from mypy import build, config_parser, nodes, options, subtypes, types
from mypy.modulefinder import BuildSource

from tests.docs.test_reference import reference

ROOT = pathlib.Path(__file__).parents[2]
KEPT = pathlib.Path(__file__).with_name("signatures.json")
# What a user calls by another spelling than its name.
SPECIAL = ("__init__", "__call__", "__enter__", "__getitem__", "__iter__")
# What users write in classes of their own, with types of their own: a parameter with a type would
# refuse theirs, since a method takes whatever that of its base takes.
WRITTEN_BY_USERS = frozenset(
    """
    build call compute_loss compute_mask compute_metrics compute_output_shape compute_output_spec
    from_config get_config predict_step result test_step train_step update update_state
    """.split()
)


def public_names() -> list[str]:
    """Each callable of the doors, such as `tk.nn.relu`, under the first name that it has."""
    names: dict[int, str] = {}
    for door in reference.DOORS:
        for name in reference.public_names(door):
            value = getattr(reference.holder(door), name)
            if callable(value):
                names.setdefault(id(value), f"{door}.{name}")
    return list(names.values())


def read_types(page: str, cache: str | None = None) -> nodes.MypyFile:
    """The page as mypy reads it, with its settings for the package.

    Args:
        page: program text; what it assigns has types then.
        cache: mypy's folder, in place of that of the settings.
    """
    settings = options.Options()
    config = str(ROOT / "pyproject.toml")
    config_parser.parse_config_file(settings, lambda: None, config, io.StringIO(), sys.stderr)
    settings.cache_dir = cache or str(ROOT / ".mypy_cache")
    settings.fine_grained_incremental = False
    result = build.build([BuildSource("page.py", "page", page)], settings)
    if result.errors:
        raise ValueError("mypy: " + "; ".join(result.errors))
    return result.files["page"]


def is_unknown(kind: types.Type | None) -> bool:
    """Whether a type says nothing: none, `Any`, or a choice of which `Any` is a part."""
    proper = types.get_proper_type(kind)
    if isinstance(proper, types.UnionType):
        return any(map(is_unknown, proper.items))
    return proper is None or isinstance(proper, types.AnyType)


def gaps(kind: types.Type | None) -> Iterator[str]:
    """`return`, and the names of arguments, of which the type of a callable says nothing.

    Of overloads one that knows is enough, since the last may stand for any other argument.
    """
    proper = types.get_proper_type(kind)
    if isinstance(proper, types.Instance):
        proper = types.get_proper_type(subtypes.find_member("__call__", proper, proper))
    if isinstance(proper, types.Overloaded):
        yield from set.intersection(*(set(gaps(item)) for item in proper.items))
    elif isinstance(proper, types.CallableType):
        if is_unknown(proper.ret_type):
            yield "return"
        for name, argument in zip(proper.arg_names, proper.arg_types, strict=True):
            if name not in ("self", "cls") and is_unknown(argument):
                yield name or "an argument"
    else:
        yield "return"


def members(info: nodes.TypeInfo) -> Iterator[tuple[str, types.Type | None]]:
    """Each public method and property of a class, as `module.Class.name`, with its type.

    Those of bases are among them, under the name of the base.
    """
    for base in info.mro:
        if not base.fullname.startswith(("trainkit.", "page.")):
            continue
        for name, symbol in base.names.items():
            node = symbol.node
            is_method = isinstance(node, (nodes.FuncBase, nodes.Decorator))
            is_called = is_method and name not in WRITTEN_BY_USERS
            if is_called and (name[0] != "_" or name in SPECIAL):
                kind = node.type
                if kind is None:  # without any annotation
                    kind = types.AnyType(types.TypeOfAny.unannotated)
                yield f"{base.fullname}.{name}", kind


def unknown_parts(name: str, node: Any) -> Iterator[tuple[str, str]]:
    """What is not known of a public name: `(name or method, return or argument)`.

    Args:
        name: how users spell it.
        node: what the page has under a name that it was assigned to.
    """
    kind = getattr(node, "type", None)
    if isinstance(node, nodes.TypeAlias):
        kind = node.target
    proper = types.get_proper_type(kind)
    if isinstance(node, nodes.TypeAlias) and isinstance(proper, types.Instance):
        for member, member_kind in members(proper.type):
            yield from ((member, gap) for gap in gaps(member_kind))
    else:
        yield from ((name, gap) for gap in gaps(kind))


def find_gaps(names: list[str], cache: str | None = None) -> dict[str, list[tuple[str, str]]]:
    """By door, what is not known; a method that several classes inherit stands once."""
    lines = ["import trainkit as tk", *(f"v{n} = {name}" for n, name in enumerate(names))]
    page = read_types("\n".join(lines) + "\n", cache)
    table: dict[str, list[tuple[str, str]]] = {}
    seen: set[tuple[str, str]] = set()
    for number, name in enumerate(names):
        for part in unknown_parts(name, page.names[f"v{number}"].node):
            if part not in seen:
                seen.add(part)
                table.setdefault(name.rpartition(".")[0], []).append(part)
    return table


def counts(table: dict[str, list[tuple[str, str]]]) -> dict[str, list[int]]:
    """By door, how many results and how many arguments have no type."""
    return {
        door: [sum(gap == "return" for _, gap in parts), sum(gap != "return" for _, gap in parts)]
        for door, parts in sorted(table.items())
    }


def grown(now: dict[str, list[int]], before: dict[str, list[int]]) -> Iterator[str]:
    """A line for each count that is larger than before."""
    for door, numbers in now.items():
        kept_numbers = before.get(door, [0, 0])
        for what, number, kept in zip(("results", "arguments"), numbers, kept_numbers, strict=True):
            if number > kept:
                yield f"{door}: {number} {what} without a type, {kept} before"


def read_kept() -> dict[str, list[int]]:
    """The counts that may only fall."""
    table: dict[str, list[int]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return table


def main() -> int:
    """Print what has grown, or lists, or keep the counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--cache-dir")
    choices = parser.parse_args()
    table = find_gaps(public_names(), choices.cache_dir)
    if choices.list:
        for door, parts in table.items():
            print("\n".join([door, *(f"    {name}: {gap}" for name, gap in parts)]))
        return 0
    now = counts(table)
    more = list(grown(now, read_kept()))
    totals = [sum(column) for column in zip(*now.values(), strict=True)]
    print(f"{totals[0]} results and {totals[1]} arguments of public names have no type")
    print("\n".join(more), end="\n" if more else "")
    if choices.write and not more:
        KEPT.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    return bool(more)


if __name__ == "__main__":
    sys.exit(main())
