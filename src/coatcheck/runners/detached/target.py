"""How another process finds what this one has: `module:name`, or `path/to/file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from coatcheck.errors import InvalidArgument

_MAIN = "__main__"


def find(thing: object) -> str | None:
    """Return where a module has this very object at its top level, if one has."""
    # The module that makes it is a better address than a program that only imports it.
    modules = sorted(sys.modules.copy().items(), key=lambda item: item[0] == _MAIN)
    for module_name, module in modules:
        if isinstance(module, ModuleType) and (place := _place(module_name, module)):  # pyright: ignore[reportUnnecessaryIsInstance]
            for name, value in list(vars(module).items()):
                if value is thing:
                    return f"{place}:{name}"
    return None


def load(target: str) -> Any:
    """Import what `find` has found.

    Raises:
        InvalidArgument: It is not there.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InvalidArgument(f"{target!r} names nothing; write module:name, or path/to/file.py:name.")
    module = _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidArgument(f"There is no {name!r} in {place}.")
        found = getattr(found, part)
    return found


def _place(name: str, module: ModuleType) -> str | None:
    if name != _MAIN:
        return name
    if spec := getattr(module, "__spec__", None):  # python -m package.module
        return spec.name
    file = getattr(module, "__file__", None)
    return str(Path(file).absolute()) if file and file.endswith(".py") else None


def _load_file(path: Path) -> ModuleType:
    """Import a program without running it: it is not `__main__` here."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InvalidArgument(f"There is no file {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
