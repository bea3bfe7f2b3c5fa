"""Writes docs/public_scripts.md of results.json: python benchmarks/public_scripts/write_page.py."""

import collections
import json
import pathlib

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "public_scripts.md"
OUTCOMES = {
    "end": "ran to its end",
    "time": "ran without an error until the limit of 40 seconds",
    "missing": "a name of TensorFlow 2 is left out; the error says what to use",
    "gone": "a name that TensorFlow 2 and Keras 3 do not have either",
    "data": "data, pictures or weights of its own are not there",
    "package": "a package is not installed",
    "other": "the script itself fails, or made-up data do not suit it",
}
HEAD = """# Public scripts, run as they are

Written by `python benchmarks/public_scripts/write_page.py`; do not edit it. Scripts out of public
repositories were run by `python benchmarks/public_scripts/run_scripts.py`, which runs each by
`python -m trainkit run`, unmodified, in its own folder, without a network, on two busy cores: with
made-up data where `keras.datasets` would download, and with `fit` cut to one epoch of at most four
steps. An error is that of the last line.

"""


def page(rows):
    """The text: counts, then a row for each script."""
    counts = collections.Counter(row["outcome"] for row in rows)
    lines = ["| outcome | scripts |", "| --- | ---: |"]
    lines += [f"| {words} | {counts[key]} |" for key, words in OUTCOMES.items()]
    lines += [f"| all | {len(rows)} |"]
    for repository in sorted({row["repository"] for row in rows}):
        lines += ["", f"## {repository}", "", "| script | outcome | error |", "| --- | --- | --- |"]
        for row in rows:
            if row["repository"] == repository:
                error = row["error"].replace("|", "\\|").replace("`", "'")
                shown = f"`{error}`" if error else ""
                lines.append(f"| {row['script']} | {OUTCOMES[row['outcome']]} | {shown} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    PAGE.write_text(page(results), encoding="utf-8")
