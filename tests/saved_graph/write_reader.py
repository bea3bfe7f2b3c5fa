"""Writes the bodies of operations into the reader of saved graphs, from trainkit's own.

    python -m tests.saved_graph.write_reader

`saved_graph/standalone.py` imports nothing of trainkit, and has to compute the same bits. So the
bodies of the operations that it knows, and the functions and constants that these take, are copied
into it between two lines of comment: `xp` becomes NumPy, and what is for GPUs, texts and bfloat16
is left out, as are annotations, and docstrings, which stand where a copy is from. Of functions that
only hand their arguments on there is no copy. The rest of the file is written by hand.

An operation that stands in `OPERATIONS` by hand keeps that body. `STANDS_FOR` says what of the
reader takes the place of a part of trainkit, `FACTS` how conditions end in it.
"""

from __future__ import annotations

import ast
import builtins
import collections
import functools
import importlib
import inspect
import itertools
import pkgutil
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import trainkit
from tests.structure.imports import COPIES_FROM, COPIES_TO, own_text
from trainkit.core.tensor import PRIMITIVES
from trainkit.saved_graph import standalone

READER = Path(standalone.__file__)
LINE = 100
SCOPES = (ast.FunctionDef, ast.ClassDef)

STANDS_FOR = {
    "trainkit.core.devices:filled_on": "np.full",
    "trainkit.core.devices:to_numpy": "np.asarray",
    "trainkit.core.dtypes:as_dtype": "_ElementType",
    "trainkit.core.dtypes:bfloat16": "_BFLOAT16",
    "trainkit.core.dtypes:bool_": '"bool"',
    "trainkit.core.dtypes:cast_array": "_cast_array",
    "trainkit.core.dtypes:complex64": '_ElementType("complex64")',
    "trainkit.core.dtypes:complex128": '_ElementType("complex128")',
    "trainkit.core.dtypes:float16": "_FLOAT16",
    "trainkit.core.dtypes:float32": "_FLOAT32",
    "trainkit.core.dtypes:floatx": "_floatx",
    "trainkit.core.dtypes:int32": '"int32"',
    "trainkit.core.errors:InvalidArgumentError": "GraphError",
    "trainkit.core.errors:OutOfRangeError": "GraphError",
    "trainkit.core.errors:ShapeError": "GraphError",
    "trainkit.core.errors:UnimplementedError": "GraphError",
    "trainkit.core.shapes:Spec": "_Spec",
    "trainkit.kernels.cuda.constants:on_device": "_make",
    "trainkit.kernels.matmul.matmul_gpu:matmul": "np.matmul",
    "trainkit.ops.math.exponentials:_GREATEST": "_GREATEST",
    "trainkit.ops.sampling.philox:Part": "_Part",
    "trainkit.ops.sampling.philox:part_of": "_part_of",
}
"""The expression of the reader that takes the place of a name of trainkit's."""

FACTS = {
    "xp is np": True,
    "xp is not np": False,
    "XP_OF[type(a)] is np": True,
    "type(x) is not np.ndarray": False,
    "isinstance(part, np.ndarray | np.generic)": True,
    "isinstance(array, np.ndarray | np.generic)": True,
    "x.dtype == OBJECTS": False,
    "dtype == 'O'": False,
    "a.dtype is _BF16": False,
    "all((x.dtype is dtypes.bfloat16.dtype for x in xs))": False,
    "embedding_tuned.fold_by_id(name, out, rows, values)": False,
}
"""Conditions that end so in the reader, which has NumPy and no kernels, no texts, no bfloat16."""

LEFT_OUT = {"primitive", "_of_whole", "_cut_for_rows"}
"""Decorators that are not copied; the last two take the draws of one replica from those of all."""

NOT_COPIED = ("_cuda", "_cudnn", "_tuned", "_compiled", "core.devices", "core.errors")
"""How modules are called of which nothing is copied: kernels, and objects of trainkit."""


class Unwritable(Exception):
    """A body that can't be copied, and why."""


# ---------------------------------------------------------------------- names of modules


class Module:
    """What a module of trainkit defines and imports, by name."""

    def __init__(self, name):
        self.name = name
        self.text = inspect.getsource(importlib.import_module(name))
        self.definitions, self.imports = {}, {}
        for node in ast.parse(self.text).body:
            for alias in getattr(node, "names", ()):
                part = alias.name if isinstance(node, ast.ImportFrom) else None
                origin = (node.module, part) if part else (alias.name, None)
                self.imports[alias.asname or alias.name] = origin
            self.definitions |= dict.fromkeys(defined_names(node), node)

    def source(self, name):
        """The whole lines of a definition."""
        node = self.definitions[name]
        return "\n".join(self.text.splitlines()[first_line(node) - 1 : node.end_lineno])


def first_line(node):
    """The line on which a definition begins, with its decorators."""
    return min(part.lineno for part in [node, *getattr(node, "decorator_list", [])])


def defined_names(node):
    """The names that a statement of a module defines."""
    if isinstance(node, SCOPES):
        return [node.name]
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [part for target in targets if target for part in ast.walk(target)]
    return [n.id for n in names if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


module_of = functools.cache(Module)


def resolve(module, name):
    """What a global name of a module is.

    Returns:
        A kind and a text: a "definition" `module:name`, a "module" of trainkit, or the "expression"
        that stands for it in the reader.
    """
    key, content = f"{module}:{name}", module_of(module)
    if key in STANDS_FOR:
        return "expression", STANDS_FOR[key]
    if module.endswith(NOT_COPIED):
        raise Unwritable(f"it takes {name} of {module}, for which STANDS_FOR has nothing")
    if name in content.imports:
        origin, part = content.imports[name]
        if not origin.startswith("trainkit"):
            origin = {"numpy": "np", "builtins": ""}.get(origin, origin)
            return "expression", ".".join(filter(None, (origin, part)))
        if inspect.ismodule(getattr(importlib.import_module(origin), part, None)):
            return "module", f"{origin}.{part}"
        return resolve(origin, part)
    if name not in content.definitions:
        return "expression", name
    if module.endswith("core.dtypes") and not isinstance(
        content.definitions[name], ast.FunctionDef
    ):
        raise Unwritable(f"it takes {name} of {module}, for which STANDS_FOR has nothing")
    value = getattr(content.definitions[name], "value", None)
    maker = getattr(getattr(value, "func", None), "id", "")
    if maker == "DeferredModule":
        return "module", value.args[0].value
    if maker == "with_tuned":  # a kernel in place of the body where that pays
        return resolve(module, value.args[0].id)
    return "definition", end_of_forwarding(key)


def end_of_forwarding(key):
    """A definition, or the one that a function hands all its arguments on to, as they are."""
    module, _, name = key.partition(":")
    node = module_of(module).definitions[name]
    call = forwarded_call(node) if isinstance(node, ast.FunctionDef) else None
    if call is None:
        return key
    kind, target = resolve(module, ast.unparse(call.func).partition(".")[0])
    if kind == "module" and isinstance(call.func, ast.Attribute):
        kind, target = resolve(target, call.func.attr)
    return target if kind == "definition" else key


def forwarded_call(function):
    """The call that is all of a function, of its arguments in their order; `None` of another."""
    *before, last = function.body
    names = {getattr(getattr(d, "func", d), "id", "") for d in function.decorator_list}
    call = getattr(last, "value", None) if isinstance(last, ast.Return) else None
    is_alone = not (before[1:] or names - LEFT_OUT or function.args.defaults)
    if not is_alone or (before and ast.get_docstring(function) is None):
        return None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
        return None
    by_position = [ast.unparse(part) for part in call.args]
    by_name = [(keyword.arg, ast.unparse(keyword.value)) for keyword in call.keywords]
    is_same = by_position == [part.arg for part in function.args.args]
    is_same = is_same and by_name == [(part.arg, part.arg) for part in function.args.kwonlyargs]
    return call if is_same else None


# ---------------------------------------------------------------------- edits of texts


class Text:
    """A text with its syntax tree."""

    def __init__(self, text):
        self.text, self.tree = text, ast.parse(text)
        self.every = list(ast.walk(self.tree))
        self._lines = text.split("\n")
        self._starts = [0, *itertools.accumulate(len(line) + 1 for line in self._lines)]

    def nodes(self, *kinds):
        """All nodes of these kinds."""
        return [node for node in self.every if isinstance(node, kinds)]

    def span(self, node):
        """Where a node begins and ends."""
        first = self._place(node.lineno, node.col_offset)
        return first, self._place(node.end_lineno, node.end_col_offset)

    def _place(self, line, byte):
        text = self._lines[line - 1].encode()[:byte]
        return self._starts[line - 1] + len(text.decode())

    def of(self, node):
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def within(self, node):
        """The text of a node as a part of an expression."""
        wide = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr)
        return f"({self.of(node)})" if isinstance(node, wide) else self.of(node)

    def edited(self, edits):
        """The text with stretches `(start, end, replacement)` replaced."""
        text = self.text
        for start, end, replacement in sorted(set(edits), reverse=True):
            text = text[:start] + replacement + text[end:]
        return Text(text)

    def without_argument(self, node):
        """The edit that drops an argument and a comma."""
        start, end = self.span(node)
        behind = re.compile(r"\s*,\s*").match(self.text, end)
        before = re.search(r",\s*$", self.text[:start])
        if behind:
            return start, behind.end(), ""
        return before.start() if before else start, end, ""


