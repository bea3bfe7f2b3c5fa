"""`tk.audio`: WAV files of 16-bit samples.

Source: Microsoft and IBM 1991, Multimedia Programming Interface and Data Specifications, RIFF WAVE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit.ops.signal.wav import decode_wav as decode_wav
from trainkit.ops.signal.wav import encode_wav as encode_wav
from trainkit.tf.left_out import not_here as _not_here

if not TYPE_CHECKING:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        raise _not_here("audio", name, globals())
