"""References are counted in one module alone."""

import pathlib
import re

PACKAGE = pathlib.Path(__file__).parents[2] / "trainkit"
WORDS = re.compile(r"getrefcount|Py_REFCNT|ob_refcnt|get_referrers")
ALLOWED = {
    "core/dispatch/ownership.py",
    "core/dispatch/_native.pyx",  # declares what native_code/ownership.pxi asks
    "core/dispatch/native_code/ownership.pxi",
}


def test_only_ownership_counts_references():
    files = [p for kind in ("py", "pyx", "pxi") for p in PACKAGE.rglob(f"*.{kind}")]
    counting = {p.relative_to(PACKAGE).as_posix() for p in files if WORDS.search(p.read_text())}
    assert counting <= ALLOWED, "ask trainkit.core.dispatch.ownership who holds an array"
    assert "core/dispatch/ownership.py" in counting
