"""Where two runs took place, side by side: what may give other bits to the same steps."""

from __future__ import annotations

import re
from typing import Any

_FIRST = {"trainkit": "trainkit", "numpy": "NumPy", "cupy": "CuPy"}
"""Packages that compute, with their titles; others come behind what is likelier."""
_VERSION = re.compile(r"^\S+ +[0-9][^ ]*")


def surroundings(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """How the headers of two runs differ, a sentence each; what is likeliest to matter first.

    >>> one, other = ({"versions": {"numpy": version}, "threads": 2} for version in ("2.1", "2.4"))
    >>> surroundings(one, other)
    ['another version of NumPy: 2.1 in the first run, 2.4 in the other']
    """
    one, other = _facts(first), _facts(second)
    return [
        f"{title}: {_short(one.get(title))} in the first run, {_short(other.get(title))} in the "
        "other"
        for title in dict.fromkeys([*one, *other])
        if one.get(title) != other.get(title)
    ]


def _facts(header: dict[str, Any]) -> dict[str, Any]:
    """What a header says, by what it is called where another one says something else."""
    versions, blas, variables = (_table(header, name) for name in ("versions", "blas", "variables"))
    names = [*_FIRST, *sorted(versions.keys() - _FIRST.keys())]
    named = {f"another version of {_FIRST.get(name, name)}": versions.get(name) for name in names}
    likely = list(named)[: len(_FIRST)]
    return {
        **{title: named[title] for title in likely},
        "another device": header.get("device"),
        "another processor": header.get("processor"),
        "another BLAS": _version(blas.get("config")),
        "another kernel of the BLAS": blas.get("core"),
        "another number of threads of the BLAS": blas.get("threads"),
        "another number of threads": header.get("threads"),
        "NumPy uses other parts of the processor": header.get("numpy_simd"),
        "kernels are compiled otherwise": header.get("kernels"),
        **{f"another {name} in the environment": value for name, value in variables.items()},
        **named,
        "another system": header.get("platform"),
    }


def _table(header: dict[str, Any], name: str) -> dict[str, Any]:
    value = header.get(name)
    return value if isinstance(value, dict) else {}


def _version(config: Any) -> Any:
    """What a BLAS calls itself, without its kernel and threads, which are compared by themselves.

    >>> _version("OpenBLAS 0.3.27  USE64BITINT DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64")
    'OpenBLAS 0.3.27'
    """
    match = _VERSION.match(config) if isinstance(config, str) else None
    return config if match is None else match[0]


def _short(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
