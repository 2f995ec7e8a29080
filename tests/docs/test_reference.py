"""Every public name is on a page of the reference, once, and has a docstring."""

import ast
import importlib
import importlib.util
import inspect
from pathlib import Path

import nvdsl

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

spec = importlib.util.spec_from_file_location("listed", DOCS / "extensions" / "listed.py")
listed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(listed)

SHOWN = [pair for page in sorted((DOCS / "reference").glob("*.md")) for pair in listed.listed(page.read_text())]


def attribute(module, name):
    found = nvdsl
    for part in module.split(".")[1:]:
        found = getattr(found, part, None) or importlib.import_module(f"{found.__name__}.{part}")
    return getattr(found, name)


def imported(module):
    """What a package's __init__ imports from elsewhere, without names with underscores and submodules."""
    tree = ast.parse(Path(module.__file__).read_text())
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("nvdsl")
        for alias in node.names
    }
    return {n for n in names if not n.startswith("_") and not inspect.ismodule(getattr(module, n))}


def defined(module):
    """Public functions and classes that a module defines itself."""
    return {
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__ and callable(thing)
    }


SAME = {"const", "Mbarriers", "get_dynamic_shared_memory", "WARP_GROUP_SIZE"}
"""Names of nvdsl.thin that are nvdsl's own."""


def exported():
    from nvdsl import errors, kernels, layout, math, schedule, testing, thin

    yield from (("nvdsl", name) for name in imported(nvdsl))
    yield from (("nvdsl.layout", name) for name in layout.__all__)
    yield from (("nvdsl.schedule", name) for name in schedule.__all__)
    yield from (("nvdsl.testing", name) for name in testing.__all__)
    modules = {name for name in thin.__all__ if inspect.ismodule(getattr(thin, name))}
    yield from (("nvdsl.thin", name) for name in set(thin.__all__) - modules - SAME)
    yield from (("nvdsl.math", name) for name in defined(math))
    yield from (("nvdsl.kernels", name) for name in imported(kernels))
    classes = {name for name in vars(errors) if inspect.isclass(getattr(errors, name))}
    own = {name for name in classes if name[0] != "_" and getattr(errors, name).__module__.startswith("nvdsl")}
    yield from (("nvdsl.errors", name) for name in own if not hasattr(nvdsl, name))
    yield from (("nvdsl.debug", name) for name in ("run",))
    yield from (("nvdsl.sim", name) for name in ("record",))


def test_every_public_name_is_on_a_page():
    assert sorted(set(exported()) - set(SHOWN)) == []


def test_no_name_is_shown_twice():
    assert sorted({pair for pair in SHOWN if SHOWN.count(pair) > 1}) == []


def test_all_have_docstrings():
    """Functions and classes, with their methods and properties. Values (types, numbers, layouts) may go without."""
    without = []
    for module, name in SHOWN:
        thing = attribute(module, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            named = {name: thing} | ({f"{name}.{m}": f for m, f in members(thing)} if inspect.isclass(thing) else {})
            without += [f"{module}.{n}" for n, one in named.items() if not inspect.getdoc(one)]
    assert without == []


def members(thing):
    for name, member in vars(thing).items():
        function = getattr(member, "fget", None) or getattr(member, "func", None) or member
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function
