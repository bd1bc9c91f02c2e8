"""Paths of an application's files, independent of its installation folder (AUTH-10). Pure."""

import re

_SCHEME = re.compile(r"file:/{0,3}(?=/|[A-Za-z]:)|[a-z-]+://[^/]*/?(?:\([^)]*\)/)?|(?=[A-Za-z]:/)")
_DRIVE = re.compile(r"/?[A-Za-z]:(?=/)")
_QUERY = re.compile(r"\?[^/]*$")
_ROOT = re.compile(
    r"/(?:usr/src/app|usr/local/app|usr/app|var/task|var/runtime|var/www/html|var/www|function/code"
    r"|(?:home|Users)/[^/]+(?:/(?:app|code|work|workspace|project|projects))?"
    r"|root/app|root|opt/app|opt|srv/app|srv|app|code|src|work|workspace|workdir)/"
)


def application_path(path: str) -> str:
    """The last folder and the name of a file, below the usual installation folders of applications.

    Only one folder counts, because an unknown root folder can't be distinguished from a folder below it.
    """
    path = _QUERY.sub("", path.replace("\\", "/"))
    if scheme := _SCHEME.match(path):
        path = path[scheme.end() :]
    if drive := _DRIVE.match(path):
        path = path[drive.end() :]
    if root := _ROOT.match(path):
        path = path[root.end() :]
    return "/".join([part for part in path.split("/") if part not in ("", ".", "..")][-2:])
