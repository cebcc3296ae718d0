"""Calls over HTTP that end soon: past the SDK on both sides, unless something about them is unusual."""
