"""What `ftw play` and `ftw replay` show of an incident: completion, and what was hidden."""

from __future__ import annotations

from ftw_envs.incident.commands import FIELDS, INSPECT, TOPICS, CommandGrammar
from ftw_envs.incident.env import IncidentEnv
from ftw_envs.incident.log import ACTS
from ftw_envs.incident.score import as_said

_KEYS = (*FIELDS, "by", "how", "since", "until", "n")


def words_after(grammar: CommandGrammar, before: str) -> list[str]:
    """What may come next on a line: verbs at its start, values after a "=", else all the rest.

    Args:
        before: the line up to the word that is being typed.
    """
    words = before.split()
    if not words:
        return list(grammar.verbs)
    verb, key = words[0], words[-1].partition("=")[0]
    handles = [w for kind in grammar.handles.values() for w in kind]
    if before.endswith(("=", ",")):
        sources = [s for s in grammar.level.sources if s in words]
        values = {
            "by": list(FIELDS),
            "act": [a for s in sources for a in ACTS[s]],
            **{k: [*v, "unknown"] for k, v in grammar.words.items()},
        }
        return values.get(key, handles)
    if verb in ("set", "drop", "help"):
        end = "=" if verb == "set" else ""
        return [f"{slot}{end}" for slot in grammar.level.slots]
    if verb in ("search", "count"):
        return [*grammar.level.sources] if len(words) == 1 else [f"{k}=" for k in _KEYS]
    if len(words) == 2 and verb in ("inspect", "ask"):
        return list(INSPECT if verb == "inspect" else TOPICS)
    return ["host=", "user="] if verb == "tickets" else handles


def complete_with_tab(env: IncidentEnv) -> None:
    """Lets the Tab key complete verbs, keys and handles, if the terminal can."""
    try:
        import readline
    except ImportError:  # Windows
        return

    def complete(word: str, state: int) -> str | None:
        line = readline.get_line_buffer()[: readline.get_begidx()]
        grammar = env.grammar
        assert isinstance(grammar, CommandGrammar)
        found = [w for w in words_after(grammar, line) if w.startswith(word)]
        if state >= len(found):
            return None
        return found[state] + ("" if found[state].endswith("=") else " ")

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n=,")
    readline.parse_and_bind("tab: complete")


def hidden_story(env: IncidentEnv, timeline: bool = True) -> list[str]:
    """What happened and what the attacker did, a line each; only after the end."""
    info = env._info()
    lines = [f"{slot}: {as_said(value)}" for slot, value in info["truth"].items()]
    right = [s for s, x in (info["slots"] or {}).items() if x == 1]
    lines.append(
        f"right: {', '.join(right) or 'nothing'}; partial score {info['partial'] or 0:.2f}"
    )
    if env.level.reacts:
        lines.append("the attacker is out" if info["attacker_out"] else "the attacker is still in")
    story = env.timeline() if timeline else []
    if story:
        lines += ["what he did:", *(f"  t{minute:+d} {text}" for minute, text in story)]
    return lines
