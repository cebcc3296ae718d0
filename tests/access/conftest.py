"""The mark for requirements."""

from tests.requirements.marks import pytest_configure

__all__ = ["pytest_configure"]
