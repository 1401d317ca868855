"""`opencode-memory verify`: your own OpenCode against a recording provider, and what it sends."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from sidecar.cli.output import CommandError, ExitCode, Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from sidecar.host import Host
    from sidecar.settings import Settings
    from sidecar.verify.script import Sent
    from sidecar.verify.verdict import Verdict

BYTES_PER_TOKEN = 4
"""For `--compare`: near enough for English and code; both sides are counted alike."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """With which plugins, and what to compare."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--without-plugins", action="store_true", help="leave out all plugins but this one"
    )
    which.add_argument(
        "--plugin", metavar="NAME", help="leave out all plugins but this one and NAME"
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="run the script with memory and without, and say what memory costs in tokens",
    )


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Play the script in a sandbox, judge every request, and find out who moved the prefix."""
    from sidecar.verify.culprit import find_culprit
    from sidecar.verify.sandbox import VerifyError
    from sidecar.verify.verdict import judge

    # A process that is told to end takes its host and its folder with it.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    trial = _Trial(settings, _find_host(), _choice(options), _progress(options))
    try:
        conversation, plugins = trial.play()
        if options.plugin and options.plugin not in plugins:
            raise CommandError(
                "no_such_plugin",
                f"There is no plugin {options.plugin}. Without --plugin, all are named.",
            )
        verdicts = judge(conversation)
        broken = [verdict for verdict in verdicts if verdict.broke]
        culprit = find_culprit(broken[0], plugins, trial.breaks_without) if broken else None
        prices = trial.compare(verdicts) if options.compare else None
    except VerifyError as error:
        raise CommandError(error.code, str(error)) from error
    return Result(
        _text(verdicts, plugins, culprit, prices),
        _data(verdicts, plugins, culprit, prices),
        exit_code=ExitCode.FAILED if broken else ExitCode.DONE,
    )


class _Trial:
    """Runs of the script, each in a sandbox of its own that is gone afterwards."""

    def __init__(
        self,
        settings: Settings,
        host: Host,
        keep: Callable[[str], bool],
        told: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._host = host
        self._keep = keep
        self._told = told

    def play(
        self, without: frozenset[str] = frozenset(), *, memory: bool = True, short: bool = False
    ) -> tuple[list[Sent], list[str]]:
        """Return the conversation, and the names of the other plugins in it."""
        import shutil
        import tempfile

        from sidecar.verify.sandbox import Sandbox
        from sidecar.verify.script import play

        folder = Path(tempfile.mkdtemp(prefix="ocm-verify-"))
        try:
            sandbox = Sandbox(
                self._settings,
                self._host,
                folder,
                lambda name: self._keep(name) and name not in without,
                memory=memory,
            )
            return play(sandbox, short=short, told=self._told), sandbox.plugins
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def breaks_without(self, names: frozenset[str]) -> Sequence[Verdict]:
        """Return the unexpected breaks of the short script without these plugins."""
        from sidecar.verify.verdict import judge

        self._told(f"again, without {', '.join(sorted(names))}")
        conversation, _plugins = self.play(names, short=True)
        return [verdict for verdict in judge(conversation) if verdict.broke]

    def compare(self, with_memory: Sequence[Verdict]) -> dict[str, dict[str, int]]:
        """Return what both cost: tokens that were read from a cache, and those that were not."""
        from sidecar.verify.verdict import judge

        self._told("again, without memory")
        conversation, _plugins = self.play(memory=False)
        return {"with memory": _price(with_memory), "without memory": _price(judge(conversation))}


def _price(verdicts: Sequence[Verdict]) -> dict[str, int]:
    repeated = sum(verdict.repeated for verdict in verdicts)
    size = sum(verdict.size for verdict in verdicts)
    return {
        "requests": len(verdicts),
        "cached": repeated // BYTES_PER_TOKEN,
        "not cached": (size - repeated) // BYTES_PER_TOKEN,
    }


def _find_host() -> Host:
    from sidecar.host import find_host

    host = find_host()
    if host is None:
        raise CommandError("no_host", "There is no `opencode` on PATH; install it first.")
    if host.is_too_old:
        raise CommandError("host_too_old", host.refusal)
    return host


def _choice(options: argparse.Namespace) -> Callable[[str], bool]:
    if options.without_plugins:
        return lambda _name: False
    if options.plugin:
        return lambda name: bool(name == options.plugin)
    return lambda _name: True


def _progress(options: argparse.Namespace) -> Callable[[str], None]:
    """Return what is told of a step as it begins: on stderr, if somebody looks."""
    if options.json or not sys.stderr.isatty():
        return lambda _step: None
    return lambda step: print(f"... {step}", file=sys.stderr)


def _text(
    verdicts: Sequence[Verdict],
    plugins: Sequence[str],
    culprit: str | None,
    prices: dict[str, dict[str, int]] | None,
) -> str:
    lines = [f"Beside this plugin: {', '.join(plugins) or 'no other'}. MCP servers are left out."]
    for verdict in verdicts:
        share = f"{verdict.repeated / verdict.size * 100:5.1f} %" if verdict.size else "    - "
        if verdict.difference is None:
            said = f"extends request {verdict.extends}" if verdict.extends else "the first one"
        else:
            said = f"breaks at {verdict.difference.place}"
            said += ", as it has to" if verdict.expected else ", UNEXPECTEDLY"
        lines.append(
            f"{verdict.number:3}  {share} of {verdict.size:,} bytes were sent before: "
            f"{said} ({verdict.step})"
        )
        if verdict.broke and verdict.difference:
            lines.append(f"       was {verdict.difference.before!r}")
            lines.append(f"       is  {verdict.difference.after!r}")
    broken = sum(verdict.broke for verdict in verdicts)
    lines.append(f"{broken} unexpected breaks in {len(verdicts)} requests.")
    if culprit:
        lines.append(f"Most likely it is {culprit}.")
    if prices:
        lines += _price_lines(prices)
    return "\n".join(lines)


def _price_lines(prices: dict[str, dict[str, int]]) -> list[str]:
    lines = [f"The price, as a perfect cache would have it ({BYTES_PER_TOKEN} bytes a token):"]
    lines += [
        f"  {name:14}  {price['requests']} requests, {price['not cached']:,} tokens not cached or "
        f"written to the cache, {price['cached']:,} read from it"
        for name, price in prices.items()
    ]
    more = prices["with memory"]["not cached"] - prices["without memory"]["not cached"]
    return [*lines, f"  memory costs {more:,} tokens more that are not read from the cache"]


def _data(
    verdicts: Sequence[Verdict],
    plugins: Sequence[str],
    culprit: str | None,
    prices: dict[str, dict[str, int]] | None,
) -> dict[str, object]:
    return {
        "plugins": list(plugins),
        "requests": [
            {
                "number": verdict.number,
                "step": verdict.step,
                "size": verdict.size,
                "repeated": verdict.repeated,
                "extends": verdict.extends,
                "expected": verdict.expected,
                "difference": verdict.difference and vars(verdict.difference),
            }
            for verdict in verdicts
        ],
        "unexpected": sum(verdict.broke for verdict in verdicts),
        "culprit": culprit,
        "prices": prices,
    }
