"""Where operations are declared, so that one that a file names can be found by its name alone.

An operation exists once its module has been imported, and `import trainkit` imports few of them.
What a saved graph or model may hold is therefore declared in modules of the packages below, all of
which `graph.control_flow.operation_lookup` imports when it meets a name that is not known yet.
"""

from __future__ import annotations

from trainkit.core.dispatch.facets import Effect

OPERATION_PACKAGES = ("trainkit.ops", "trainkit.graph.control_flow")


def check_declaring_module(name: str, effect: Effect | None, module: str) -> None:
    """Raise if a file may name an operation, but no reader would import the module of it.

    Args:
        name: of the operation that is being declared.
        effect: what it does besides its result.
        module: the full name of the module that declares it; one of another package may be any.

    Raises:
        ValueError: `module` is in trainkit, outside of `OPERATION_PACKAGES`, and the operation has
            no effect that keeps it out of files.
    """
    if not module.startswith("trainkit.") or module.startswith(OPERATION_PACKAGES):
        return
    # No file holds a call with another effect, so none can ask for its module.
    if effect is None or effect.saved:
        raise ValueError(
            f"the operation {name!r} is declared in {module}, which no reader of saved "
            f"graphs imports; declare it in a module of {' or '.join(OPERATION_PACKAGES)}"
        )
