"""Whether all classes of a package are exported and have a row, and what to add where if not."""

import importlib
import inspect
import pkgutil


def defined(package, base):
    """Names of public subclasses of `base` in the files of a package, imported or not by then."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    names, kinds = set(), [base]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith(f"{package.__name__}.") and kind.__name__[0] != "_":
            names.add(kind.__name__)
    return names


def exported(package, base):
    """Names under which a package shows `base` and its subclasses, without second names.

    Some are loaded when they are asked for, and stand in the package from then on alone.
    """
    return {
        name
        for name, value in ((name, getattr(package, name)) for name in dir(package))
        if inspect.isclass(value) and issubclass(value, base) and value.__name__ == name
    }


def check_complete(package, base, rows, table, inner=(), apart=()):
    """Fail, saying what to add where, unless all classes are exported and have a row.

    Args:
        package: the package of the classes.
        base: what they are subclasses of.
        rows: names in the table.
        table: the table's name, with its file.
        inner: classes that are not exported.
        apart: classes without a row.
    """
    shown = exported(package, base)
    missing = defined(package, base) - shown - set(inner)
    door = f"{package.__name__.replace('.', '/')}/__init__.py"
    assert not missing, f"add a line to {door} for {sorted(missing)}"
    missing = shown - set(rows) - set(apart)
    assert not missing, f"add a row to {table} for {sorted(missing)}"
    unknown = set(rows) - shown
    assert not unknown, f"{table} has rows of classes that {door} does not export: {unknown}"
