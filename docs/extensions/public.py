"""The reference: public names with their signatures and docstrings, as they are when the site is built.

    ```{public} nvdsl
    smem Tile TileStack
    ```

shows these names of the module, in this order; ``:only:`` names the members of classes that are shown. A docstring is
Markdown; a name in single backticks becomes a link where there is such a public name.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from listed import listed
from repository import DOCS, ROOT, source_uri
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

OPERATORS = (
    "__call__", "__getitem__", "__setitem__", "__matmul__", "__add__", "__iadd__", "__truediv__", "__len__", "__iter__",
)  # fmt: skip
"""Methods with underscores that a reader looks for; shown where they have a docstring."""

SHORT = ("nvdsl.", "nvdsl.math.", "nvdsl.layout.", "nvdsl.debug.", "nvdsl.sim.")
"""Modules that programs reach through ``nv``."""

@functools.cache
def names() -> dict[str, str]:
    """What a docstring may call a public object -> its full name: "Ring", "nv.Ring", "Ring.wait"."""
    found: dict[str, str] = {}
    for page in sorted((DOCS / "reference").glob("*.md")):
        for module, name in listed(page.read_text(encoding="utf-8")):
            full = f"{module}.{name}"
            thing = _object(full)
            members = [member for member, _ in _members(thing)] if inspect.isclass(thing) else []
            for short in (name, full, full.replace("nvdsl.", "nv.", 1), full.removeprefix("nvdsl.")):
                found.setdefault(short, full)
                for member in members:
                    found.setdefault(f"{short}.{member}", f"{full}.{member}")
    return found


def _object(full: str) -> Any:
    """What a dotted name stands for: as much of it as is a module, then attributes."""
    module, parts = full, []
    while True:
        try:
            thing = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, part = module.rpartition(".")
            parts.insert(0, part)
    for part in parts:
        thing = inspect.getattr_static(thing, part) if inspect.isclass(thing) else getattr(thing, part)
    return thing


# --- Markdown of one name


def _members(thing: Any) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class itself or a class of nvdsl above it defines, with docstrings."""
    seen = set()
    for owner in inspect.getmro(thing):
        if not owner.__module__.startswith("nvdsl") or owner.__module__.startswith("nvdsl.mlir"):
            continue
        for name, member in vars(owner).items():
            shown = not name.startswith("_") or name in OPERATORS
            function = _function(member)
            if shown and name not in seen and function is not None and function.__doc__:
                seen.add(name)
                yield name, member


