"""Modules for the processes of worker_processes.py, imported only by the server that forks them.

With boto3's default session: its data of a service takes twenty times as long to read as a client to make of it.
"""

from typing import Any

import boto3
import pytest

from tests.auth_errors import subprocess_workers as of_auth_errors
from tests.workspaces import subprocess_workers as of_workspaces

__all__ = ["of_auth_errors", "of_workspaces", "pytest"]

_KEYS: dict[str, Any] = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}
boto3.client("sqs", **_KEYS).close()
boto3.client("s3", **_KEYS).close()
