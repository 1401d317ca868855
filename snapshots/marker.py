"""The marker: the first line of every injected text, which tells it from all other messages."""

MARKER_VERSION = 1
MARKER = f"<!-- opencode-agent-memory:snapshot:{MARKER_VERSION} -->"
