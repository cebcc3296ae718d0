"""Modules that cost much to import, imported when something of them is used."""

from __future__ import annotations

import importlib
from typing import Any


class _Later:
    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)


def later(module: str) -> Any:
    """Stand in for a module until one of its names is asked for."""
    return _Later(module)
