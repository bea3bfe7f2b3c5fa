"""`python -m trainkit ckpt`: list, compare, verify, print and convert files of values."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

from trainkit.checkpoints.format.writer import CheckpointOptions
from trainkit.checkpoints.interop import tables
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import CheckpointError
from trainkit.core.files.printable import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and what they take."""
    actions = parser.add_subparsers(dest="action", required=True)

    def action(name: str, help_line: str, *paths: str) -> argparse.ArgumentParser:
        subparser = actions.add_parser(name, help=help_line, description=help_line)
        for path in paths:
            subparser.add_argument(path)
        subparser.add_argument("--json", action="store_true", help="print JSON")
        return subparser

    action("ls", "what a file holds, or which checkpoints a folder has", "path")
    action("diff", "how two files differ; status 1 when they do", "first", "second")
    action(
        "verify", "check every byte of a file or of a folder's files; status 1 on damage", "path"
    )
    action("cat", "print the values at a path inside a file", "path", "name")
    convert = action(
        "convert", "write a file in the format of the target's ending", "path", "target"
    )
    convert.add_argument("--compression", choices=["gzip"], help="for HDF5 targets")


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    status: int = globals()[f"_{args.action}"](args)
    return status


def _show(args: argparse.Namespace, data: Any, lines: list[str]) -> None:
    print(json.dumps(data, indent=1) if args.json else printable("\n".join(lines)))


# ------------------------------------------------------------------ ls


def _ls(args: argparse.Namespace) -> int:
    files = tables.files_in(args.path)
    if files == [args.path]:
        with tables.opened_table(args.path) as table:
            data = _describe(table)
        _show(args, data, _lines_of(data))
        return 0
    summaries = [_summary(path) for path in files]
    lines = [f"{item['path']}  {item['about']}" for item in summaries]
    _show(args, summaries, lines)
    return 0


def _describe(table: tables.Table) -> dict[str, Any]:
    arrays = [
        {"path": path, "shape": list(shape), "dtype": dtype, "bytes": _bytes(shape, dtype)}
        for path, (shape, dtype) in sorted(table.shapes().items())
    ]
    return {"file": table.name, "kind": table.kind, "manifest": table.manifest, "arrays": arrays}


def _bytes(shape: tuple[int, ...], dtype: str) -> int | None:
    """Bytes of the values in memory; None for texts."""
    return None if dtype == "str" else int(np.prod(shape, dtype=np.int64)) * as_dtype(dtype).size


def _lines_of(data: dict[str, Any]) -> list[str]:
    manifest = data["manifest"]
    about = [f"{key} {manifest[key]}" for key in ("step", "saved_at") if key in manifest]
    lines = [", ".join([f"{data['file']}: {data['kind']}", *about])]
    width = max((len(item["path"]) for item in data["arrays"]), default=0)
    for item in data["arrays"]:
        shape = str(tuple(item["shape"]))
        lines.append(f"  {item['path']:<{width}}  {shape:<16} {item['dtype']}")
    total = sum(item["bytes"] or 0 for item in data["arrays"])
    lines.append(f"  {len(data['arrays'])} arrays, {total:,} bytes")
    return lines


def _summary(path: str) -> dict[str, Any]:
    try:
        with tables.opened_table(path) as table:
            step, saved_at = table.manifest.get("step"), table.manifest.get("saved_at")
            about = f"{table.kind}, step {step}, {saved_at}, {len(table.shapes())} arrays"
            return {"path": path, "about": about, "step": step, "saved_at": saved_at}
    except CheckpointError as error:
        return {"path": path, "about": f"can't be used: {error}", "error": str(error)}


# ------------------------------------------------------------------ diff


def _diff(args: argparse.Namespace) -> int:
    with tables.opened_table(args.first) as one, tables.opened_table(args.second) as other:
        entries = tables.differences(one, other)
    lines = [_difference_line(item) for item in entries] or ["no difference"]
    _show(args, entries, lines)
    return 1 if entries else 0


def _difference_line(item: dict[str, Any]) -> str:
    if "first" in item:
        more = f": {_spec(item['first'])} and {_spec(item['second'])}"
    elif "largest" in item:
        more = f": {item['count']} differ, by {item['largest']:.6g} at most"
    else:
        more = ""
    return f"{item['path']}  {item['what']}{more}"


def _spec(pair: tuple[tuple[int, ...], str]) -> str:
    return f"{tuple(pair[0])} {pair[1]}"


# ------------------------------------------------------------------ verify, cat, convert


def _verify(args: argparse.Namespace) -> int:
    results = []
    for path in tables.files_in(args.path):
        try:
            with tables.opened_table(path) as table:
                table.verify()
                results.append({"path": path, "good": True, "arrays": len(table.shapes())})
        except CheckpointError as error:
            results.append({"path": path, "good": False, "error": str(error)})
    lines = [
        f"{r['path']}  good, {r['arrays']} arrays"
        if r["good"]
        else f"{r['path']}  BAD: {r['error']}"
        for r in results
    ]
    _show(args, results, lines)
    return 0 if all(r["good"] for r in results) else 1


def _cat(args: argparse.Namespace) -> int:
    with tables.opened_table(args.path) as table:
        value = tables.found_in(table, args.name)
    if args.json:
        plain = value.astype(np.float64) if value.dtype.name in ("bfloat16", "float16") else value
        if plain.dtype.kind == "c":
            plain = np.stack([plain.real, plain.imag], -1)
        data = {"shape": list(value.shape), "dtype": value.dtype.name, "values": plain.tolist()}
        print(json.dumps(data))
    else:
        with np.printoptions(threshold=sys.maxsize):
            print(np.array2string(value, separator=", "))
    return 0


def _convert(args: argparse.Namespace) -> int:
    options = CheckpointOptions(compression=args.compression)
    kind = tables.convert(args.path, args.target, options)
    _show(args, {"target": args.target, "kind": kind}, [f"{args.target}: {kind}"])
    return 0
