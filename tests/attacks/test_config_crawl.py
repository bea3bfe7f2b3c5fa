"""No argument of a class that a config may name reaches out of the config."""

import os
import subprocess
import sys

ENVIRONMENT = {**os.environ, "TRAINKIT_JIT": "0"}


def crawl(*arguments):
    command = [sys.executable, "-m", "tests.attacks.config_crawl", *arguments]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_no_class_opens_what_a_config_names():
    *touched, count = crawl()
    assert not touched, (
        "a config that is read in safe mode would open files of whoever reads it; ask "
        "config_values.check_outside_file before a path is opened"
    )
    assert int(count.split()[0]) > 250


def test_a_new_class_with_an_unguarded_path_is_found():
    touched = crawl("example")
    assert any(line.startswith("layers.Unguarded: table -> open ") for line in touched)
