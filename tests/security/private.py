"""For `coatcheck serve tests.security.private`."""

from tests.security.app import private

server = private()
