"""Models: layers with a training loop, and how they are saved."""

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.layers.base.keras_tensor import Input as Input
from trainkit.models import feature_space as feature_space
from trainkit.models.cloning import clone_model as clone_model
from trainkit.models.model import Model as Model
from trainkit.models.saving import load_model as load_model
from trainkit.models.saving import model_from_config as model_from_config
from trainkit.models.saving import model_from_json as model_from_json
from trainkit.models.saving import save_model as save_model
from trainkit.models.sequential import Sequential as Sequential

_explain_unknown_names(globals())
