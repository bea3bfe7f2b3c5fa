"""Runs public scripts and writes what became of them into results.json.

python benchmarks/public_scripts/run_scripts.py FOLDER [--only data,missing] [--limit 40]

FOLDER holds a checkout of each repository, as `owner+name`. The scripts are those of results.json.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

# Names that neither TensorFlow 2 nor Keras 3 has.
GONE = re.compile(
    r"module '(tensorflow|keras|keras_core)[\w.]*' has no attribute '(Session|placeholder|"
    r"set_random_seed|global_variables_initializer|get_session|tensorflow_backend|Variable|random|"
    r"numerical_utils|layers|contrib|get_variable|app|flags)'"
)
# Names that TensorFlow 2 or Keras 3 has.
MISSING = re.compile(
    r"(module '(tensorflow|keras|keras_core)[\w.]*' has no attribute|No module named '(tensorflow|"
    r"keras|keras_core)[.']|cannot import name .* from '(tensorflow|keras|keras_core))"
)
DATA = re.compile(
    r"FileNotFoundError|\bNotFoundError|URLError|OSError: the weights|the data has no batches|"
    r"'a' cannot be empty|not found\.$"
)
PACKAGE = re.compile(r"ModuleNotFoundError|ImportError")
KINDS = {"gone": GONE, "missing": MISSING, "package": PACKAGE, "data": DATA}


def outcome_of(status, text):
    """The kind of an end and the line that says why."""
    if status is None:
        return "time", ""
    if status == 0:
        return "end", ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("trainkit run: asked for")]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Iteration|Exit)\b", line)]
    error = (errors or lines or ["no word"])[-1]
    kind = next((kind for kind, words in KINDS.items() if words.search(error)), "other")
    return kind, re.sub(r"(?<![\w.:/])/\S*/(?=[\w+-]+/)", "", error)[:160]


def run(script, limit):
    """The exit status, `None` after `limit` seconds, and what was printed."""
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / script.parent.name
        shutil.copytree(script.parent, folder, symlinks=True)
        env = os.environ | {"MPLBACKEND": "Agg", "HOME": work, "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, str((HERE / "stand_ins.py").resolve()), script.name]
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            text, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            return None, process.communicate()[0]
        return process.returncode, text


def main():
    """Run what is asked for and write the table anew."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", help="kinds of earlier outcomes, such as data,missing")
    parser.add_argument("--limit", type=float, default=40.0, help="seconds for each script")
    parser.add_argument("--logs", type=pathlib.Path, help="a folder for what scripts print")
    args = parser.parse_args()
    results = HERE / "results.json"
    rows = json.loads(results.read_text(encoding="utf-8"))
    for row in rows:
        if args.only and row["outcome"] not in args.only.split(","):
            continue
        script = args.folder / row["repository"].replace("/", "+") / row["script"]
        if not script.is_file():
            sys.exit(f"{script} is not there: put a checkout of {row['repository']} beside")
        status, text = run(script, args.limit)
        row["outcome"], row["error"] = outcome_of(status, text)
        if args.logs:
            args.logs.mkdir(parents=True, exist_ok=True)
            (args.logs / row["script"].replace("/", "+")).write_text(text, encoding="utf-8")
        print(row["outcome"], row["script"], row["error"], flush=True)
        results.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
