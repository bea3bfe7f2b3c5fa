"""`python -m trainkit run`: a script written for TensorFlow or Keras, as it is; or a saved graph.

python -m trainkit run script.py --epochs 3
python -m trainkit run model.h5 --input x.npy --output y.npy
python -m trainkit run -m package.module
python -m trainkit run --report missing.json script.py
"""

from __future__ import annotations

import argparse
import builtins
import importlib
import io
import json
import os
import runpy
import sys
import traceback
from types import ModuleType, TracebackType

from trainkit.aliases import install_as, missing
from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.cli.model_files import is_model_file

HELP = "run a script for TensorFlow or Keras with trainkit in their place"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.usage = (
        "trainkit run [--report FILE] (script.py | -m module) [arguments ...]\n"
        "       trainkit run model.h5 [--input [NAME=]FILE ...] [--output FILE] [--signature NAME]"
    )
    parser.add_argument(
        "--report", metavar="FILE", help="write what was asked for in vain, with counts, as JSON"
    )
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, help="a module in place of a script"
    )
    parser.add_argument(
        "script", nargs=argparse.REMAINDER, help="a file, and the arguments that it is given"
    )


def run(args: argparse.Namespace) -> int:
    """Run it; the exit status is the script's."""
    words = args.module or args.script
    if not words:
        print("trainkit run: name a script, or a module after -m", file=sys.stderr)
        return 2
    if not args.module and is_model_file(words[0]):
        if args.report:
            raise ValueError("--report is for scripts; a saved graph asks for nothing in vain")
        # imported when it is needed: a script finds trainkit as if it were the first to import it
        status: int = importlib.import_module("trainkit.cli.run_model").run_model(words)
        return status
    install_as()
    try:
        return _run_module(words) if args.module else _run_script(words)
    finally:
        sys.stdout.flush()
        if missing.COUNTS:
            print(f"trainkit run: {missing.sentence()}", file=sys.stderr)
        if args.report:
            _write_report(args.report, words[0])


def _run_script(words: list[str]) -> int:
    """What `python script.py` does: the script is `__main__`, its folder the first of the path."""
    path = words[0]
    with io.open_code(os.path.abspath(path)) as file:
        source = file.read()
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __builtins__=builtins, __cached__=None)
    sys.argv[:] = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules["__main__"] = main
    try:
        exec(compile(source, path, "exec"), vars(main))
    except Exception as error:
        return _print_from(error, path)
    return 0


def _run_module(words: list[str]) -> int:
    sys.argv[:] = words
    sys.path.insert(0, os.getcwd())
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except Exception as error:
        return _print_from(error, None)
    return 0


def _print_from(error: Exception, path: str | None) -> int:
    """Print a traceback from the script's first frame on, as Python alone would."""
    frames: TracebackType | None = error.__traceback__
    files = (__file__, runpy.__file__, "<frozen runpy>")
    while frames is not None and frames.tb_frame.f_code.co_filename in files:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)
    return 1


def _write_report(path: str, script: str) -> None:
    rows = {"script": script, "missing": dict(missing.COUNTS.most_common())}
    with AtomicFile(path) as file:
        os.write(file.fd, json.dumps(rows, indent=2).encode() + b"\n")
        file.commit()
