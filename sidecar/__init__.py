"""The process around the snapshots: HTTP, command line, settings, time and the event loop."""

__version__ = "0.1.0"

PROTOCOL = 1
"""The version of what shim and sidecar say to each other; in every request and every reply."""
PROTOCOL_HEADER = "Memory-Protocol"
