"""The files of a storage, and the listings of its folders."""

from __future__ import annotations


class Files:
    """Files by path. A folder exists while it contains files, as in an object store."""

    def __init__(self) -> None:
        """Create an empty storage."""
        self._contents: dict[str, bytes] = {}
        self._folders: dict[str, dict[str, float]] = {}
        """Folder -> name -> time from which listings contain the name."""

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `FileNotFoundError`."""
        try:
            return self._contents[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def contains(self, path: str) -> bool:
        """Return whether a file exists."""
        return path in self._contents

    def write(self, path: str, data: bytes, listed_at: float) -> None:
        """Create or replace a file.

        Args:
            path: path of the file.
            data: content.
            listed_at: time from which listings contain a new file.
        """
        self._contents[path] = data
        while "/" in path:
            path, name = path.rsplit("/", 1)
            names = self._folders.setdefault(path, {})
            names[name] = min(names.get(name, listed_at), listed_at)

    def remove(self, path: str) -> None:
        """Remove a file, and the folders that are empty then. Raises `FileNotFoundError`."""
        self.read(path)
        del self._contents[path]
        while "/" in path and path not in self._folders:
            path, name = path.rsplit("/", 1)
            del self._folders[path][name]
            if not self._folders[path]:
                del self._folders[path]

    def names(self, folder: str, now: float) -> list[str]:
        """Return the names that a listing of a folder contains now. Raises `FileNotFoundError`."""
        if folder not in self._folders:
            raise FileNotFoundError(folder)
        return sorted(name for name, listed_at in self._folders[folder].items() if listed_at <= now)

    def paths(self, folder: str = "") -> list[str]:
        """Return the paths of all files below a folder, listed or not."""
        return [path for path in self._contents if path.startswith(f"{folder}/" if folder else "")]
