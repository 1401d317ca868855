"""A sandbox for every test: its own HOME and XDG folders, and none of the developer's settings."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from sidecar.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# How fast a busy machine makes examples says nothing about the product.
hypothesis_settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The user's home for this process and every child of it."""
    for name in list(os.environ):
        if name.startswith(("XDG_", "OPENCODE_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    # Short, since a socket's path may have a hundred bytes and tmp_path has most of them.
    runtime = Path(tempfile.mkdtemp(prefix="ocm-"))
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    yield folder
    shutil.rmtree(runtime)


@pytest.fixture
def settings(home: Path) -> Settings:
    """Where everything lies in that home."""
    return load_settings()