# ---------------------------------------------------------------------- what never runs


def settled_names(text):
    """The statement of each local name that is bound once, to `True`, `False` or `None`."""
    names = [n.id for n in text.nodes(ast.Name) if not isinstance(n.ctx, ast.Load)]
    bound = collections.Counter(names)
    return {
        node.targets[0].id: node
        for node in text.nodes(ast.Assign)
        if isinstance(node.targets[0], ast.Name)
        and bound[node.targets[0].id] == 1
        and isinstance(node.value, ast.Constant)
        and type(node.value.value) in (bool, type(None))
        and node not in text.tree.body
    }


class Conditions:
    """How conditions end in the reader."""

    def __init__(self, settled):
        self._ends = dict(FACTS)
        for name, node in settled.items():
            self._ends[name] = bool(node.value.value)
            self._ends[f"{name} is None"] = node.value.value is None
            self._ends[f"{name} is not None"] = node.value.value is not None

    def end(self, node):
        """`True` or `False`, `None` where values decide."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            end = self.end(node.operand)
            return None if end is None else not end
        if isinstance(node, ast.BoolOp):
            ends = [self.end(part) for part in node.values]
            decides = isinstance(node.op, ast.Or)
            if decides in ends:
                return decides
            return None if None in ends else not decides
        return self._ends.get(ast.unparse(node))


def prune(text):
    """A text without what never runs in the reader."""
    while True:
        settled = settled_names(text)
        conditions = Conditions(settled)
        edits = next(filter(None, (pruned(text, n, conditions) for n in text.every)), None)
        if edits is None:
            loaded = {n.id for n in text.nodes(ast.Name) if isinstance(n.ctx, ast.Load)}
            unread = [text.span(node)[0] for name, node in settled.items() if name not in loaded]
            ends = [text.text.index("\n", start) for start in unread]  # with a comment behind it
            return text.edited((text.text.rindex("\n", 0, end), end, "") for end in ends)
        text = text.edited([edits])


def pruned(text, node, conditions):
    """An edit that leaves out what a node never runs, `None` if all of it may run."""
    if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
        end = conditions.end(node.value)
        return None if end is None else (*text.span(node.value), str(end))
    if isinstance(node, ast.BoolOp):
        parts = [part for part in node.values if conditions.end(part) is None]
        if conditions.end(node) is not None or len(parts) == len(node.values):
            return None
        word = " or " if isinstance(node.op, ast.Or) else " and "
        return *text.span(node), word.join(map(text.within, parts))
    end = conditions.end(node.test) if hasattr(node, "test") else None
    if isinstance(node, ast.While) and end and ast.unparse(node.test) != "True":
        return *text.span(node.test), "True"
    if isinstance(node, ast.IfExp) and end is not None:
        return *text.span(node), text.within(node.body if end else node.orelse)
    if isinstance(node, ast.If) and end is not None:
        return branch(text, node, end)
    for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
        for statement in block[:-1] if isinstance(block, list) else ():
            if isinstance(statement, ast.Return | ast.Raise):
                return text.span(statement)[1], text.span(block[-1])[1], ""
    return None


def branch(text, node, end):
    """The edit that puts the branch that runs in place of an `if` or `elif`."""
    begin, finish = text.span(node)
    is_elif = text.of(node).startswith("elif")
    block = node.body if end else node.orelse
    if not block:
        return text.text.rindex("\n", 0, begin), finish, ""
    if text.of(block[0]).startswith("elif"):
        return begin, finish, text.of(block[0])[0 if is_elif else 2 :]
    head = text.text.rindex("\n", 0, text.span(block[0])[0]) + 1
    above = re.search(r"(^ +#.*\n)+\Z", text.text[:head], re.MULTILINE)
    head = above.start() if above else head  # a comment on its first statement
    lines = text.text[head : text.span(block[-1])[1]]
    if is_elif:
        return begin, finish, "else:\n" + lines
    return begin - node.col_offset, finish, re.sub(r"^    ", "", lines, flags=re.MULTILINE)


# ---------------------------------------------------------------------- what only people read


def strip(text):
    """A definition without annotations, decorators, and docstrings."""
    edits, records = [], set()
    for node in text.nodes(*SCOPES):
        if ast.get_docstring(node) is not None and node.body[1:]:
            start, end = text.span(node.body[0])
            edits.append((text.text.rindex("\n", 0, start), end, ""))
        for decorator in node.decorator_list:
            start, end = text.span(decorator)
            name = ast.unparse(getattr(decorator, "func", decorator))
            if name in LEFT_OUT:
                edits.append((start - 1, end, ""))
        if "NamedTuple" in [getattr(base, "id", "") for base in getattr(node, "bases", ())]:
            records.update(node.body)
    for node in text.nodes(ast.arg):
        if node.annotation is not None:
            edits.append((text.span(node)[0] + len(node.arg), text.span(node)[1], ""))
    for node in text.nodes(ast.FunctionDef):
        if node.returns is not None:
            start, end = text.span(node.returns)
            edits.append((text.text.rindex("->", 0, start), end, ""))
    for node in text.nodes(ast.AnnAssign):
        start, end = text.span(node.annotation)
        if node in records:  # without one it would be no field
            edits.append((start, end, "object"))
        elif node.value is None:
            edits.append((text.text.rindex("\n", 0, text.span(node)[0]), end, ""))
        else:
            edits.append((text.span(node.target)[1], end, ""))
    text = text.edited(edits)
    return Text(re.sub(r"  # type: ignore.*", "", text.text))


def call_directly(text):
    """A text with `op.primitive.run(a, b)` for `op.primitive.run((a, b), {})`."""
    edits = []
    for node in text.nodes(ast.Call):
        if ast.unparse(node.func).endswith(".primitive.run"):
            (start, end), (_, last) = map(text.span, node.args)
            edits.append((start, last, text.text[start + 1 : end - 1]))
    return text.edited(edits)


def without_module(text):
    """A text whose functions neither take nor hand on `xp`, which is NumPy."""
    calls = [n for n in text.nodes(ast.Call) if getattr(n.func, "id", "") != "getattr"]
    handed = [a for node in calls for a in node.args if getattr(a, "id", "") in ("xp", "np")]
    taken = [node for node in text.nodes(ast.arg) if node.arg == "xp"]
    text = text.edited(map(text.without_argument, handed + taken))
    text = text.edited((*text.span(n), "np") for n in text.nodes(ast.Name) if n.id == "xp")
    return text.edited(
        (*text.span(node), text.of(node.args[0]))
        for node in text.nodes(ast.Call)
        if ast.unparse(node.func) == "functools.partial" and [*node.keywords, *node.args[1:]] == []
    )


# ---------------------------------------------------------------------- definitions


def local_names(text):
    """All names that a definition binds somewhere in itself."""
    names = {node.id for node in text.nodes(ast.Name) if not isinstance(node.ctx, ast.Load)}
    names |= {node.arg for node in text.nodes(ast.arg)}
    return names | {node.name for node in text.nodes(*SCOPES) if node not in text.tree.body}


def references(text, module):
    """The global names of a definition: the node, and what it is (see `resolve`)."""
    owners = {id(node.value): node for node in text.nodes(ast.Attribute)}
    local = local_names(text) | {"xp"} - {*defined_names(text.tree.body[0])}
    for node in text.nodes(ast.Name):
        if node.id in local:
            continue
        kind, target = resolve(module, node.id)
        while kind == "module":
            node = owners[id(node)]
            kind, target = resolve(target, node.attr)
        owner = owners.get(id(node))
        if owner is not None and owner.attr == "primitive":  # the body of another operation
            node = owners[id(owner)]
        yield node, kind, target


class Definition:
    """A definition of trainkit's as the reader is to have it.

    Attributes:
        names: that it defines.
        line: where it begins in its module.
        needs: the other definitions `module:name` that it refers to.
    """

    def __init__(self, key):
        self.module, _, self.name = key.partition(":")
        content = module_of(self.module)
        self.line = first_line(content.definitions[self.name])
        self._text = call_directly(strip(prune(Text(content.source(self.name)))))
        self._head = self._text.tree.body[0]
        self.names = defined_names(self._head)
        self._references = list(references(self._text, self.module))
        self.needs = {target for _, kind, target in self._references if kind == "definition"}
        self.needs -= set(self.keys)

    @property
    def keys(self):
        """What it defines, as `module:name`."""
        return [f"{self.module}:{name}" for name in self.names]

    @property
    def is_constant(self):
        """Whether it is neither a function nor a class."""
        return isinstance(self._head, ast.Assign | ast.AnnAssign)

    def written(self, names):
        """Its text where definitions have these names."""
        text, edits, spelled = self._text, [], {}
        strings = text.nodes(ast.JoinedStr)
        inside = {id(part) for node in strings for part in ast.walk(node)}
        for node, kind, target in self._references:
            new = names[target] if kind == "definition" else target
            if id(node) in inside:  # before 3.12 Python does not say where they stand
                spelled[ast.unparse(node)] = new
            else:
                edits.append((*text.span(node), new))
        edits += [(*text.span(node), renamed(text.of(node), spelled)) for node in strings]
        if self.is_constant:
            for node in text.nodes(ast.Name):
                if isinstance(node.ctx, ast.Store) and node.id in self.names:
                    edits.append((*text.span(node), names[f"{self.module}:{node.id}"]))
        else:
            start = text.text.index(f" {self.name}", text.span(self._head)[0]) + 1
            edits.append((start, start + len(self.name), names[self.keys[0]]))
        return without_module(text.edited(edits)).text


def renamed(string, names):
    """A formatted string with other names between its braces."""
    for name, new in names.items():
        word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
        replace = functools.partial(word.sub, new)
        string = re.sub(r"\{[^{}]*\}", lambda part, replace=replace: replace(part[0]), string)
    return string


# ---------------------------------------------------------------------- the section


@functools.cache
def declared():
    """All operations of trainkit, by name."""
    for module in pkgutil.walk_packages(trainkit.__path__, "trainkit."):
        if module.name.split(".")[1] in ("ops", "graph", "metrics", "summary", "data"):
            importlib.import_module(module.name)
    own = {n: p for n, p in PRIMITIVES.items() if p.is_ufunc or "trainkit" in p.body.__module__}
    return dict(sorted(own.items()))


def key_of(primitive):
    """The definition of an operation's body."""
    body = inspect.unwrap(primitive.body)
    node = module_of(body.__module__).definitions.get(body.__name__)
    line = body.__code__.co_firstlineno
    if not isinstance(node, ast.FunctionDef) or not first_line(node) <= line <= node.end_lineno:
        raise Unwritable("its body is made by a function")
    return end_of_forwarding(f"{body.__module__}:{body.__name__}")


