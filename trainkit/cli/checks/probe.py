"""Looking at a library in a process of its own, which may crash or hang there."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

from trainkit.core.process.child_python import child_command

TIMEOUT_SECONDS = 60.0

_FRAME = """
import json, sys
facts = {{}}
def note(name, find):
    try:
        facts[name] = find()
    except BaseException as error:
        facts[name] = None
        facts.setdefault("errors", {{}})[name] = f"{{type(error).__name__}}: {{error}}"
{code}
sys.stdout.write("\\n" + json.dumps(facts))
"""


def probed(code: str, timeout_seconds: float = TIMEOUT_SECONDS) -> dict[str, Any]:
    """Run Python text in a new process.

    Args:
        code: fills the dict `facts`; `note(name, function)` stores what the function returns, or
            None and its error under `facts["errors"][name]`.
        timeout_seconds: after so long the process is ended.

    Returns:
        `facts`, or `{"failure": text}` where the process did not come to its end.
    """
    command = child_command(_FRAME.format(code=code), options=("-W", "ignore"))
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_seconds, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"does not answer within {timeout_seconds:g} seconds"}
    except OSError as error:
        return {"failure": f"no process can be started: {error}"}
    return _facts(process)


def _facts(process: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    if process.returncode < 0:
        number = -process.returncode
        signal_numbers = {s.value for s in signal.Signals}
        name = signal.Signals(number).name if number in signal_numbers else f"signal {number}"
        return {"failure": f"ends the process with {name}"}
    try:
        facts: dict[str, Any] = json.loads(process.stdout.rpartition("\n")[2])
    except ValueError:
        lines = process.stderr.strip().splitlines()
        return {
            "failure": lines[-1] if lines else f"ends the process with status {process.returncode}"
        }
    return facts


def failure_of(facts: dict[str, Any], name: str) -> str:
    """Why `name` could not be noted; empty where it could."""
    if "failure" in facts:
        return str(facts["failure"])
    return str(facts.get("errors", {}).get(name, ""))
