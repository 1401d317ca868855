"""The user's choices: `agent-memory.json` in OpenCode's configuration folders.

One wrong value costs that value only: it is reported, its default holds, and so does the rest.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from snapshots.blocks import DEFAULT_LIMIT, MAX_LIMIT, Block, MemoryFolders, read_blocks
from snapshots.edits import Policy
from snapshots.errors import raise_if_exhausted
from snapshots.metadata import Placement, SubagentPolicy, Terms
from snapshots.regular import read_regular
from snapshots.render import render
from snapshots.trust import Trust

NAME = "agent-memory.json"
ProjectTrust = Literal["all", "ask", "none"]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What can be chosen, with the defaults. The README's table says what each one does."""

    ask: bool = False
    cache_minutes: Annotated[float, msgspec.Meta(gt=0, le=100_000)] = 5
    default_limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT
    extra_folders: tuple[str, ...] = ()
    gitignore: bool = True
    idle_hours: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 12
    global_scope: bool = True
    limit_policy: Policy = "refuse"
    placement: Placement = "message"
    project_scope: bool = True
    project_trust: ProjectTrust = "all"
    subagents: SubagentPolicy = "inject"


_decode = msgspec.json.Decoder(dict[str, Any]).decode


class LoadedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The choices, which file each one is from (no entry: the default), and what is wrong."""

    config: Config
    sources: dict[str, Path]
    problems: tuple[str, ...]


def load_config(config_folders: tuple[Path, ...]) -> LoadedConfig:
    """Read the file of each folder; a later one overrides an earlier one, value by value."""
    values: dict[str, Any] = {}
    sources: dict[str, Path] = {}
    problems: list[str] = []
    for folder in config_folders:
        file = folder / NAME
        for name, value in _read(file, problems).items():
            problem = _problem(name, value)
            if problem:
                problems.append(f"{file}: {problem}")
            else:
                values[name] = value
                sources[name] = file
    return LoadedConfig(
        config=msgspec.convert(values, Config), sources=sources, problems=tuple(problems)
    )


def memory_folders(
    config: Config, config_folders: tuple[Path, ...], directory: Path
) -> MemoryFolders:
    """Return where the blocks of one project and its user lie."""
    extra = [Path(folder).expanduser() for folder in config.extra_folders]
    global_folders = [folder / "memory" for folder in config_folders] + extra
    project_folder = directory / ".opencode/memory"
    return MemoryFolders(
        global_folders=tuple(global_folders) if config.global_scope else (),
        project_folder=project_folder if config.project_scope else None,
        project_root=directory,
        default_limit=config.default_limit,
    )


def render_memory(
    config: Config,
    config_folders: tuple[Path, ...],
    directory: Path,
    trust_folder: Path,
    policy: SubagentPolicy = "inject",
) -> str:
    """Return what a session of this policy is given now; "" is nothing.

    `trust_folder` says what the user has seen of the project's blocks.
    """
    if policy == "skip":
        return ""
    if policy == "project-only":
        config = msgspec.structs.replace(config, global_scope=False)
    blocks = read_blocks(memory_folders(config, config_folders, directory)).blocks
    return render(trusted(blocks, config.project_trust, Trust(trust_folder, directory)))


def choose_terms(config: Config, parent_id: str | None) -> Terms:
    """Return what is decided now for the whole life of a session that begins.

    `parent_id` is the session that started it, if it is a subagent's.
    """
    policy = "inject" if parent_id is None else config.subagents
    return Terms(placement=config.placement, policy=policy)


def trusted(blocks: tuple[Block, ...], policy: ProjectTrust, trust: Trust) -> list[Block]:
    """Leave out the blocks of the repository that the user's choice keeps away from the model."""
    if policy == "all":
        return list(blocks)
    if policy == "none":
        return [block for block in blocks if block.scope != "project"]
    standings = zip(blocks, trust.standings(blocks), strict=True)
    return [block for block, standing in standings if standing == "seen"]


def _read(file: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return _decode(read_regular(file)[0])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise_if_exhausted(error)
        problems.append(f"{file} can't be read ({error.strerror}); the defaults hold.")
    except msgspec.MsgspecError as error:
        problems.append(f"{file} is not a JSON object ({error}); the defaults hold.")
    return {}


def _problem(name: str, value: Any) -> str | None:
    if name not in Config.__struct_fields__:
        known = ", ".join(Config.__struct_fields__)
        return f"{name!r} is not a setting; it is passed over. The settings are {known}."
    try:
        config = msgspec.convert({name: value}, Config)
    except msgspec.ValidationError as error:
        return f"{name} has no valid value ({error}); its default holds."
    relative = [folder for folder in config.extra_folders if not _is_absolute(folder)]
    if relative:
        return f"{name} has {relative[0]!r}, which is not absolute; its default holds."
    return None


def _is_absolute(folder: str) -> bool:
    return folder.startswith("~/") or Path(folder).is_absolute()
