"""The AWS account of a test."""

from pathlib import Path

import pytest

from tests.workspaces.providers.aws_account import Account


@pytest.fixture
def account(aws: None, tmp_path: Path) -> Account:
    return Account(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder
