"""Tell whether the installed pyspark is whole: `pyspark-client` installs into the same folder and may overwrite it.

Exits with 1 and names the first damaged file if it is not.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from importlib.metadata import PackagePath, distribution
from pathlib import Path


def damaged(path: PackagePath) -> bool:
    """Whether an installed file is missing or is not the one that the package recorded."""
    if path.hash is None or path.suffix != ".py":
        return False
    location = Path(path.locate())
    if not location.is_file():
        return True
    digest = hashlib.new(path.hash.mode, location.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != path.hash.value


def main() -> int:
    """Check every Python file of pyspark."""
    pyspark = distribution("pyspark")
    first = next((path for path in pyspark.files or () if damaged(path)), None)
    if first is None:
        return 0
    print(f"pyspark {pyspark.version} is damaged: {first} is not its own. Reinstall pyspark, after pyspark-client.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
