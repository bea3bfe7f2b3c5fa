"""Distillation: a student model trained on targets and on what a frozen teacher says."""

from trainkit.distillation.distiller import Distiller as Distiller
from trainkit.distillation.losses import DistillationLoss as DistillationLoss
from trainkit.distillation.losses import FeatureDistillation as FeatureDistillation
from trainkit.distillation.losses import LogitsDistillation as LogitsDistillation
