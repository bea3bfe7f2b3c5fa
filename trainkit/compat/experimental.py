"""`tk.experimental`: values that may be there or not."""

from __future__ import annotations

from trainkit.data.optional import Optional as Optional
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

_explain_unknown_names("experimental", globals())
