"""Metrics: classes, functions of one value per sample, and `get`."""

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.losses.crossentropy import binary_crossentropy as binary_crossentropy
from trainkit.losses.crossentropy import binary_focal_crossentropy as binary_focal_crossentropy
from trainkit.losses.crossentropy import categorical_crossentropy as categorical_crossentropy
from trainkit.losses.crossentropy import (
    categorical_focal_crossentropy as categorical_focal_crossentropy,
)
from trainkit.losses.crossentropy import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)
from trainkit.losses.divergence import kl_divergence as kl_divergence
from trainkit.losses.margins import categorical_hinge as categorical_hinge
from trainkit.losses.margins import hinge as hinge
from trainkit.losses.margins import squared_hinge as squared_hinge
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
from trainkit.metrics.accuracy import Accuracy as Accuracy
from trainkit.metrics.accuracy import BinaryAccuracy as BinaryAccuracy
from trainkit.metrics.accuracy import CategoricalAccuracy as CategoricalAccuracy
from trainkit.metrics.accuracy import SparseCategoricalAccuracy as SparseCategoricalAccuracy
from trainkit.metrics.accuracy import binary_accuracy as binary_accuracy
from trainkit.metrics.accuracy import categorical_accuracy as categorical_accuracy
from trainkit.metrics.accuracy import sparse_categorical_accuracy as sparse_categorical_accuracy
from trainkit.metrics.confusion import FalseNegatives as FalseNegatives
from trainkit.metrics.confusion import FalsePositives as FalsePositives
from trainkit.metrics.confusion import Precision as Precision
from trainkit.metrics.confusion import Recall as Recall
from trainkit.metrics.confusion import TrueNegatives as TrueNegatives
from trainkit.metrics.confusion import TruePositives as TruePositives
from trainkit.metrics.f_score import F1Score as F1Score
from trainkit.metrics.f_score import FBetaScore as FBetaScore
from trainkit.metrics.iou import BinaryIoU as BinaryIoU
from trainkit.metrics.iou import IoU as IoU
from trainkit.metrics.iou import MeanIoU as MeanIoU
from trainkit.metrics.iou import OneHotIoU as OneHotIoU
from trainkit.metrics.iou import OneHotMeanIoU as OneHotMeanIoU
from trainkit.metrics.means import Mean as Mean
from trainkit.metrics.means import MeanMetricWrapper as MeanMetricWrapper
from trainkit.metrics.means import MeanScore as MeanScore
from trainkit.metrics.means import Sum as Sum
from trainkit.metrics.metric import Metric as Metric
from trainkit.metrics.probabilistic import BinaryCrossentropy as BinaryCrossentropy
from trainkit.metrics.probabilistic import CategoricalCrossentropy as CategoricalCrossentropy
from trainkit.metrics.probabilistic import CategoricalHinge as CategoricalHinge
from trainkit.metrics.probabilistic import Hinge as Hinge
from trainkit.metrics.probabilistic import KLDivergence as KLDivergence
from trainkit.metrics.probabilistic import Poisson as Poisson
from trainkit.metrics.probabilistic import (
    SparseCategoricalCrossentropy as SparseCategoricalCrossentropy,
)
from trainkit.metrics.probabilistic import SquaredHinge as SquaredHinge
from trainkit.metrics.registry import deserialize as deserialize
from trainkit.metrics.registry import get as get
from trainkit.metrics.registry import serialize as serialize
from trainkit.metrics.regression import ConcordanceCorrelation as ConcordanceCorrelation
from trainkit.metrics.regression import CosineSimilarity as CosineSimilarity
from trainkit.metrics.regression import LogCoshError as LogCoshError
from trainkit.metrics.regression import MeanAbsoluteError as MeanAbsoluteError
from trainkit.metrics.regression import MeanAbsolutePercentageError as MeanAbsolutePercentageError
from trainkit.metrics.regression import MeanSquaredError as MeanSquaredError
from trainkit.metrics.regression import MeanSquaredLogarithmicError as MeanSquaredLogarithmicError
from trainkit.metrics.regression import PearsonCorrelation as PearsonCorrelation
from trainkit.metrics.regression import R2Score as R2Score
from trainkit.metrics.regression import RootMeanSquaredError as RootMeanSquaredError
from trainkit.metrics.regression import concordance_correlation as concordance_correlation
from trainkit.metrics.regression import pearson_correlation as pearson_correlation
from trainkit.metrics.thresholds import AUC as AUC
from trainkit.metrics.thresholds import PrecisionAtRecall as PrecisionAtRecall
from trainkit.metrics.thresholds import RecallAtPrecision as RecallAtPrecision
from trainkit.metrics.thresholds import SensitivityAtSpecificity as SensitivityAtSpecificity
from trainkit.metrics.thresholds import SpecificityAtSensitivity as SpecificityAtSensitivity
from trainkit.metrics.top_k import SparseTopKCategoricalAccuracy as SparseTopKCategoricalAccuracy
from trainkit.metrics.top_k import TopKCategoricalAccuracy as TopKCategoricalAccuracy
from trainkit.metrics.top_k import (
    sparse_top_k_categorical_accuracy as sparse_top_k_categorical_accuracy,
)
from trainkit.metrics.top_k import top_k_categorical_accuracy as top_k_categorical_accuracy

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
    name: what the metric is called.
    dtype: dtype of state and result.
    """,
)

_explain_unknown_names(globals())
