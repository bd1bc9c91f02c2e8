"""w3lib's tests of encodings, asked of the url pack: each assertion that is evaluated is a case.

The module is run as it stands, with the pack in the place of `w3lib.encoding`.
"""

import ast
import codecs
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from webencodings import Encoding

from dpp.packs.url import charset
from dpp.packs.url.charset import Declares
from tests.outside.data import w3lib_tests
from tests.outside.suite import Case, Suite


def encodings(_data: Path) -> Iterator[Case]:
    """Each assertion: it holds for the pack, with the names that Python gives the encodings."""
    tree = _Checked().visit(ast.parse(w3lib_tests().read_text(encoding="utf-8")))
    module: dict[str, Any] = {"__name__": "w3lib_tests"}
    checks: list[bool] = []
    module["_check"] = lambda holds: checks.append(_holds(holds))
    with patch.dict(sys.modules, {"w3lib": ModuleType("w3lib"), "w3lib.encoding": _pack()}):
        exec(compile(ast.fix_missing_locations(tree), "w3lib", "exec"), module)  # noqa: S102 - the pinned release
    for suite in (value for name, value in module.items() if name.startswith("Test")):
        for name in (name for name in vars(suite) if name.startswith("test_")):
            checks.clear()
            for arguments in _parameters(getattr(suite, name)):
                try:
                    getattr(suite(), name)(**arguments)
                except Exception:  # noqa: BLE001 - an assertion that could not be reached counts as wrong
                    checks.append(False)
            yield from (Case(f"{name} {number}", right) for number, right in enumerate(checks, 1))


class _Checked(ast.NodeTransformer):
    """Makes each assertion of a test, and each call of a test's own assertion, a call that notes whether it holds."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.generic_visit(node) if node.name.startswith("test_") else node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return _noted(node, node.test)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if "._assert_" not in ast.unparse(node):
            return node
        # Such a call returns None, and raises where an assertion in it fails.
        return _noted(node, ast.Compare(node.value, [ast.Is()], [ast.Constant(None)]))


def _noted(node: ast.stmt, condition: ast.expr) -> ast.Expr:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    call = ast.Call(ast.Name("_check", ast.Load()), [ast.Lambda(nothing, condition)], [])
    return ast.copy_location(ast.Expr(call), node)


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except Exception:  # noqa: BLE001 - as above
        return False


def _parameters(test: Callable[..., object]) -> Iterator[dict[str, object]]:
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    for values in itertools.product(*(mark.args[1] for mark in marks)):
        arguments: dict[str, object] = {}
        for mark, value in zip(marks, values, strict=True):
            names = mark.args[0]
            arguments |= {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
        yield arguments


def _pack() -> ModuleType:
    """The pack with the names of w3lib's functions."""

    def declared(body: bytes | str) -> str | None:
        sent = body.encode() if isinstance(body, str) else body
        return _name(charset.declared_encoding(sent, Declares.IN_META))

    def marked(body: bytes) -> tuple[str | None, bytes | None]:
        marks = ((name, mark) for mark, name in charset.BYTE_ORDER_MARKS if body.startswith(mark))
        return next(marks, (None, None))

    def read(header: str | None, body: bytes, **_options: object) -> tuple[str | None, str]:
        found = charset.encoding(header or "", body, Declares.IN_META)
        return _name(found), charset.decode(header or "", body, Declares.IN_META)

    functions: dict[str, object] = {
        "html_body_declared_encoding": declared,
        "html_to_unicode": read,
        "http_content_type_encoding": lambda header: _name(charset.header_encoding(header)),
        "read_bom": marked,
        "resolve_encoding": lambda label: _name(charset.lookup(label)),
        "to_unicode": lambda body, label: charset.decode(f"text/plain;charset={label}", body, Declares.NOWHERE),
    }
    module = ModuleType("w3lib.encoding")
    vars(module).update(functions)
    return module


def _name(found: Encoding | None) -> str | None:
    if found is None:
        return None
    python = {"gbk": "gb18030", "windows-1252": "cp1252"}.get(found.name, found.codec_info.name)
    return codecs.lookup(python).name if python not in {"cp1252", "utf-16-be", "utf-16-le"} else python


_OTHERWISE: dict[str, dict[str, tuple[int, ...]]] = {
    "browsers know no UTF-32; they take its mark for UTF-16's": {
        "test_bom": (7, 8, 9),
        "test_utf16_32": (5, 6, 7, 8, 10),
    },
    "UTF-16 without a mark is little-endian in browsers, and a <meta> that was read as ASCII can't mean it": {
        "test_utf16_32": (9, 11)
    },
    "a blank after < starts no tag in browsers": {
        "test_html_body_declared_encoding": (7,),
        "test_html_body_declared_encoding_unicode": (8,),
        "test_html_encoding": (1,),
    },
    "browsers also take a <meta> in the body": {
        "test_html_body_declared_encoding": (12,),
        "test_html_body_declared_encoding_unicode": (12,),
    },
    "to browsers, an attribute or a value that is nearly http-equiv=content-type is another one": {
        "test_html_body_declared_encoding": (13, 14),
        "test_html_body_declared_encoding_attributes": (13, 14),
        "test_html_body_declared_encoding_unicode": (13,),
    },
    "latin-1 and gb18030_2000 are no labels of the standard": {
        "test_resolve_encoding": (2,),
        "test_gb18030": (9, 12, 15, 18),
    },
    "it passes w3lib a default or a guess, which the pack doesn't take": {
        "test_utf16_32": (12,),
        "test_autodetect": (2,),
        "test_default_encoding": (2,),
    },
}

SUITES = (
    Suite(
        "w3lib",
        aim=158,
        run=encodings,
        otherwise={
            f"{test} {number}": reason
            for reason, tests in _OTHERWISE.items()
            for test, numbers in tests.items()
            for number in numbers
        },
    ),
)
