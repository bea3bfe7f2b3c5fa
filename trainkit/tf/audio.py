"""`tk.audio`: WAV files of 16-bit samples.

Source: Microsoft and IBM 1991, Multimedia Programming Interface and Data Specifications, RIFF WAVE.
"""

from __future__ import annotations

from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops.signal.wav import decode_wav as decode_wav
from trainkit.ops.signal.wav import encode_wav as encode_wav
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

_describe_arguments(globals(), "name: not kept.", package="trainkit")

_explain_unknown_names("audio", globals())
