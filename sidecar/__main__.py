"""`python -m sidecar`: the same as the `opencode-memory` command."""

from sidecar.cli import main

raise SystemExit(main())
