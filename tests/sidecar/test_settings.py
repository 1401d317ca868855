from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.settings import leave_certificates_unread, load_settings


def test_folders_follow_opencode_on_every_platform() -> None:
    settings = load_settings({"HOME": "/home/ada"})
    assert settings.data_folder == Path("/home/ada/.local/share/opencode/agent-memory")
    assert settings.config_folders == (Path("/home/ada/.config/opencode"),)


@pytest.mark.parametrize("before", [None, "/mine"])
def test_the_certificates_of_the_user_are_named_again_after_the_start(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if before is not None:
        monkeypatch.setenv("SSL_CERT_FILE", before)
    restore = leave_certificates_unread()
    assert os.environ["SSL_CERT_FILE"] == os.devnull
    restore()
    assert os.environ.get("SSL_CERT_FILE") == before


def test_xdg_variables_are_followed_and_empty_ones_are_none() -> None:
    variables = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/elsewhere/c", "XDG_DATA_HOME": ""}
    settings = load_settings(variables)
    assert settings.config_folders == (Path("/elsewhere/c/opencode"),)
    assert settings.data_folder == Path("/home/ada/.local/share/opencode/agent-memory")


def test_a_relative_folder_is_taken_from_here_as_the_host_does() -> None:
    settings = load_settings({"HOME": "/home/ada", "XDG_DATA_HOME": "data"})
    assert settings.data_folder == Path.cwd() / "data/opencode/agent-memory"


def test_the_extra_config_folder_comes_after_the_users_own_and_only_once() -> None:
    variables = {"HOME": "/h", "OPENCODE_CONFIG_DIR": "/extra"}
    assert load_settings(variables).config_folders == (Path("/h/.config/opencode"), Path("/extra"))
    variables["OPENCODE_CONFIG_DIR"] = "/h/.config/opencode"
    assert load_settings(variables).config_folders == (Path("/h/.config/opencode"),)
