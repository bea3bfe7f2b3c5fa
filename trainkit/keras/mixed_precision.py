"""`keras.mixed_precision`: arithmetic in a smaller float type than that of the weights."""

from trainkit.layers.base.dtype_policy import DTypePolicy as DTypePolicy
from trainkit.layers.base.dtype_policy import DTypePolicy as Policy
from trainkit.layers.base.dtype_policy import dtype_policy as dtype_policy
from trainkit.layers.base.dtype_policy import dtype_policy as global_policy
from trainkit.layers.base.dtype_policy import set_dtype_policy as set_dtype_policy
from trainkit.layers.base.dtype_policy import set_dtype_policy as set_global_policy
from trainkit.optimizers import LossScaleOptimizer as LossScaleOptimizer
