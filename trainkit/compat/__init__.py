"""Older interfaces, thin and built on the newer ones."""

from trainkit.compat import v1 as v1
from trainkit.compat import v2 as v2
from trainkit.compat.conversions import as_bytes as as_bytes
from trainkit.compat.conversions import as_str as as_str
from trainkit.compat.conversions import as_text as as_text
from trainkit.compat.conversions import dimension_value as dimension_value
