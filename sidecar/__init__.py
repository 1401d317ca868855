"""The process around the snapshots: HTTP, command line, settings, time and the event loop."""

__version__ = "0.1.0"

PROTOCOL = 1
"""The version of what shim and sidecar say to each other; in every request and every reply."""
PROTOCOL_HEADER = "Memory-Protocol"
INSTANCE_HEADER = "Memory-Instance"
"""Over TCP: the run's name. Only the endpoint file tells it, so nobody else can answer for it."""
