"""Every page: what it tells a reader to type or to call is there, with those options, and every link leads somewhere.

What the commands do is shown elsewhere: test_documented_commands.py types those of the contexts, test_deploy_guide.py
those of an account, tests/e2e/test_tutorial.py the tutorial's.
"""

import importlib.util
import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main

from dpp_cli.main import app
from dpp_cli.operator.app import GROUPS
from dpp_cli.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
TARGETS = {
    target
    for targets in re.findall(r"(?m)^([a-z][a-z0-9 -]*):", (ROOT / "Makefile").read_text(encoding="utf-8"))
    for target in targets.split()
}
OPENAPI: dict[str, Any] = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))

_PLACES = dict.fromkeys(("CLUSTER", "ID"), "00000000-0000-0000-0000-000000000000")
"""Words that stand for an id of the reader's own."""


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _blocks(page: Path, language: str = "sh") -> list[str]:
    """The fenced blocks of a language, without the indent of a list."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [re.sub(f"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def _lines(page: Path) -> Iterator[str]:
    """The lines of its blocks, those that go on joined."""
    for block in _blocks(page):
        yield from block.replace("\\\n", " ").splitlines()


def _typed(page: Path) -> Iterator[list[str]]:
    """Every `dpp …` of its blocks, as words: at the start of a line, in a `$(…)`, behind a `&&` or a `|`."""
    for line in _lines(page):
        if "dpp " not in line:
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] | None = None
        for token in [*lexer, "\n"]:
            if words is not None and (token == "\n" or set(token) <= set("();<>|&")):
                yield words
                words = None
            elif words is not None:
                words.append(_PLACES.get(token, token))
            elif token == "dpp":
                words = [token]


def _mentioned(page: Path) -> Iterator[str]:
    """Every `dpp …` of its text, as far as its names go."""
    yield from re.findall(r"`dpp (?:--stage \w+ )?([a-z][a-z-]*(?: [a-z][a-z-]*)*)", page.read_text(encoding="utf-8"))


def _of_all(found: Any) -> list[Any]:
    return [
        pytest.param(page, one, id=f"{_name(page)}: {one if isinstance(one, str) else shlex.join(one)}"[:90])
        for page in PAGES
        for one in {str(one): one for one in found(page)}.values()
    ]


def _resolve(words: Sequence[str]) -> tuple[Any, list[str]]:
    """The command that words name, and those that are left for it."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    if rest and rest[0] == "--stage":
        rest = rest[2:]
        assert rest[0] in {*GROUPS, "top"}, words
    while rest and hasattr(command, "commands") and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


@pytest.mark.parametrize(("page", "words"), _of_all(_typed))
def test_every_command_that_is_typed_takes_what_it_is_given(page: Path, words: list[str]) -> None:
    command, rest = _resolve(words[1:])
    if rest or not hasattr(command, "commands"):  # else the name of a group
        command.make_context(shlex.join(words), rest)


@pytest.mark.parametrize(("page", "mentioned"), _of_all(_mentioned))
def test_every_command_that_is_mentioned_exists(page: Path, mentioned: str) -> None:
    command, rest = _resolve(mentioned.split())
    assert not rest or not hasattr(command, "commands"), mentioned


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_is_a_script_that_bash_can_read(page: Path) -> None:
    for block in _blocks(page):
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_target_of_make_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    typed = {name for line in _lines(page) for name in re.findall(r"(?:^|&& )make ([a-z0-9-]+)", line)}
    assert typed | set(re.findall(r"`make ([a-z0-9-]+)", text)) <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_module_that_is_run_exists(page: Path) -> None:
    for name in re.findall(r"python -m ([a-z_.]+[a-z_])", page.read_text(encoding="utf-8")):
        assert importlib.util.find_spec(name) is not None, name


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_request_is_one_that_the_api_documents(page: Path) -> None:
    for line in _lines(page):
        for path in re.findall(r'curl .*"\$API(/[^"?]*)', line):
            if path == "/mcp":  # which describes itself to its clients
                continue
            data = " -d " in line or "--data" in line
            method = (re.findall(r"-X ([A-Z]+)", line) or ["POST" if data else "GET"])[0].lower()
            [route] = [one for one in (_documented(path, method),) if one]
            assert method in OPENAPI["paths"][route], line


def _documented(path: str, method: str) -> str | None:
    """The route that a path is, exactly or with a part that stands for any."""
    if path in OPENAPI["paths"]:
        return path
    for route, methods in OPENAPI["paths"].items():
        if method in methods and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), path):
            return str(route)
    return None


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_file_that_is_named_exists(page: Path) -> None:
    """A link, to a heading too, and a path in backticks that begins with a folder of this project."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub("`[^`\n]*`", "``", text)):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), target
        assert not anchor or anchor in _anchors(path), target
    folders = "functions|cdk|cli|layers|migrations|tests|bench"
    for name in re.findall(rf"`((?:{folders})/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


def _anchors(path: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    """docs/README.md: in one of four kinds, once each."""
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", index)]
    pages = {page.name for page in DOCS.glob("*.md")} - {"README.md"}
    assert pages <= set(linked)
    tables = [line for line in index.splitlines() if line.startswith("| [")]
    first = [re.findall(r"^\| \[[^\]]+\]\(([^)]+)\)", line)[0] for line in tables]
    assert len(first) == len(set(first))


def test_the_checks_can_fail() -> None:
    """A command, an option, a route that is not there would be seen."""
    command, rest = _resolve(["ledger", "show", "acme", "--pretty"])
    with pytest.raises(Exception, match="No such option"):
        command.make_context("x", rest)
    command, rest = _resolve(["ledgers"])
    assert rest
    assert hasattr(command, "commands")
    assert _documented("/v1/nothing", "get") is None
    assert _documented("/v1/runs/$RUN_ID", "get") == "/v1/runs/{run_id}"
