#!/bin/sh
# Brings a machine with nothing but Python and make to a synced virtual environment in .venv:
# uv (pinned) by pip into .dpp/uv, Python 3.13 (found, or fetched by uv), and every dependency as uv.lock says.
# Prints nothing when all is in place. Repeat at will.
set -eu
UV_VERSION=0.13.9
cd "$(dirname "$0")/.."
uv=.dpp/uv/bin/uv

if [ ! -x "$uv" ] || [ "$("$uv" --version 2>/dev/null | cut -d' ' -f2)" != "$UV_VERSION" ]; then
  mkdir -p .dpp
  if python3 -m venv .dpp/uv 2>/dev/null; then
    .dpp/uv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
  else # Debian without python3-venv: no ensurepip, but pip can install into a folder
    rm -rf .dpp/uv
    python3 -m pip install --quiet --disable-pip-version-check --target .dpp/uv "uv==$UV_VERSION"
  fi
fi

# A pyenv shim named python3.13 fails unless that version is selected, and uv stops at it; so look behind it first.
if [ -z "${UV_PYTHON:-}" ]; then
  for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13.*/bin/python3.13; do
    if [ -x "$candidate" ]; then UV_PYTHON=$candidate; export UV_PYTHON; fi
  done
fi
exec "$uv" sync --quiet --frozen "$@"
