"""`module:server` in, server out."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from mcp.server.mcpserver import MCPServer

from coatcheck.errors import InvalidArgument


def load_server(target: str) -> MCPServer[Any]:
    """Return the server named by `module:name`, or by `path/to/file.py:name`; the name may be left out.

    Raises:
        InvalidArgument: There is no such module, or no server in it.
    """
    place, _, name = target.partition(":")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    if name:
        found = getattr(module, name, None)
        if not isinstance(found, MCPServer):
            raise InvalidArgument(f"{name!r} in {place} is no MCPServer; {_hint(module)}.")
        return found  # pyright: ignore[reportUnknownVariableType]
    servers = _servers(module)
    if len(servers) != 1:
        raise InvalidArgument(f"{place} has {len(servers)} servers; {_hint(module)}.")
    return next(iter(servers.values()))


def _servers(module: ModuleType) -> dict[str, MCPServer[Any]]:
    return {name: value for name, value in vars(module).items() if isinstance(value, MCPServer)}


def _hint(module: ModuleType) -> str:
    names = ", ".join(f"{module.__name__}:{name}" for name in _servers(module))
    return f"there is {names}" if names else "name one as module:server"


def _load_module(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidArgument(
                f"There is no module {name!r} here; name one as module:server or file.py:server."
            ) from None
        raise


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidArgument(f"There is no file {path}; name one as module:server or file.py:server.")
    sys.path.insert(0, str(path.parent.absolute()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
