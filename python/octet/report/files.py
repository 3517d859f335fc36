"""Files written whole or not at all, and sets of them: all are complete beside their places before any is renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from .documents import ReportError


def write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write each of `contents` to folder/name. On any error before the first rename nothing there has changed."""
    temporaries: dict[Path, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            temporary = folder / f".{name}.{os.getpid()}.tmp"
            temporaries[temporary] = folder / name
            with open(temporary, "xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        for temporary, path in temporaries.items():
            os.replace(temporary, path)
    except OSError as error:
        raise ReportError(f"--output {folder} cannot be written ({error.strerror}): choose a folder that can") from error
    finally:
        for temporary in temporaries:
            with contextlib.suppress(OSError):  # after its rename it is gone, as it should be
                temporary.unlink()
