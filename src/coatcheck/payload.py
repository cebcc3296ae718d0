"""JSON as bytes: encoded once when it comes in, spliced wherever it goes."""

from __future__ import annotations

from typing import Any

import msgspec

from coatcheck.errors import InvalidArgument

Payload = msgspec.Raw
"""An encoded JSON value. It compares by its bytes and nothing can change it."""

_encoder = msgspec.json.Encoder()
_canonical = msgspec.json.Encoder(order="deterministic")


def encode(value: Any) -> Payload:
    """Encode any JSON-like value.

    Raises:
        InvalidArgument: The value has no JSON form.
    """
    if isinstance(value, msgspec.Raw):
        return value
    try:
        try:
            return Payload(_encoder.encode(value))
        except UnicodeEncodeError:
            return Payload(_encoder.encode(_without_surrogates(msgspec.to_builtins(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"This value has no JSON form: {error}") from error


def decode(payload: Payload | msgspec.UnsetType) -> Any:
    """Return the value behind a payload, such as a task's result; None if there is none."""
    return None if payload is msgspec.UNSET else msgspec.json.decode(payload)


def canonical(payload: Payload) -> bytes:
    """Return bytes that are equal for equal JSON, whatever the order of its keys."""
    return _canonical.encode(decode(payload))


def text(said: object) -> str:
    """Return what something says of itself, as it can be written, also if it fails to say anything."""
    try:
        return _without_surrogates(str(said))
    except Exception:
        return f"(a {type(said).__name__} that cannot be read)"


def _without_surrogates(value: Any) -> Any:
    """Tools pass on text they did not write; half a surrogate pair must not cost them their outcome."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [_without_surrogates(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