class Section:
    """The definitions and the table that are copied.

    Args:
        by_hand: operations that the reader has already.
        taken: names that its text has already.
    """

    def __init__(self, by_hand, taken):
        self._taken, self._definitions = {*taken, *dir(builtins)}, {}
        self._bodies, self._ufuncs = {}, {}
        for name, primitive in declared().items():
            if not primitive.facets.export or name in by_hand:
                continue
            if primitive.is_ufunc:
                self._ufuncs[name] = f"np.{primitive.body.__name__}"
                continue
            try:
                self._bodies[name] = key_of(primitive)
                self._add(self._bodies[name])
            except Unwritable as problem:
                raise Unwritable(
                    f"the reader of saved graphs can't have the body of {name!r}, as {problem}: "
                    "change it, write one by hand in OPERATIONS of saved_graph/standalone.py, or "
                    "say export=Absent(reason) where the operation is declared"
                ) from None

    def _add(self, key):
        if key not in self._definitions:
            definition = Definition(key)
            self._definitions |= dict.fromkeys(definition.keys, definition)
            for other in sorted(definition.needs):
                self._add(other)

    def names(self):
        """What definitions are called in the reader: bodies as their operations are."""
        names = {}
        for operation, key in self._bodies.items():
            if f"_{operation}" not in self._taken:
                names.setdefault(key, f"_{operation}")
        for key in sorted(self._definitions.keys() - names.keys()):
            module, _, name = key.partition(":")
            name = "_" + name.lstrip("_")
            if name in self._taken or name in names.values():
                name += "_of_" + module.rpartition(".")[2]
            if name in self._taken or name in names.values():
                raise Unwritable(f"two definitions would be called {name}")
            names[key] = name
        return names

    def _modules(self):
        """The modules of all definitions, each behind those that it needs."""
        needed, order = collections.defaultdict(set), {}
        for definition in self._definitions.values():
            needed[definition.module].update(key.partition(":")[0] for key in definition.needs)

        def append(module):
            if module not in order:
                order[module] = None
                for other in sorted(needed[module] - {module}):
                    append(other)
                order[module] = order.pop(module)

        for module in sorted(needed):
            append(module)
        return list(order)

    def text(self):
        """The whole section."""
        names, parts = self.names(), []
        every = sorted(set(self._definitions.values()), key=lambda d: d.line)
        for module in self._modules():
            gap = f"\n\n# {module.removeprefix('trainkit.')}\n"
            for definition in every:
                if definition.module == module:
                    parts.append(gap + definition.written(names))
                    gap = "\n" if definition.is_constant else "\n\n"
        table = self._ufuncs | {name: names[key] for name, key in self._bodies.items()}
        return "".join([*parts, "\n\n", operations(table), unreadable()])


