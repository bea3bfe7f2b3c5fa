"""Optimizers, learning rate schedules, and `get`."""

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.optimizers import legacy as legacy
from trainkit.optimizers import schedules as schedules
from trainkit.optimizers.adafactor import Adafactor as Adafactor
from trainkit.optimizers.adagrad import Adadelta as Adadelta
from trainkit.optimizers.adagrad import Adagrad as Adagrad
from trainkit.optimizers.adam import Adam as Adam
from trainkit.optimizers.adam import AdamW as AdamW
from trainkit.optimizers.adam_variants import Adamax as Adamax
from trainkit.optimizers.adam_variants import Nadam as Nadam
from trainkit.optimizers.base.optimizer import Optimizer as Optimizer
from trainkit.optimizers.base.registry import deserialize as deserialize
from trainkit.optimizers.base.registry import get as get
from trainkit.optimizers.base.registry import serialize as serialize
from trainkit.optimizers.ftrl import Ftrl as Ftrl
from trainkit.optimizers.lamb import Lamb as Lamb
from trainkit.optimizers.lion import Lion as Lion
from trainkit.optimizers.loss_scale import LossScaleOptimizer as LossScaleOptimizer
from trainkit.optimizers.multi import MultiOptimizer as MultiOptimizer
from trainkit.optimizers.multi import OptimizerMap as OptimizerMap
from trainkit.optimizers.muon import Muon as Muon
from trainkit.optimizers.rmsprop import RMSprop as RMSprop
from trainkit.optimizers.schedule_free import ScheduleFreeAdamW as ScheduleFreeAdamW
from trainkit.optimizers.sgd import SGD as SGD

_describe_arguments(
    globals(),
    """
    **options: see `OptimizerOptions`.
    learning_rate: size of a step.
    """,
)

_explain_unknown_names(globals())