def _function(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    return member if isinstance(member, types.FunctionType) else None


def described(module: str, name: str, *, only: list[str] | None = None) -> str:
    """Directives of Sphinx's Python domain, for the name and its members."""
    full = f"{module}.{name}"
    thing = _object(full)
    doc = _doc(thing, full)
    if inspect.isclass(thing):
        kind = "exception" if issubclass(thing, BaseException) else "class"
        made = kind == "class" and "__init__" in vars(thing) and not getattr(thing, "__made_by_nvdsl__", False)
        signature = _signature(thing, method=True) if made else ""
        members = [
            _directive(*_member(own, member), _doc(_function(member), f"{full}.{own}"), depth=1)
            for own, member in _members(thing)
            if only is None or own in only
        ]
        return _directive(kind, name + signature, "\n\n".join([doc, *members]))
    if inspect.isroutine(thing):
        return _directive("function", name + _signature(thing), doc)
    shown = repr(thing)
    return _directive("data", name, doc or ("" if shown.endswith(name) else f"`{shown}`"))


def _member(name: str, member: Any) -> tuple[str, str]:
    if isinstance(member, property | functools.cached_property):
        return "property", name
    function = _function(member)
    bare = isinstance(member, staticmethod)
    kind = "staticmethod" if bare else "classmethod" if isinstance(member, classmethod) else "method"
    return kind, name + _signature(function, method=not bare)


def _directive(kind: str, argument: str, body: str, depth: int = 0) -> str:
    fence = "`" * (8 - depth)
    return f"{fence}{{py:{kind}}} {argument}\n{body}\n{fence}"


def _doc(thing: Any, full: str) -> str:
    """The docstring, with links; a value's own, not its class's."""
    if inspect.isclass(thing):
        text = inspect.getdoc(thing) or ""
    elif inspect.isroutine(thing):
        text = inspect.cleandoc(thing.__doc__ or "")
    else:
        own = getattr(thing, "__doc__", None)
        text = _attribute_doc(full.rpartition(".")[2], thing) or ("" if own == type(thing).__doc__ else own or "")
    return "\n".join(_linked(line, full) for line in _examples(text.splitlines()))


def _attribute_doc(name: str, thing: Any) -> str:
    """The string below the assignment of a module's constant, wherever in nvdsl that is."""
    for module in [m for n, m in sorted(sys.modules.items()) if n.startswith("nvdsl") and vars(m).get(name) is thing]:
        body = ast.parse(inspect.getsource(module)).body
        for statement, after in zip(body, body[1:], strict=False):
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            if name in [getattr(target, "id", None) for target in targets] and isinstance(after, ast.Expr):
                if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
                    return inspect.cleandoc(after.value.value)
    return ""


def _examples(lines: list[str]) -> Iterator[str]:
    """Doctest examples in a fence: Markdown takes ``>>>`` for a quotation."""
    inside = False
    for line in [*lines, ""]:
        if line.startswith(">>> ") and not inside:
            inside = True
            yield "```pycon"
        if inside and not line:
            inside = False
            yield "```"
        yield line


def _linked(line: str, full: str) -> str:
    if line.startswith("    "):
        return line  # code
    return re.sub(r"(?<!`)`([\w.]+)(\(\))?`(?!`)", lambda found: _named(found, full), line)


def _named(found: re.Match[str], full: str) -> str:
    owner = full
    while owner:
        for name in (f"{owner}.{found[1]}", found[1]):
            if name in names() or name in names().values():
                return f"{{py:obj}}`{found[1]} <{names().get(name, name)}>`"
        owner = owner.rpartition(".")[0]
    return found[0]


def _signature(thing: Any, method: bool = False) -> str:
    """As the source has it, on one line: annotations as written, defaults as a reader would write them."""
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    parameters = list(signature.parameters.values())[1 if method else 0 :]
    shown, bare = [], True
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            bare = False
        if parameter.kind is parameter.KEYWORD_ONLY and bare:
            shown.append("*")
            bare = False
        shown.append(_parameter(parameter))
    only = [i for i, p in enumerate(parameters) if p.kind is p.POSITIONAL_ONLY]
    if only:
        shown.insert(only[-1] + 1, "/")
    result = signature.return_annotation
    arrow = "" if result in (signature.empty, "None", None) or inspect.isclass(thing) else f" -> {_type(result)}"
    return f"({', '.join(shown)}){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_type(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0xFFFF:
        return hex(value).upper().replace("X", "x") if value > 0xFFFFFF else f"{value:_}"
    text = repr(value)
    return "..." if text.startswith("<") else text


# --- Sphinx


class Public(SphinxDirective):
    has_content, required_arguments = True, 1
    option_spec = {"only": lambda text: (text or "").split()}

    def run(self) -> list[nodes.Node]:
        module = self.arguments[0]
        text = "\n\n".join(
            described(module, name, only=self.options.get("only")) for name in " ".join(self.content).split()
        )
        text = f"```{{py:currentmodule}} {module}\n```\n\n{text}"
        node = nodes.container()
        place = self.env.doc2path(self.env.docname)
        self.state.nested_parse(StringList(text.splitlines(), source=str(place)), 0, node)
        return node.children


class Documentation(SphinxDirective):
    """The docstring of a module, without its first sentence where ``:rest:`` is given."""

    required_arguments = 1
    option_spec = {"rest": lambda _: True}

    def run(self) -> list[nodes.Node]:
        text = inspect.getdoc(_object(self.arguments[0])) or ""
        if "rest" in self.options:
            text = text.partition("\n\n")[2]
        node = nodes.container()
        self.state.nested_parse(StringList(textwrap.dedent(text).splitlines(), source=self.arguments[0]), 0, node)
        return node.children


def _short_names(app: Sphinx, doctree: nodes.document) -> None:
    """Types in signatures of modules that lack them: Sphinx would look for any name that ends so."""
    for node in doctree.findall(addnodes.pending_xref):
        short, module = node.get("reftarget"), node.get("py:module")
        if node.get("refdomain") == "py" and node.get("reftype") == "class" and module and short in names():
            if not hasattr(importlib.import_module(module), short):
                node["reftarget"] = names()[short]


def _missing(app: Sphinx, env: Any, node: Any, content: Any) -> Any:
    """Types in signatures: by their short names. Python's, NumPy's and MLIR's are words without a link."""
    if node.get("refdomain") != "py" or node.get("reftype") != "class":
        return None
    full = names().get(node["reftarget"].rpartition(".")[2])
    if full is None:
        return content
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", full, node, content)


def _link_sources(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """A link to the source behind each signature, and ``nv`` before its name, as programs write it."""
    for signature in doctree.findall(addnodes.desc_signature):
        if not signature.get("ids"):
            continue
        full = signature["ids"][0]
        for prefix in signature.findall(addnodes.desc_addname):
            if prefix.astext() in SHORT:
                prefix[:] = [nodes.Text(prefix.astext().replace("nvdsl.", "nv.", 1))]
        try:
            thing = _object(full)
            thing = thing if inspect.isclass(thing) else _function(thing) or thing
            path = Path(inspect.getsourcefile(inspect.unwrap(thing)) or "").relative_to(ROOT).as_posix()
            line = inspect.getsourcelines(inspect.unwrap(thing))[1]
        except (TypeError, ValueError, OSError, AttributeError):
            continue  # a value
        link = nodes.reference("", "", nodes.inline("", "source", classes=["viewcode-link"]), internal=True)
        link["refuri"] = source_uri(app, docname, path, max(line, 1))
        signature += link


def _link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """`nv.Ring` and `nv.matmul(a, b)` in the text lead to the reference."""
    for literal in list(doctree.findall(nodes.literal)):
        named = re.match(r"(?:nv|nvdsl)\.[\w.]*\w", literal.astext())
        full = names().get(named[0]) if named else None
        if full is None or _inside(literal, nodes.reference, addnodes.pending_xref, nodes.title):
            continue
        entry = app.env.get_domain("py").objects.get(full)  # type: ignore[attr-defined]
        if entry is None or entry.docname == docname:
            continue
        uri = f"{app.builder.get_relative_uri(docname, entry.docname)}#{entry.node_id}"
        literal.replace_self(nodes.reference("", "", literal.deepcopy(), internal=True, refuri=uri))


def _inside(node: nodes.Node, *kinds: type) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public", Public)
    app.add_directive("documentation", Documentation)
    app.connect("doctree-read", _short_names)
    app.connect("missing-reference", _missing)
    app.connect("doctree-resolved", _link_sources)
    app.connect("doctree-resolved", _link_names)
    return {"parallel_read_safe": False}
