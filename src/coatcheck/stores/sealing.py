"""Encryption at rest: AES-256-GCM with a key of its own for every task.

A sealed value is `cc1`, the id of the key (4 bytes), a nonce (12 bytes), then ciphertext and tag. What it belongs to
(task, owner, field) is authenticated with it, so nothing can be moved to another row.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from coatcheck.errors import KeyRefused

_MAGIC = b"cc1"
_HEAD = len(_MAGIC) + 4 + 12


class Keyring:
    """Seals with the first key, opens with any of them."""

    def __init__(self, keys: str) -> None:
        """Take base64 keys of 32 bytes, separated by commas: the current one first, then older ones."""
        masters = [_read_key(text) for text in keys.split(",") if text.strip()]
        if not masters:
            raise KeyRefused(f"The encryption key is empty; {_ADVICE}")
        self._masters = {_id_of(master): master for master in masters}
        self._current = _id_of(masters[0])
        self.key_id = self._current.hex()
        self.key_ids = {key_id.hex() for key_id in self._masters}

    def seal(self, plain: bytes, task_id: str, owner: str | None, field: str) -> bytes:
        nonce = os.urandom(12)
        box = _box(self._masters[self._current], task_id)
        return b"".join((_MAGIC, self._current, nonce, box.encrypt(nonce, plain, _context(task_id, owner, field))))

    def open(self, sealed: bytes, task_id: str, owner: str | None, field: str) -> bytes:
        key_id, nonce = sealed[len(_MAGIC) : len(_MAGIC) + 4], sealed[len(_MAGIC) + 4 : _HEAD]
        if not sealed.startswith(_MAGIC) or len(nonce) < 12:
            raise KeyRefused(f"Task {task_id} is neither plain nor sealed by coatcheck; the store may be damaged.")
        master = self._masters.get(key_id)
        if master is None:
            raise KeyRefused(
                f"Task {task_id} was sealed with key {key_id.hex()}, which COATCHECK_KEY does not hold; "
                "add that key after the current one, separated by a comma."
            )
        try:
            return _box(master, task_id).decrypt(nonce, sealed[_HEAD:], _context(task_id, owner, field))
        except InvalidTag:
            raise KeyRefused(
                f"Task {task_id} was changed after it was sealed, or moved from another task; it is not trusted."
            ) from None


def new_key() -> str:
    """Return a fresh key, as COATCHECK_KEY takes it."""
    return base64.b64encode(os.urandom(32)).decode()


_ADVICE = "make one with: python -c 'import coatcheck; print(coatcheck.new_key())'"


def _read_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise KeyRefused(f"An encryption key must be 32 bytes in base64; {_ADVICE}")
    return key


def _id_of(master: bytes) -> bytes:
    return hashlib.blake2b(master, digest_size=4, person=b"coatcheck-id").digest()


def _box(master: bytes, task_id: str) -> AESGCM:
    # Random nonces wear a key out after some 2^32 messages; a key per task never gets there.
    return AESGCM(hashlib.blake2b(task_id.encode(), key=master, digest_size=32, person=b"coatcheck-task").digest())


def _context(task_id: str, owner: str | None, field: str) -> bytes:
    parts = ("1", task_id, "-" if owner is None else f"+{owner}", field)
    return b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
