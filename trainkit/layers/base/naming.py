"""Names of layers that were given none: `dense`, `dense_1`, `dense_2` ..."""

from trainkit.core.names import name_for as name_for
from trainkit.core.names import reset_names as reset_names
from trainkit.core.names import unique_name as unique_name
