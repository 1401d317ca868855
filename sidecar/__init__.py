"""The process around the snapshots: HTTP, command line, settings, time and the event loop."""

__version__ = "0.1.0"
