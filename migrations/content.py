"""The identity of a set of migrations: one hash over the files, the same where they are shipped and where they run."""

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent


def content_hash(folder: Path = FOLDER) -> str:
    """SHA-256 over names and contents of every source file below `folder`; byte code and caches don't count."""
    digest = hashlib.sha256()
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.sql"))):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
