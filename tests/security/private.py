"""For `coatcheck serve tests.security.private`."""

import os

from coatcheck.server import JWTVerifier
from tests.access.issuer import AUDIENCE, KEYS
from tests.security.app import private

issuer = os.environ["SECURITY_ISSUER"]
server = private(JWTVerifier(issuer, audience=AUDIENCE, jwks=issuer + KEYS, scopes=["books"], leeway=0))
