"""The handlers, one module per noun: each checks, calls `snapshots`, and answers."""