def operations(table):
    """The text that gives each operation its body: most are called as it is."""
    regular = {'globals()[f"_{name}"]': [], "getattr(np, name)": []}
    rows = []
    for name, body in sorted(table.items()):
        rule = {f"_{name}": 'globals()[f"_{name}"]', f"np.{name}": "getattr(np, name)"}.get(body)
        regular.get(rule, rows).append(name if rule else f"{name}={body}")
    updates = [
        f'OPERATIONS.update((name, {value}) for name in """\n{indented(names)}""".split())\n'
        for value, names in regular.items()
    ]
    return "".join([*updates, f"OPERATIONS.update({', '.join(rows)})\n"])


def indented(names):
    """Lines of names, within a text of the reader."""
    return textwrap.indent(textwrap.fill(" ".join(names), LINE - 8), " " * 8)


def unreadable():
    """The text of the table of operations that the reader goes without."""
    reasons = collections.defaultdict(list)
    for name, primitive in declared().items():
        if not primitive.facets.export:
            reasons[primitive.facets.export.reason].append(name)
    rows = [
        f'    "{reason}": """\n{indented(names)}""",\n' for reason, names in sorted(reasons.items())
    ]
    return "".join(["UNREADABLE = {\n", *rows, "}\n"])


def reader():
    """The whole text of the reader as it should be."""
    text = READER.read_text(encoding="utf-8")
    before, behind = text.split(COPIES_FROM)[0], text.split(COPIES_TO)[1]
    statements = ast.parse(own_text(READER)).body
    taken = [name for node in statements for name in defined_names(node)]
    tables = [node.value for node in statements if defined_names(node) == ["OPERATIONS"]]
    by_hand = {key.value for table in tables for key in table.keys}
    section = Section(by_hand, taken).text()
    return laid_out(f"{before}{COPIES_FROM}{section}{COPIES_TO}{behind}")


def laid_out(text):
    """A text as ruff lays it out, without variables that only GPUs read."""
    for task in (["check", "--fix-only", "--unsafe-fixes", "--select=F841,RUF059"], ["format"]):
        command = [
            sys.executable,
            "-m",
            "ruff",
            *task,
            "--quiet",
            "--stdin-filename",
            str(READER),
            "-",
        ]
        text = subprocess.run(command, input=text, stdout=-1, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(f"write_reader takes no arguments, got {sys.argv[1:]}")
    READER.write_text(reader(), encoding="utf-8")
