"""nvdsl's packages stand in an order, and each imports only from those before it."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import nvdsl

ROOT = Path(nvdsl.__file__).parent

ROOMS = (
    "errors mlir values hopper layout ir ops lang trace verify lower driver sim testing call thin tune schedule "
    "kernels torch"
).split()
"""Top first. docs/dataflow.md says what each is for."""

OF_THE_PUBLIC_NAMES = ("kernels", "torch")
"""What is written as a user writes it: with ``import nvdsl``, which imports the rooms before these."""


def _modules(root):
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(path, modules):
    """(module, line) of what a file imports, at its top or in a function. Not what it imports for type checkers."""
    waiting = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in names]
        else:
            continue
        yield from ((name, node.lineno) for name in names if name in modules)


def _room(module):
    return module.partition(".")[2].partition(".")[0]


def _wrong(root, rooms, of_the_public_names):
    """What breaks the order, a line each."""
    modules, rank = _modules(root), {room: i for i, room in enumerate(rooms)}
    graph, wrong = {}, []
    for module, path in sorted(modules.items()):
        imported = [(name, line) for name, line in _imports(path, modules) if name != module]
        graph[module] = {name for name, _ in imported}
        if module in (root.name, f"{root.name}.__main__"):
            continue  # the public names, of all rooms; the command
        for name, line in imported:
            own, other = _room(module), _room(name)
            place = f"{path.relative_to(root.parent)}:{line}: {module} imports {name}"
            if not other:
                graph[module].discard(name)
                if own not in of_the_public_names:
                    wrong.append(f"{place}: only {', '.join(of_the_public_names)} use the public names")
            elif rank[other] > rank[own]:
                wrong.append(f"{place}: {other} stands after {own}")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        wrong.append("a circle: " + " <- ".join(error.args[1]))
    return wrong


def test_each_room_imports_only_from_rooms_before_it_and_no_modules_import_each_other():
    assert _wrong(ROOT, ROOMS, OF_THE_PUBLIC_NAMES) == []


def test_no_room_needs_the_command():
    command = re.compile(r"^\s*(from|import) nvdsl_command", re.MULTILINE)
    assert [path for path in ROOT.rglob("*.py") if command.search(path.read_text())] == [ROOT / "__main__.py"]


def test_there_are_at_most_20_names_at_the_top():
    names = {path.stem for path in ROOT.iterdir() if not path.name.startswith(("_", ".")) and path.suffix != ".typed"}
    assert names == set(ROOMS)
    assert len(names) <= 20


@pytest.mark.parametrize(
    ("module", "text", "said"),
    [
        ("a.one", "from pkg.b import two", "pkg/a/one.py:1: pkg.a.one imports pkg.b.two: b stands after a"),
        ("a.one", "def f():\n    import pkg.b.two", "pkg/a/one.py:2: pkg.a.one imports pkg.b.two: b stands after a"),
        ("a.one", "import pkg", "pkg/a/one.py:1: pkg.a.one imports pkg: only c use the public names"),
        ("a.zero", "from pkg.a.one import x", "a circle: pkg.a."),
        ("c.three", "import pkg\nfrom pkg.b import two", None),
        ("a.one", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.b import two", None),
    ],
)
def test_what_breaks_the_order_is_named(tmp_path, module, text, said):
    files = {"a.zero": "", "a.one": "import pkg.a.zero", "b.two": "from pkg.a.one import x", "c.three": ""}
    files[module] = f"{text}\n{files[module]}"
    for name, content in files.items():
        path = tmp_path / "pkg" / (name.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(content)
    (tmp_path / "pkg" / "__init__.py").write_text("from pkg.b.two import x")
    wrong = _wrong(tmp_path / "pkg", ["a", "b", "c"], ("c",))
    if said is None:
        assert wrong == []
    else:
        assert any(line.startswith(said) for line in wrong), wrong
