"""`python -m sidecar`: the same as the `opencode-memory` command."""

from sidecar.cli import console

console()
