"""`opencode-memory service`: the sidecar under the platform's service manager."""

from __future__ import annotations

from sidecar.cli.output import CommandError, ExitCode, Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.service import Service, State
    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do with it."""
    parser.add_argument(
        "action",
        choices=("install", "uninstall", "status"),
        help="have the sidecar run from now on, take that back, or say how it is",
    )


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Do it with the service manager that is there."""
    from sidecar.service import ServiceError, find_service

    act = {"install": _install, "uninstall": _uninstall, "status": _status}[options.action]
    try:
        return act(find_service(settings), settings)
    except ServiceError as error:
        raise CommandError(error.code, str(error)) from error


def _install(service: Service, settings: Settings) -> Result:
    from sidecar.background import make_way

    before = service.state()
    if before.as_wanted:
        return Result(f"Already installed: {service.file}", _data(service, before))
    if not before.running:
        make_way(settings)
    service.install()
    done = "Installed" if not before.installed else "Mended" if before.current else "Updated"
    return Result(
        f"{done}: {service.file}\nThe sidecar runs, and starts with every login.",
        _data(service, service.state()),
    )


def _uninstall(service: Service, _settings: Settings) -> Result:
    if not service.state().installed:
        return Result("The service was not installed.", {"removed": None})
    service.uninstall()
    return Result(
        f"Removed {service.file}.\nOpenCode starts the sidecar by itself when it needs it.",
        {"removed": str(service.file)},
    )


def _status(service: Service, _settings: Settings) -> Result:
    state = service.state()
    return Result(
        _text(service, state),
        _data(service, state),
        exit_code=ExitCode.DONE if state.running else ExitCode.NOT_RUNNING,
    )


def _text(service: Service, state: State) -> str:
    if not state.installed:
        return f"not installed ({service.manager}); install it: opencode-memory service install"
    said = [
        "running" if state.running else "not running",
        "starts with every login" if state.enabled else "does not start with a login",
    ]
    lines = [f"{', '.join(said)} ({service.manager}: {service.file})"]
    if not state.current:
        lines.append("The file is of another installation; run: opencode-memory service install")
    elif not state.as_wanted:
        lines.append("Mend it: opencode-memory service install")
    return "\n".join(lines)


def _data(service: Service, state: State) -> dict[str, object]:
    return {
        "manager": service.manager,
        "file": str(service.file),
        "installed": state.installed,
        "current": state.current,
        "enabled": state.enabled,
        "running": state.running,
    }
