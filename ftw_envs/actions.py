"""From what an agent wrote to the action it means.

`ActionGrammar.parse` is total: any string gives a `Parsed`, which holds either
exactly one action or a one-line error that says what would have been right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_REPLY_CHARS = 20_000
"""Longer replies are unusable: no answer needs that many, and parsing stays cheap."""

_THINK = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.IGNORECASE | re.DOTALL)
# Explicit answer marks, strongest first. Only the strongest kind present counts.
_MARKS = (
    re.compile(r"<answer>([^<]*)</answer>", re.IGNORECASE),
    re.compile(r"\\boxed\{([^{}]*)\}"),
    re.compile(r"^[ \t*_#>-]*(?:final )?(?:answer|action|move)[ *_]*:([^\n]*)$", re.I | re.M),
    re.compile(r"\[([^\[\]\n]*)\]"),
)
_VERB = re.compile(
    r"^(?:i\s+)?(?:(?:will|would|shall)\s+)?"
    r"(?:go|move|walk|step|push|pick|choose|pull|play|take|select)\s+(?:to\s+)?(?:the\s+)?"
)
_BETWEEN = re.compile(r"[\s,;|>]+")
_TRIM = " \t\r\n.,;!*_`\"'"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a reply means: `action` (and no error), or `error` (and no action)."""

    action: str | None
    error: str | None = None


class ActionGrammar:
    """The answers an environment takes, and how they may be dressed.

    Accepted for the action `left`, in any letter case: `left`, `left.`, `**left**`,
    `go left`, `I will push left`, `Action: left`, `<answer>left</answer>`,
    `\\boxed{left}`, `[left]`. Text inside `<think>...</think>` is ignored. With a
    mark such as `<answer>` present anything may stand around it; without one the
    whole reply has to be the answer, so that a word in passing is never taken for it.
    Two different answers are ambiguous, the same answer twice is not.

    With `max_moves` above 1 an answer may be a sequence of up to that many actions, parted
    by commas, white space, `;`, `|` or `>`; it parses to the actions joined by spaces. It is
    taken as a whole or not at all.

    Args:
        actions: the words an agent may answer; they must differ when case-folded.
        max_moves: actions in one answer, at least 1.

    Raises:
        ValueError: no actions, two that differ in letter case only, or max_moves < 1.
    """

    def __init__(self, actions: Sequence[str], max_moves: int = 1) -> None:
        self.actions = tuple(actions)
        self.max_moves = max_moves
        self._by_word = {a.casefold(): a for a in self.actions}
        if not self.actions or len(self._by_word) != len(self.actions):
            raise ValueError(f"actions must be non-empty and distinct, got {self.actions}")
        if max_moves < 1:
            raise ValueError(f"max_moves must be at least 1, got {max_moves}")
        known = ", ".join(self.actions)
        self.form = f"Answer with one of: {known}."
        if max_moves > 1:
            self.form = f"Answer with up to {max_moves} of: {known}; put commas between them."

    def _plain(self, text: str) -> str | None:
        word = text.strip(_TRIM).casefold()
        action = self._by_word.get(word)
        if action is None:
            word = _VERB.sub("", word, count=1).strip(_TRIM)
            action = self._by_word.get(word)
        if action is None and self.max_moves > 1:
            action = self._sequence(word)
        return action

    def _sequence(self, text: str) -> str | None:
        moves = [self._by_word.get(word) for word in _BETWEEN.split(text)]
        if len(moves) > self.max_moves or None in moves:
            return None
        return " ".join(move for move in moves if move is not None)

    def parse(self, reply: str) -> Parsed:
        """The one action that `reply` names, or why there is none. Never raises."""
        action = self._exact(reply)  # the common case, without regular expressions
        if action is not None:
            return Parsed(action)
        if len(reply) > MAX_REPLY_CHARS:
            return Parsed(None, f"The reply is over {MAX_REPLY_CHARS} characters. {self.form}")
        text = _THINK.sub("", reply)
        for mark in _MARKS:
            found = mark.findall(text)
            if found:
                break
        else:
            found = [text]
        answers = {self._plain(part) for part in found}
        if len(answers) > 1:
            return Parsed(None, f"The reply holds more than one answer. {self.form}")
        action = answers.pop()
        return Parsed(None, self._refusal(found[0])) if action is None else Parsed(action)

    def _exact(self, reply: str) -> str | None:
        """The action that is written exactly so, without anything around it."""
        return self._by_word.get(reply)

    def _refusal(self, text: str) -> str:
        """What is wrong with an answer that is no action, and what would be right."""
        what = "no known action" if self.max_moves == 1 else "no known actions, or too many"
        return f"The reply holds {what}. {self.form}"
