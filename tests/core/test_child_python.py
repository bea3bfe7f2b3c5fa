"""A process that this one starts imports nothing from the folder that it stands in."""

import subprocess

from trainkit.core.process.child_python import child_command


def test_modules_of_the_working_folder_are_not_imported(tmp_path):
    for name in ("json", "trainkit"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger ran')")
    command = child_command("import json, trainkit.core\nprint(sys.argv[1:])", "a", options=("-B",))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("['a']\n", "")
