"""`keras.saving`: whole models, and objects as configs."""

from typing import Any

from trainkit.core.registry import CustomObjectScope as CustomObjectScope
from trainkit.core.registry import CustomObjectScope as custom_object_scope
from trainkit.core.registry import custom_object as _custom_object
from trainkit.core.registry import deserialize_object as deserialize_keras_object
from trainkit.core.registry import get_custom_objects as get_custom_objects
from trainkit.core.registry import register_keras_serializable as register_keras_serializable
from trainkit.core.registry import registered_name as _registered_name
from trainkit.core.registry import serialize_object as serialize_keras_object
from trainkit.models.saving import load_model as load_model
from trainkit.models.saving import save_model as save_model


def get_registered_name(obj: Any) -> str:
    """The name under which a class or function was registered, else its own."""
    return _registered_name(obj) or str(obj.__name__)


def get_registered_object(
    name: str, custom_objects: dict[str, Any] | None = None, module_objects: Any = None
) -> Any:
    """The class or function of a name, `None` if there is none.

    Args:
        name: as `get_registered_name` gives it.
        custom_objects: looked at first, by name.
        module_objects: looked at last, by name.
    """
    with CustomObjectScope(custom_objects):
        found = _custom_object(name)
    return (module_objects or {}).get(name) if found is None else found
