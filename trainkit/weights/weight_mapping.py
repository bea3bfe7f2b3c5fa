"""Which module of a file belongs to which layer: by name, by kind and shape, by order.

The rules, each for what the one before has left:

1. A file that trainkit wrote has the paths of variables as names.
2. The table of the caller.
3. A module whose name is the path of a layer.
4. Modules and layers whose parameters have the same names and shapes: the only one of its kind; or
   those with the same last name; or one after the other, where the order is known. A list of
   modules is in order, `layers.0`, `layers.1`; and so are all modules of a `state_dict` if kinds
   and shapes follow each other as those of the model do.

What several modules could be is refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.names import near_names
from trainkit.weights.layer_recipes import Recipe, RecipeBook, Slot, signature_of
from trainkit.weights.load_report import LoadReport
from trainkit.weights.source_modules import (
    IGNORED,
    Shape,
    SourceModule,
    last_part,
    modules_of,
    natural_key,
    template,
)

_MOST_NAMED = 8
_BY_TABLE = "by the table of names"
_WRAPPERS = {"module", "_orig_mod"}

Match = tuple[Recipe, list[Slot], SourceModule, str]
"""A layer, the form that fits, the module, and why it is this one."""


class WeightMapping:
    """What of a file goes where in a model.

    Args:
        book: the layers of the model.
        paths: of all variables, by path.
        shapes: of the arrays in the file, by name.
        is_ordered: whether the order of these is that of the writer's modules.
        names: the table of the caller.
        report: to which is added what is left out.
        are_equal: whether arrays of these names have the same values.

    Attributes:
        direct: names of arrays by the path of the variable that takes them as they are.
        matches: the rest.
        left: names of arrays that nothing takes.

    Raises:
        InvalidArgumentError: the table names what is not there or does not fit, or there are
            several ways to go on.
    """

    def __init__(
        self,
        book: RecipeBook,
        paths: Mapping[str, Any],
        shapes: Mapping[str, Shape],
        is_ordered: bool,
        names: Mapping[str, str | None],
        report: LoadReport,
        are_equal: Callable[[Sequence[str]], bool],
    ) -> None:
        self._paths = paths
        self._are_equal = are_equal
        self._is_ordered = is_ordered
        self._report = report
        self.direct: dict[str, str] = {}
        self.matches: list[Match] = []
        self._recipes = list(book.recipes)
        self._shapes = self._without_ignored(shapes, names)
        self._take_own_names()
        order = list(self._shapes) if is_ordered else sorted(self._shapes, key=natural_key)
        self._modules = modules_of({name: self._shapes[name] for name in order})
        self._take_table(names)
        self._take_equal_names()
        self._take_alike()

    @property
    def left(self) -> list[str]:
        """Names of arrays that nothing takes."""
        return [name for module in self._modules.values() for name in module.names.values()]

    @property
    def left_recipes(self) -> list[Recipe]:
        """Layers that nothing is there for."""
        return self._recipes

    def _without_ignored(
        self, shapes: Mapping[str, Shape], names: Mapping[str, str | None]
    ) -> dict[str, Shape]:
        dropped = {name for name in shapes if re.split(r"[./]", name)[-1] in IGNORED}
        for pattern, target in names.items():
            if target is None:
                matching = [name for name in shapes if fits_pattern(pattern, name)]
                matching += [name for name in shapes if name.startswith(f"{pattern}.")]
                if not matching:
                    raise _no_such(pattern, shapes)
                dropped.update(matching)
        self._report.ignored += [name for name in shapes if name in dropped]
        return {name: shape for name, shape in shapes.items() if name not in dropped}

    def _take_own_names(self) -> None:
        same = {
            id(variable): path
            for path, variable in self._paths.items()
            if self._shapes.get(path) == tuple(variable.shape) and "/" in path
        }
        for recipe in list(self._recipes):
            own = [id(variable) for variable in recipe.variables()]
            if all(number in same for number in own):
                self._recipes.remove(recipe)
            else:  # half a layer is none
                for number in own:
                    same.pop(number, None)
        self.direct = {path: path for path in same.values()}
        for path in self.direct:
            del self._shapes[path]

    # ------------------------------------------------------------------ the table

    def _take_table(self, names: Mapping[str, str | None]) -> None:
        recipes: dict[int, tuple[Recipe, SourceModule]] = {}
        for pattern, target in names.items():
            if target is None:
                continue
            modules = self._named_modules(pattern, target)
            arrays = (
                [] if modules else [name for name in self._shapes if fits_pattern(pattern, name)]
            )
            if not modules and not arrays:
                raise _no_such(pattern, [*self._modules, *self._shapes])
            for name, layer in modules.items():
                self._match(self._layer(layer), self._modules.pop(name), _BY_TABLE)
            for name in arrays:
                self._take_array(name, filled_pattern(pattern, target, name), recipes)
        for recipe, module in recipes.values():
            self._match(recipe, module, _BY_TABLE)

    def _named_modules(self, pattern: str, target: str) -> dict[str, str]:
        """The modules that an entry of the table names, each with its layer.

        A recurrent module of one layer is that of its `l0`, and those of both directions belong to
        the two layers of a `Bidirectional`.
        """
        modules = {}
        for name in self._modules:
            if fits_pattern(pattern, name):
                modules[name] = filled_pattern(pattern, target, name)
                continue
            base = re.sub(r"(?:^|\.)l0(_reverse)?$", "", name)
            if base == name or not fits_pattern(pattern, base):
                continue
            layer = filled_pattern(pattern, target, base)
            if f"{base}.l0_reverse".lstrip(".") in self._modules:
                way = "backward" if self._modules[name].is_reverse else "forward"
                layer = f"{layer}/{way}_layer"
            modules[name] = layer
        return modules

    def _take_array(self, name: str, target: str, recipes: dict[int, Any]) -> None:
        """An array for a variable, which is one parameter of its layer."""
        path = self._variable_path(target)
        variable = self._paths[path]
        home = next((m for m in self._modules.values() if name in m.names.values()), None)
        if home is None:
            raise InvalidArgumentError(f"weights: two entries of names= take {name!r}")
        own_name = re.split(r"[./]", name)[-1]
        for recipe in self._recipes:
            # an array that is called as the variable is, such as `kernel`, has its layout
            forms = sorted(recipe.forms, key=lambda f: not any(s.params == (own_name,) for s in f))
            for form in forms:
                slot = next((s for s in form if s.variable is variable), None)
                if slot is not None and len(slot.params) == 1:
                    _, module = recipes.setdefault(id(recipe), (recipe, SourceModule(recipe.path)))
                    module.add(slot.params[0], name, self._shapes[name])
                    _forget(home, name)
                    return
        if self._shapes[name] != tuple(variable.shape):
            raise InvalidArgumentError(
                f"weights: {name!r} has the shape {self._shapes[name]}, and {path!r} "
                f"{tuple(variable.shape)}; name its module and its layer, so that it is known what "
                "to do"
            )
        _forget(home, name)
        self.direct[path] = name

    def _layer(self, target: str) -> Recipe:
        by_path = {recipe.path: recipe for recipe in self._recipes}
        if target in by_path:
            return by_path[target]
        named = [recipe for recipe in self._recipes if recipe.layer.name == target]
        if len(named) == 1:
            return named[0]
        near = near_names(target, [*by_path, *(r.layer.name for r in by_path.values())])
        reason = (
            "is of several layers" if named else "is no layer with weights, or is taken already"
        )
        raise InvalidArgumentError(
            f"weights: {target!r}, which names= says, {reason}"
            + (f"; near: {', '.join(dict.fromkeys(near))}" if near else "")
        )

    def _variable_path(self, target: str) -> str:
        if target in self._paths:
            return target
        named = [p for p, v in self._paths.items() if getattr(v, "path", None) == target]
        if len(named) == 1:
            return named[0]
        near = near_names(target, self._paths, likeness=0.3)
        raise InvalidArgumentError(
            f"weights: the model has no variable {target!r}, which names= says"
            + (f"; near: {', '.join(near)}" if near else "")
        )

    def _match(self, recipe: Recipe, module: SourceModule, reason: str) -> None:
        form = fitting_form(recipe, module)
        if form is None:
            raise InvalidArgumentError(
                f"weights: {module.name!r} does not fit {recipe.path!r} ({recipe.kind})\n"
                f"  module  {_shown(module.shapes)}\n"
                f"  layer   {expected(recipe)}\n"
                "Name another layer, or build the model with the sizes of the file"
            )
        self.matches.append((recipe, form, module, reason))
        self._recipes.remove(recipe)

    # ------------------------------------------------------------------ names, kinds, order

    def _take_equal_names(self) -> None:
        by_name = self._recipes_by_name()
        # what wrappers put in front of all names, `module.` and `_orig_mod.`
        firsts = {name.split(".")[0] for name in self._modules}
        wrapper = f"{next(iter(firsts))}." if len(firsts) == 1 and firsts <= _WRAPPERS else ""
        for name in list(self._modules):
            recipe = by_name.get(_plain(name.removeprefix(wrapper)))
            if recipe is None or recipe not in self._recipes:
                continue
            if fitting_form(recipe, self._modules[name]) is not None:
                self._match(recipe, self._modules.pop(name), "the same name")

    def _recipes_by_name(self) -> dict[str, Recipe]:
        """Layers by their paths and by the names that they were given, where these are of one."""
        by_name: dict[str, Recipe | None] = {}
        for recipe in self._recipes:
            names = {str(recipe.layer.name)} & recipe.given_names
            # `layers/1` is the second layer of a Sequential, which may be another's `layers.0`
            if not recipe.is_numbered:
                names.add(recipe.path)
            for name in {_plain(name) for name in names}:
                by_name[name] = None if name in by_name else recipe
        return {name: recipe for name, recipe in by_name.items() if recipe is not None}

    def _take_alike(self) -> None:
        self._take_groups(True)
        self._take_groups(False)

    def _take_groups(self, by_role: bool) -> None:
        modules = [m for m in self._modules.values() if not by_role or m.role is not None]
        recipes = [r for r in self._recipes if not by_role or r.role is not None]
        in_step = self._is_ordered and len(modules) == len(recipes) and all(
            fitting_form(recipe, module) is not None
            for recipe, module in zip(recipes, modules, strict=True)
        )  # fmt: skip
        groups: dict[Any, tuple[list[Recipe], list[SourceModule]]] = defaultdict(lambda: ([], []))
        for module in modules:
            groups[module.signature, module.role if by_role else None][1].append(module)
        for recipe in recipes:
            key = self._group_of(recipe, groups, by_role)
            groups[key][0].append(recipe)
        for recipes_alike, modules_alike in groups.values():
            # projections of an attention are registered in any order: key, value, query
            has_roles = not by_role and any(recipe.role for recipe in recipes_alike)
            self._pair(recipes_alike, modules_alike, in_step, not has_roles)

    def _group_of(self, recipe: Recipe, groups: Mapping[Any, Any], by_role: bool) -> Any:
        """The group of the first form that some module has."""
        role = recipe.role if by_role else None
        keys = [(signature_of(form, recipe.is_reverse), role) for form in recipe.forms]
        return next((key for key in keys if key in groups and groups[key][1]), keys[0])

    def _pair(
        self, recipes: list[Recipe], modules: list[SourceModule], in_step: bool, follows_order: bool
    ) -> None:
        if not recipes or not modules:
            return
        if len(recipes) == len(modules) == 1:
            self._take(recipes[0], modules[0], "the only one of its shapes")
            return
        recipes, modules = list(recipes), list(modules)
        for recipe in list(recipes):
            names = recipe.given_names
            same = [module for module in modules if last_part(module.name) in names]
            rivals = [other for other in recipes if other.given_names & names]
            if len(same) == 1 and len(rivals) == 1:
                self._take(recipe, same[0], "the same last name")
                recipes.remove(recipe)
                modules.remove(same[0])
        if not recipes or not modules:
            return
        one_list = len({template(module.name) for module in modules}) == 1
        has_order = follows_order and (in_step or one_list)
        if len(recipes) != len(modules) or not has_order:
            if len(recipes) == len(modules) == 1:
                self._take(recipes[0], modules[0], "the only one that is left of its shapes")
                return
            if len(recipes) != len(modules) or not self._are_tied(modules):
                raise _ambiguous(recipes, modules, self._is_ordered)
        for recipe, module in zip(recipes, modules, strict=True):
            self._take(recipe, module, "by order")

    def _are_tied(self, modules: Sequence[SourceModule]) -> bool:
        """Whether it does not matter which is which, since all have the same values."""
        params = modules[0].names
        return all(self._are_equal([module.names[p] for module in modules]) for p in params)

    def _take(self, recipe: Recipe, module: SourceModule, reason: str) -> None:
        del self._modules[module.name]
        self._match(recipe, module, reason)


def fitting_form(recipe: Recipe, module: SourceModule) -> list[Slot] | None:
    """The slots of a layer whose names and shapes a module has, None if it has others."""
    for form in recipe.forms:
        if signature_of(form, recipe.is_reverse) == module.signature:
            return form
    return None


def expected(recipe: Recipe) -> str:
    """Names and shapes that a module for a layer would have."""
    form = recipe.forms[0] if recipe.forms else []
    pairs = {p: s for slot in form for p, s in zip(slot.params, slot.shapes, strict=True)}
    return _shown(pairs)


def _shown(shapes: Mapping[str, Shape]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in sorted(shapes.items())) or "nothing"


def _plain(name: str) -> str:
    """A name with one sign between its parts: names of layers have `_` where modules have a dot."""
    return re.sub(r"[./]", "_", name)


def _forget(module: SourceModule, name: str) -> None:
    param = next(param for param, other in module.names.items() if other == name)
    del module.names[param], module.shapes[param]


def _ambiguous(
    recipes: Sequence[Recipe], modules: Sequence[SourceModule], is_ordered: bool
) -> InvalidArgumentError:
    def listed(names: list[str]) -> str:
        more = len(names) - _MOST_NAMED
        return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

    order_hint = "" if is_ordered else " The file does not say in which order its modules stand."
    return InvalidArgumentError(
        f"weights: it is not clear which module belongs to which layer: all have "
        f"{_shown(modules[0].shapes)}.{order_hint}\n"
        f"  modules  {listed([module.name for module in modules])}\n"
        f"  layers   {listed([recipe.path for recipe in recipes])}\n"
        f"Say it by names={{{modules[0].name!r}: {recipes[0].path!r}, ...}}"
    )


def _no_such(pattern: str, names: Iterable[str]) -> InvalidArgumentError:
    near = near_names(pattern, names, likeness=0.3)
    return InvalidArgumentError(
        f"weights: the file has nothing called {pattern!r}, which names= says"
        + (f"; near: {', '.join(near)}" if near else "")
    )


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile("(.+)".join(re.escape(part) for part in pattern.split("*")))


def fits_pattern(pattern: str, name: str) -> bool:
    """Whether a name is as a pattern says, in which `*` stands for any text."""
    return _expression(pattern).fullmatch(name) is not None


def filled_pattern(pattern: str, target: str, name: str, separator: str = "/") -> str:
    """The target with what the stars of the pattern stand for in a name.

    Args:
        pattern: that the name fits.
        target: with as many stars, or fewer.
        name: that fits.
        separator: of the parts of what is filled in.

    Raises:
        InvalidArgumentError: the target has more stars.
    """
    match = _expression(pattern).fullmatch(name)
    parts = target.split("*")
    texts = match.groups() if match is not None else ()
    if len(parts) - 1 > len(texts):
        raise InvalidArgumentError(
            f"weights: names= says {pattern!r} and {target!r}, which have not as many stars"
        )
    filled = parts[0]
    for text, part in zip(texts, parts[1:], strict=False):
        filled += re.sub(r"[./]", separator, text) + part
    return filled
