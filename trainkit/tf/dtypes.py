"""`tk.dtypes`: the element types."""

from trainkit.core.dtypes import DType as DType
from trainkit.core.dtypes import as_dtype as as_dtype
from trainkit.core.dtypes import bfloat16 as bfloat16
from trainkit.core.dtypes import bool_ as bool
from trainkit.core.dtypes import complex64 as complex64
from trainkit.core.dtypes import complex128 as complex128
from trainkit.core.dtypes import float16 as float16
from trainkit.core.dtypes import float16 as half
from trainkit.core.dtypes import float32 as float32
from trainkit.core.dtypes import float64 as double
from trainkit.core.dtypes import float64 as float64
from trainkit.core.dtypes import int8 as int8
from trainkit.core.dtypes import int16 as int16
from trainkit.core.dtypes import int32 as int32
from trainkit.core.dtypes import int64 as int64
from trainkit.core.dtypes import result_type as result_type
from trainkit.core.dtypes import string as string
from trainkit.core.dtypes import uint8 as uint8
from trainkit.core.dtypes import uint16 as uint16
from trainkit.core.dtypes import uint32 as uint32
from trainkit.core.dtypes import uint64 as uint64
from trainkit.tf.arrays import cast as cast
from trainkit.tf.arrays import complex as complex
from trainkit.tf.arrays import saturate_cast as saturate_cast
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

_explain_unknown_names("dtypes", globals())
