"""Class names without the parts that compilers, proxies and single runs add (AUTH-10). Pure."""

import re

_NAME_CHARACTERS = 500

_HIDDEN_CLASS = re.compile(r"/(?:0x[0-9a-f]+|\d+)(?=\.|$)")
_GENERATED = re.compile(
    r"(?:_?\$\$(?!anonfun)|\$(?:HibernateProxy|ByteBuddy|MockitoMock|auxiliary|Proxy)(?![A-Za-z])).*"
)
_NUMBERED = re.compile(r"\$\d+")
_CLOSURE = re.compile(r"_closure\d+")
_SCRIPT = re.compile(r"(?<![\w$])Script\d+$")

_PYTHON_CLASS = re.compile(r"<class '([^']*)'>")
_ADDRESS = re.compile(r"(?: object)?(?: at)? ?\b0x[0-9a-fA-F]+|@[0-9a-f]{5,16}\b")
_GO_VERSION = re.compile(r"@v[\w.+-]+|/v\d+(?=[./]|$)")
_JVM_MODULE = re.compile(r"(?:[\w.-]*(?:@[\w.+-]+)?/){1,2}(?=[\w$]+(?:\.[\w$]+)+$)")
_BUILTIN = re.compile(r"(?:builtins|__main__)\.(?=\w)")


def jvm_class(name: str) -> str:
    """`Tokens$$SpringCGLIB$$0` becomes `Tokens`, and `Tokens$1` becomes `Tokens$#`: a build may swap numbers."""
    name = _GENERATED.sub("", name)
    return _SCRIPT.sub("Script", _CLOSURE.sub("_closure", _NUMBERED.sub("$#", name)))


def jvm_path(name: str) -> str:
    """Removes loader and module: `java.base@17.0.2/java.lang.Thread.run` becomes `java.lang.Thread.run`."""
    return _HIDDEN_CLASS.sub("", name).rpartition("/")[2]


def go_path(name: str) -> str:
    """Removes module versions and vendor folders."""
    return _GO_VERSION.sub("", name.rpartition("/vendor/")[2])


def class_name(text: str) -> str:
    """The class of an error of any language, for comparison: without message, address, version and proxy."""
    name = " ".join(text.lstrip()[:_NAME_CHARACTERS].split())
    if quoted := _PYTHON_CLASS.match(name):
        name = quoted[1]
    name = name.partition(": ")[0].removesuffix(":")
    name = go_path(_ADDRESS.sub("", _HIDDEN_CLASS.sub("", name)))
    module = _JVM_MODULE.match(name)
    name = name[module.end() :] if module else name
    return _BUILTIN.sub("", jvm_class(name), count=1).strip()


def simple_name(name: str) -> str:
    """The last part of a class name: `jwt.exceptions.ExpiredSignatureError` becomes `ExpiredSignatureError`."""
    return re.split(r"[.$:/* ]", name.partition(" [")[0])[-1]
