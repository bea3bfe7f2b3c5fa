"""`tk.compat.v1.gfile`: version 1's names of what is in `tk.io.gfile`."""

from trainkit.records.gfile import GFile as GFile
from trainkit.records.gfile import copy as Copy
from trainkit.records.gfile import exists as Exists
from trainkit.records.gfile import glob as Glob
from trainkit.records.gfile import isdir as IsDirectory
from trainkit.records.gfile import listdir as ListDirectory
from trainkit.records.gfile import makedirs as MakeDirs
from trainkit.records.gfile import mkdir as MkDir
from trainkit.records.gfile import remove as Remove
from trainkit.records.gfile import rename as Rename
from trainkit.records.gfile import rmtree as DeleteRecursively
from trainkit.records.gfile import stat as Stat
from trainkit.records.gfile import walk as Walk

Open = GFile
FastGFile = GFile
__all__ = [
    "Copy", "DeleteRecursively", "Exists", "FastGFile", "GFile", "Glob", "IsDirectory",
    "ListDirectory", "MakeDirs", "MkDir", "Open", "Remove", "Rename", "Stat", "Walk",
]  # fmt: skip
