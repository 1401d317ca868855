"""Where everything lies. The only module that reads the environment or asks platformdirs."""

from __future__ import annotations

import os
from pathlib import Path

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_APPLICATION = "opencode-memory"


class Settings:
    """The resolved folders of one user.

    `data_folder` is ours inside OpenCode's data directory: snapshots, endpoint, and the lock that
    makes one process their owner. `config_folders` are OpenCode's, in its own order. Both follow
    OpenCode's rule, which is XDG's on every platform, and not that platform's custom.
    """

    __slots__ = ("config_folders", "data_folder", "editor")

    def __init__(
        self, *, data_folder: Path, config_folders: tuple[Path, ...], editor: str | None = None
    ) -> None:
        self.data_folder = data_folder
        self.config_folders = config_folders
        self.editor = editor  # a command line

    @property
    def snapshot_folder(self) -> Path:
        """One file per session."""
        return self.data_folder / "snapshots"

    @property
    def origin_folder(self) -> Path:
        """One file per beginning of a history: how a fork finds its parent's snapshot."""
        return self.data_folder / "origins"

    @property
    def endpoint_file(self) -> Path:
        """How to reach the sidecar that owns `data_folder`."""
        return self.data_folder / "endpoint.json"

    @property
    def lock_file(self) -> Path:
        """Held by that sidecar as long as it lives."""
        return self.data_folder / "sidecar.lock"

    @property
    def wake_file(self) -> Path:
        """A pipe, by which that sidecar is told to see whether it can be reached."""
        return self.data_folder / "sidecar.wake"

    @property
    def launcher_file(self) -> Path:
        """How the shim starts a sidecar for `data_folder`."""
        return self.data_folder / "launcher.json"

    @property
    def trust_folder(self) -> Path:
        """What the user has seen of each project's memory blocks."""
        return self.data_folder / "trust"

    @property
    def ledger_file(self) -> Path:
        """What the steps of each session have cost."""
        return self.data_folder / "usage.sqlite3"

    @property
    def lock_folder(self) -> Path:
        """One lock per memory block that is being written."""
        return self.data_folder / "locks"


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Resolve the settings from the environment (by default the process's own)."""
    variables = os.environ if environment is None else environment
    home = Path(variables.get("HOME") or Path.home())
    data = _xdg(variables, "XDG_DATA_HOME", home / ".local" / "share")
    configs = [_xdg(variables, "XDG_CONFIG_HOME", home / ".config") / "opencode"]
    if extra := variables.get("OPENCODE_CONFIG_DIR"):
        configs.append(Path(extra).absolute())
    return Settings(
        data_folder=data / "opencode" / "agent-memory",
        config_folders=tuple(dict.fromkeys(configs)),
        editor=variables.get("VISUAL") or variables.get("EDITOR"),
    )


def process_variables() -> Mapping[str, str]:
    """Return the environment, for what a service manager says in it."""
    return os.environ


def leave_certificates_unread() -> Callable[[], None]:
    """Have what is imported from now on read no certificates; returns what ends that.

    aiohttp reads them all when it is imported, a fifth of the sidecar's start, and for its TLS
    client, which the sidecar does not use.
    """
    name = "SSL_CERT_FILE"
    before = os.environ.get(name)
    os.environ[name] = os.devnull

    def restore() -> None:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before

    return restore


def runtime_folder() -> Path:
    """Return where this user's sockets belong; private to the user, gone after a reboot."""
    import sys
    import warnings

    if sys.platform == "linux" and (folder := os.environ.get("XDG_RUNTIME_DIR")):
        return Path(folder) / _APPLICATION  # what platformdirs says, before it is imported

    import platformdirs

    with warnings.catch_warnings():
        # No XDG_RUNTIME_DIR (cron, containers, ssh) is nothing the user has to act on.
        warnings.simplefilter("ignore")
        return platformdirs.user_runtime_path(_APPLICATION, appauthor=False)


def log_file() -> Path:
    """Return where a sidecar in the background writes its log."""
    import platformdirs

    return platformdirs.user_log_path(_APPLICATION, appauthor=False) / "sidecar.log"


def _xdg(variables: Mapping[str, str], name: str, default: Path) -> Path:
    """Return the folder as OpenCode does: an empty value is none, a relative one is taken."""
    return Path(variables.get(name) or default).absolute()
