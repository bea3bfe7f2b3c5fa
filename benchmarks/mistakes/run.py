"""What libraries say to sixty mistakes.

python benchmarks/mistakes/run.py trainkit         # each with the Python that has the library
python benchmarks/mistakes/run.py keras
python benchmarks/mistakes/run.py torch
python benchmarks/mistakes/run.py --write-page     # docs/messages.md of what they wrote
"""

import argparse
import importlib
import json
import pathlib
import re
import sys
import warnings

HERE = pathlib.Path(__file__).parent
WORDS = HERE / "words.json"
PAGE = HERE.parents[1] / "docs" / "messages.md"
LIBRARIES = {"trainkit": "trainkit", "keras": "Keras", "torch": "PyTorch"}
SILENT = "*(nothing)*"
LONGEST = {"trainkit": 420, "keras": 200, "torch": 200}

HEAD = """# What trainkit, Keras and PyTorch say to sixty mistakes

Written by `python benchmarks/mistakes/run.py --write-page` from what each library said,
{versions}; do not edit it. Theirs are cut after 200 characters. *(nothing)* means that the program
ran to its end without a word, `-` that the mistake can't be written there.
[Common mistakes](common_mistakes.md) says what to do about each of ours.
"""


def words_of(function, *args):
    """What is said: the error, or else the warnings; in one line."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            function(*args)
        except Exception as error:
            return one_line(f"{type(error).__name__}: {error}")
    own = [w for w in heard if not issubclass(w.category, DeprecationWarning | FutureWarning)]
    return one_line("; ".join(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in own)))


def one_line(text):
    """The text without line ends, runs of spaces, and the colours of a terminal."""
    return " ".join(re.sub(r"\x1b\[\d*m", "", text).split())


def run(library):
    """The words by mistake, and the version."""
    sys.path.insert(0, str(HERE))
    if library == "torch":
        cases = importlib.import_module("torch_cases").CASES
        return {name: words_of(function) for name, function in cases.items()}
    cases = importlib.import_module("keras_cases").CASES
    k = importlib.import_module({"trainkit": "trainkit.keras"}.get(library, library))
    return {name: words_of(function, k) for name, (_, function) in cases.items()}


def store(library):
    """Keep the words of one library beside those of the others."""
    rows = json.loads(WORDS.read_text()) if WORDS.exists() else {}
    version = importlib.import_module(library).__version__
    rows[library] = {"version": version, "words": run(library)}
    WORDS.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def cell(words, longest):
    """Words as a cell of a table."""
    if words is None:
        return "-"
    if not words:
        return SILENT
    short = words if len(words) <= longest else words[: longest - 1].rstrip() + "…"
    return "`" + short.replace("`", "'").replace("|", "\\|") + "`"


def page(rows, families):
    """The text of docs/messages.md."""
    versions = ", ".join(f"{LIBRARIES[n]} {rows[n]['version']}" for n in LIBRARIES)
    lines = [HEAD.format(versions=versions)]
    for family in dict.fromkeys(families.values()):
        lines += [
            f"## {family}",
            "",
            "| mistake | trainkit | Keras | PyTorch |",
            "| --- " * 4 + "|",
        ]
        for name in (n for n, its in families.items() if its == family):
            cells = [cell(rows[n]["words"].get(name), LONGEST[n]) for n in LIBRARIES]
            lines.append(" | ".join([f"| {name}", *cells]) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    """Run one library, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", nargs="?", choices=LIBRARIES)
    parser.add_argument("--write-page", action="store_true")
    args = parser.parse_args()
    if args.library:
        store(args.library)
    if args.write_page:
        sys.path.insert(0, str(HERE))
        cases = importlib.import_module("keras_cases").CASES
        families = {name: family for name, (family, _) in cases.items()}
        PAGE.write_text(page(json.loads(WORDS.read_text()), families), encoding="utf-8")


if __name__ == "__main__":
    main()
