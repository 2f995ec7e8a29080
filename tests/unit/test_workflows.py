"""The workflows name what there is: targets of the Makefile, and the Pythons of pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("file", [*WORKFLOWS, ROOT / ".ci" / "run"], ids=lambda file: file.name)
def test_each_target_that_is_run_exists(file):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    run = re.findall(r"\bmake (?:-\S+ )*([a-z-]+)", re.sub("#.*", "", file.read_text()))
    assert run or ".ci/run" in file.read_text()
    assert set(run) <= targets


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_name_a_release_and_jobs_end(file):
    text = file.read_text()
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", use) for use in re.findall(r"uses: (\S+)", text))
    assert text.count("runs-on:") == text.count("timeout-minutes:") and "permissions:\n  contents: read" in text


def test_each_python_is_tested_on_each_machine():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    versions = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    assert f"python: [{', '.join(repr(v).replace(chr(39), chr(34)) for v in versions)}]" in text
    assert "os: [ubuntu-24.04, ubuntu-24.04-arm]" in text
    resolved = re.search(r"for version in (.*?);", (ROOT / "Makefile").read_text())
    assert resolved and resolved[1].split() == versions


def test_the_dependency_group_of_the_error_exists():
    assert "xtc-mlir-python-bindings==22.1.8.*" in PROJECT["optional-dependencies"]["upstream"]
