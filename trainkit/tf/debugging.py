"""`tk.debugging`: assertions on values, ranks, shapes and dtypes, eagerly and in graphs.

Assertions on values become nodes of a graph being traced and are checked each time it runs; ranks,
shapes and dtypes are checked at once.
"""

from __future__ import annotations

from trainkit.core.process.traceback_filter import (
    disable_traceback_filtering as disable_traceback_filtering,
)
from trainkit.core.process.traceback_filter import (
    enable_traceback_filtering as enable_traceback_filtering,
)
from trainkit.core.process.traceback_filter import (
    is_traceback_filtering_enabled as is_traceback_filtering_enabled,
)
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops.core.assertions import Assert as Assert
from trainkit.ops.core.assertions import assert_all_finite as assert_all_finite
from trainkit.ops.core.assertions import assert_equal as assert_equal
from trainkit.ops.core.assertions import assert_greater as assert_greater
from trainkit.ops.core.assertions import assert_greater_equal as assert_greater_equal
from trainkit.ops.core.assertions import assert_integer as assert_integer
from trainkit.ops.core.assertions import assert_less as assert_less
from trainkit.ops.core.assertions import assert_less_equal as assert_less_equal
from trainkit.ops.core.assertions import assert_near as assert_near
from trainkit.ops.core.assertions import assert_negative as assert_negative
from trainkit.ops.core.assertions import assert_non_negative as assert_non_negative
from trainkit.ops.core.assertions import assert_non_positive as assert_non_positive
from trainkit.ops.core.assertions import assert_none_equal as assert_none_equal
from trainkit.ops.core.assertions import assert_positive as assert_positive
from trainkit.ops.core.assertions import assert_proper_iterable as assert_proper_iterable
from trainkit.ops.core.assertions import assert_rank as assert_rank
from trainkit.ops.core.assertions import assert_rank_at_least as assert_rank_at_least
from trainkit.ops.core.assertions import assert_rank_in as assert_rank_in
from trainkit.ops.core.assertions import assert_same_float_dtype as assert_same_float_dtype
from trainkit.ops.core.assertions import assert_scalar as assert_scalar
from trainkit.ops.core.assertions import assert_shapes as assert_shapes
from trainkit.ops.core.assertions import assert_type as assert_type
from trainkit.ops.core.assertions import check_numerics as check_numerics
from trainkit.ops.core.assertions import is_numeric_tensor as is_numeric_tensor
from trainkit.profiler.device_log import get_log_device_placement as get_log_device_placement
from trainkit.profiler.device_log import set_log_device_placement as set_log_device_placement
from trainkit.profiler.numerics import disable_check_numerics as disable_check_numerics
from trainkit.profiler.numerics import enable_check_numerics as enable_check_numerics
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

_describe_arguments(globals(), "name: not kept.", package="trainkit")

_explain_unknown_names("debugging", globals())
