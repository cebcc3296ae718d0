"""`module:server` in, server out."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
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
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    except InvalidArgument:
        raise
    except Exception as error:
        raise InvalidArgument(f"{place} cannot be imported:\n{_authors_part(error)}") from error
    servers = _servers(module)
    if name and name in servers:
        return servers[name]
    if not servers:
        raise InvalidArgument(
            f'{place} has no server; make one with server = TaskServer("name"), or name another module.'
        )
    there_is = ", ".join(f"{place}:{server}" for server in servers)
    if name:
        raise InvalidArgument(f"{name!r} in {place} is no MCPServer; there is {there_is}.")
    if len(servers) > 1:
        raise InvalidArgument(f"{place} has {len(servers)} servers; there is {there_is}.")
    return next(iter(servers.values()))


def _authors_part(error: Exception) -> str:
    """Return the traceback from the author's first frame on."""
    trace = error.__traceback__
    while trace and trace.tb_next and _is_machinery(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def _is_machinery(filename: str) -> bool:
    return filename in (__file__, importlib.__file__) or filename.startswith("<frozen importlib")


def _servers(module: ModuleType) -> dict[str, MCPServer[Any]]:
    return {name: value for name, value in vars(module).items() if isinstance(value, MCPServer)}


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
