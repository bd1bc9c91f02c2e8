"""Renders one operation as a section: parameters, responses and problems."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpp_cli.docs.api_page.markup import Markup, join, listed, prose, tag, text
from dpp_cli.docs.api_page.schemas import kind, limits

_PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path with its description in the document."""

    method: str
    path: str
    described: Mapping[str, Any]
    security: list[dict[str, list[str]]]
    optional: frozenset[str]
    """Header components that may be missing."""

    @property
    def id(self) -> str:
        """The operation id, which is its anchor in the page."""
        return str(self.described["operationId"])

    @property
    def summary(self) -> str:
        """The operation's summary."""
        return str(self.described["summary"])

    @property
    def tags(self) -> list[str]:
        """The operation's tag."""
        return list(self.described["tags"])

    def section(self) -> Markup:
        """All of it."""
        return tag(
            "section",
            tag("h3", tag("a", self.summary, href=f"#{self.id}")),
            tag(
                "p",
                tag("span", self.method.upper(), class_=f"method {self.method}"),
                " ",
                tag("code", self.path, class_="path"),
                class_="call",
            ),
            prose(self.described["description"]),
            self._key(),
            self._parameters(),
            self._body(),
            self._answers(),
            self._refusals(),
            id=self.id,
            class_="operation",
        )

    def _key(self) -> Markup:
        names = [name for choice in self.security for name in choice]
        if not names:
            return tag("p", "No key is asked for.")
        links = [tag("a", name, href=f"#key-{name}") for name in names]
        return tag("p", "Key: ", listed(links, " or "))

    def _parameters(self) -> Markup:
        rows = [
            join(
                tag(
                    "dt",
                    tag("code", one["name"]),
                    tag("span", f" in the {one['in']}, {'required' if one['required'] else 'optional'}, "),
                    tag("span", kind(one["schema"]), class_="kind"),
                ),
                tag("dd", prose(one.get("description", "")), limits(one["schema"]), _for_example(one)),
            )
            for one in self.described.get("parameters", ())
        ]
        return join(tag("h4", "Parameters"), tag("dl", *rows)) if rows else Markup()

    def _body(self) -> Markup:
        body = self.described.get("requestBody")
        if body is None:
            return Markup()
        needed = "required" if body.get("required") else "may be left out"
        return join(
            tag("h4", "Body"),
            prose(body.get("description", "")),
            *(_content(content, f"{media}, {needed}: ") for media, content in body["content"].items()),
        )

    def _answers(self) -> Markup:
        answers = {
            status: answer
            for status, answer in self.described["responses"].items()
            if _PROBLEM not in answer.get("content", {})
        }
        always = self._headers_of_all()
        parts = [
            tag(
                "div",
                tag("h5", tag("code", status, class_="status"), " ", text(answer["description"])),
                self._besides(answer, always),
                *(_content(one, f"{media}: ") for media, one in answer.get("content", {}).items()),
                class_="answer",
            )
            for status, answer in answers.items()
        ]
        return join(tag("h4", "Answers"), _named("Headers of all", always), *parts)

    def _refusals(self) -> Markup:
        always = self._headers_of_all()
        rows = [
            tag(
                "tr",
                tag("td", tag("code", status, class_="status")),
                tag("td", tag("code", _breakable(reason_code))),
                tag("td", example["value"]["detail"], self._besides(answer, always)),
            )
            for status, answer in self.described["responses"].items()
            for reason_code, example in answer.get("content", {}).get(_PROBLEM, {}).get("examples", {}).items()
        ]
        if not rows:
            return Markup()
        shown = tag("a", "Problem", href="#schema-Problem")
        head = tag("tr", *(tag("th", name, scope="col") for name in ("Status", "reason_code", "What it says")))
        return join(
            tag("h4", "Refusals"),
            tag("p", _PROBLEM, ": ", shown),
            tag("table", tag("thead", head), tag("tbody", *rows)),
        )

    def _besides(self, answer: Mapping[str, Any], always: list[str]) -> Markup:
        """Render the headers that are specific to this response."""
        own = {
            name: ref["$ref"].rpartition("/")[2] in self.optional
            for name, ref in answer["headers"].items()
            if name not in always
        }
        certain, perhaps = ([name for name, missing in own.items() if missing is one] for one in (False, True))
        return join(_named("With", certain), _named("At times with", perhaps))

    def _headers_of_all(self) -> list[str]:
        every = [answer["headers"] for answer in self.described["responses"].values()]
        return [name for name in every[0] if all(name in headers for headers in every)]


def operations_of(document: Mapping[str, Any]) -> Iterator[Operation]:
    """Return all operations in the document's order."""
    headers = document["components"]["headers"]
    optional = frozenset(name for name, header in headers.items() if not header["required"])
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            yield Operation(method, path, described, described.get("security", document["security"]), optional)


def _content(content: Mapping[str, Any], described: str) -> Markup:
    examples = {name: one["value"] for name, one in content.get("examples", {}).items()}
    if "example" in content:
        examples = {"": content["example"]}
    shown = [
        tag("details", tag("summary", f"Example {name}".strip()), tag("pre", tag("code", _shown(one)), tabindex="0"))
        for name, one in examples.items()
    ]
    return join(tag("p", described, kind(content["schema"])), *shown)


def _breakable(name: str) -> Markup:
    """Allow line breaks after the underscores of a name in capitals."""
    return listed([join(part) for part in name.split("_")], Markup("_<wbr>"))


def _shown(example: object) -> str:
    return example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)


def _for_example(parameter: Mapping[str, Any]) -> Markup:
    if "example" not in parameter:
        return Markup()
    return tag("p", "For example ", tag("code", str(parameter["example"])), class_="limits")


def _named(described: str, headers: list[str]) -> Markup:
    if not headers:
        return Markup()
    names = listed([tag("code", name) for name in headers], ", ")
    return tag("p", tag("a", described, href="#headers"), ": ", names, class_="headers")
