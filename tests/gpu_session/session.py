"""What the commands of a session share: a device or its substitute, and a table of checks."""

import argparse
import contextlib
import json
import sys
import time
import traceback

from tests.gpu_session import summary

DEVICES = ("gpu", "stand-in", "null-driver")


def parser(text):
    """The options that all commands have."""
    made = argparse.ArgumentParser(description=text.splitlines()[0])
    made.add_argument("--on", default="gpu", choices=DEVICES, help="what stands for the GPU")
    made.add_argument("--small", action="store_true", help="few steps")
    made.add_argument("--name", help="of the file of results")
    made.add_argument("--only", metavar="TEXT", help="checks whose name holds this")
    return made


@contextlib.contextmanager
def device(name):
    """A GPU is there and the default; raises `SystemExit` where none is."""
    if name == "null-driver":
        from tests.null_driver.installing import install

        install()
    if name == "stand-in":
        from tests import stand_in

        with stand_in.in_place():
            yield
        return
    from trainkit.core import devices

    if not devices.gpu_count():
        raise SystemExit(devices.missing_message("/gpu:0"))
    yield


def run(name, checks, options):
    """Run checks one after the other, each told in a line; gives how many failed.

    Args:
        name: of the file of results, in `$OUT`.
        checks: functions by name, of the options; each gives a text, or a pair of whether it is as
            expected and a text.
        options: of the command line.
    """
    rows = []
    for title, check in checks.items():
        if options.only and options.only not in title:
            continue
        start = time.perf_counter()
        try:
            found = check(options)
            good, text = found if isinstance(found, tuple) else (True, found)
        except Exception as error:
            good, text = False, f"{type(error).__name__}: {error}"
            traceback.print_exc()
        seconds = time.perf_counter() - start
        mark = "ok  " if good else "LOOK"
        print(f"{mark} {title:42} {seconds:7.1f} s  {text}", flush=True)
        rows.append({"check": title, "good": good, "seconds": seconds, "text": str(text)})
        _write(name, rows, len(checks))
    wrong = sum(not row["good"] for row in rows)
    print(f"{len(rows)} checks, {wrong} to look at", flush=True)
    return wrong


def _write(name, rows, count):
    """What is known so far, for a run that may be cut off."""
    out = summary.folder()
    if out is None:
        return
    (out / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    wrong = [row["check"] for row in rows if not row["good"]]
    text = f"{len(rows) - len(wrong)} ok, {len(wrong)} to look at, of {count} checks"
    seconds = sum(row["seconds"] for row in rows)
    summary.set_line(name, f"{text} in {seconds:.0f} s" + "".join(f"; LOOK {w}" for w in wrong))


def device_bytes():
    """What the device has given out to all of the process, or `None` where that can't be asked."""
    import cupy

    if not hasattr(cupy.cuda.runtime, "memGetInfo"):
        return None
    free, whole = cupy.cuda.runtime.memGetInfo()
    return whole - free


def main(name, text, checks):
    """The command `name`."""
    options = parser(text).parse_args()
    with device(options.on):
        sys.exit(1 if run(options.name or name, checks, options) else 0)
