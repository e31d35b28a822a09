"""The commands and options of the linter, from its argparse form."""

from __future__ import annotations

import argparse

from pygraph_lint.commands.arguments import parser


def options() -> str:
    """A section for each command."""
    built = parser()
    commands = next(
        action for action in built._actions if isinstance(action, argparse._SubParsersAction)
    )
    helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    parts = [_command(name, one, helps[name]) for name, one in commands.choices.items()]
    return "\n".join(parts)


def _command(name: str, one: argparse.ArgumentParser, said: str) -> str:
    lines = [f"## pygraph-lint {name}\n", f"{said[:1].upper()}{said[1:]}.\n"]
    if one.description:
        lines.append(f"{one.description}\n")
    for group in one._action_groups:
        actions = [action for action in group._group_actions if action.dest != "help"]
        if not actions:
            continue
        title = {"positional arguments": "arguments"}.get(group.title or "", group.title)
        lines += [f"### {name}: {title}\n", "| option | meaning |", "| --- | --- |"]
        lines += [_row(action) for action in actions]
        lines.append("")
    return "\n".join(lines)


def _row(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    if not action.option_strings:
        shown = f"`{value or action.dest}`"
    else:
        takes = f" {value or action.dest.upper()}" if action.nargs != 0 else ""
        shown = ", ".join(f"`{flag}{takes}`" for flag in action.option_strings)
    text = (action.help or "").replace("|", "\\|")
    if action.choices:
        one_of = ", ".join(f"`{choice}`" for choice in action.choices)
        text = f"{text + ': ' if text else 'one of '}{one_of}"
    return f"| {shown} | {text} |"
