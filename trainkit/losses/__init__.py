"""Losses: classes, functions, and `get`."""

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.losses.crossentropy import BinaryCrossentropy as BinaryCrossentropy
from trainkit.losses.crossentropy import BinaryFocalCrossentropy as BinaryFocalCrossentropy
from trainkit.losses.crossentropy import CategoricalCrossentropy as CategoricalCrossentropy
from trainkit.losses.crossentropy import (
    CategoricalFocalCrossentropy as CategoricalFocalCrossentropy,
)
from trainkit.losses.crossentropy import (
    CategoricalGeneralizedCrossEntropy as CategoricalGeneralizedCrossEntropy,
)
from trainkit.losses.crossentropy import (
    SparseCategoricalCrossentropy as SparseCategoricalCrossentropy,
)
from trainkit.losses.crossentropy import binary_crossentropy as binary_crossentropy
from trainkit.losses.crossentropy import binary_focal_crossentropy as binary_focal_crossentropy
from trainkit.losses.crossentropy import categorical_crossentropy as categorical_crossentropy
from trainkit.losses.crossentropy import (
    categorical_focal_crossentropy as categorical_focal_crossentropy,
)
from trainkit.losses.crossentropy import (
    categorical_generalized_cross_entropy as categorical_generalized_cross_entropy,
)
from trainkit.losses.crossentropy import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)
from trainkit.losses.divergence import KLDivergence as KLDivergence
from trainkit.losses.divergence import kl_divergence as kl_divergence
from trainkit.losses.loss import Loss as Loss
from trainkit.losses.loss import LossFunctionWrapper as LossFunctionWrapper
from trainkit.losses.loss import Reduction as Reduction
from trainkit.losses.margins import CategoricalHinge as CategoricalHinge
from trainkit.losses.margins import Circle as Circle
from trainkit.losses.margins import Hinge as Hinge
from trainkit.losses.margins import SquaredHinge as SquaredHinge
from trainkit.losses.margins import categorical_hinge as categorical_hinge
from trainkit.losses.margins import circle as circle
from trainkit.losses.margins import hinge as hinge
from trainkit.losses.margins import squared_hinge as squared_hinge
from trainkit.losses.overlap import CTC as CTC
from trainkit.losses.overlap import Dice as Dice
from trainkit.losses.overlap import Tversky as Tversky
from trainkit.losses.overlap import ctc as ctc
from trainkit.losses.overlap import dice as dice
from trainkit.losses.overlap import tversky as tversky
from trainkit.losses.registry import deserialize as deserialize
from trainkit.losses.registry import get as get
from trainkit.losses.registry import serialize as serialize
from trainkit.losses.regression import CosineSimilarity as CosineSimilarity
from trainkit.losses.regression import Huber as Huber
from trainkit.losses.regression import LogCosh as LogCosh
from trainkit.losses.regression import MeanAbsoluteError as MeanAbsoluteError
from trainkit.losses.regression import MeanAbsolutePercentageError as MeanAbsolutePercentageError
from trainkit.losses.regression import MeanSquaredError as MeanSquaredError
from trainkit.losses.regression import MeanSquaredLogarithmicError as MeanSquaredLogarithmicError
from trainkit.losses.regression import Poisson as Poisson
from trainkit.losses.regression import cosine_similarity as cosine_similarity
from trainkit.losses.regression import huber as huber
from trainkit.losses.regression import log_cosh as log_cosh
from trainkit.losses.regression import mean_absolute_error as mean_absolute_error
from trainkit.losses.regression import (
    mean_absolute_percentage_error as mean_absolute_percentage_error,
)
from trainkit.losses.regression import mean_squared_error as mean_squared_error
from trainkit.losses.regression import (
    mean_squared_logarithmic_error as mean_squared_logarithmic_error,
)
from trainkit.losses.regression import poisson as poisson

# Short names, which TensorFlow's door of Keras has.
KLD = kld = kullback_leibler_divergence = kl_divergence
MAE = mae = mean_absolute_error
MAPE = mape = mean_absolute_percentage_error
MSE = mse = mean_squared_error
MSLE = msle = mean_squared_logarithmic_error
BCE = bce = binary_crossentropy
logcosh = log_cosh


_describe_arguments(
    globals(),
    """
    reduction: `"sum_over_batch_size"`, `"sum"`, `"mean"`, `"mean_with_sample_weight"`,
        `"none"` or None.
    name: what it is called.
    dtype: element type or policy of the computation; by default the default float.
    """,
)

_explain_unknown_names(globals())
