"""A clock that is turned by hand."""

from datetime import datetime, timedelta

from coatcheck.testing.builders import NOW


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def turn(self, **by: float) -> None:
        self.now += timedelta(**by)
