"""How tasks look on the wire, one module per protocol generation. Pure: no SDK, no engine, no store."""
