"""What the tool that damages files knows of each kind of file."""

import trainkit as tk
from tests.checkpoints.fuzzing import mutated

ALLOWED = 64 << 20


class Format:
    """A kind of file: how to make one, to read it, and to damage it.

    Attributes:
        ending: of the file's name.
        own: the errors that its reader may raise.
        allowed: bytes that it may take besides four times the file.
    """

    ending = ""
    own: tuple[type[Exception], ...] = (tk.errors.OpError,)
    allowed = ALLOWED

    def make(self, path):
        """Write a valid file."""
        raise NotImplementedError

    def read(self, path):
        """Read one, and use it as far as that goes without knowing what is in it."""
        raise NotImplementedError

    def damage(self, valid, path, random_):
        """Write a damaged copy of the bytes `valid`."""
        path.write_bytes(mutated(valid, random_)[0])
