"""For `coatcheck serve tests.security.anyones`."""

from tests.security.app import anyones

server = anyones()
