"""Advantages as pure functions over episodes.

An episode's action tokens are taken in order, without the observation tokens between
them, so that whatever is carried from token to token steps over observations: a return
or an advantage never depends on how much an environment says between two replies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ftw_envs.episode import Tokens

Floats = npt.NDArray[np.float64]

_EPS = 1e-6


def group_advantages(scores: Floats, size: int, *, divide_by_std: bool) -> Floats:
    """GRPO: the score minus the mean of its group (Shao et al., 2024, arXiv 2402.03300).

    Args:
        scores: shape (n,), groups of `size` one after another.
        divide_by_std: also divide by the group's standard deviation (Bessel-corrected);
            without it this is what Dr. GRPO proposes (Liu et al., 2025, arXiv 2503.20783).

    Returns:
        Shape (n,); 0 throughout a group of equal scores.

    Raises:
        ValueError: a group of one, or a number of scores that groups do not divide.
    """
    if size < 2 or len(scores) % size:
        raise ValueError(
            f"groups need at least 2 episodes and to divide all {len(scores)}, got {size}"
        )
    groups = scores.reshape(-1, size)
    advantages = groups - groups.mean(axis=1, keepdims=True)
    if divide_by_std:
        advantages = advantages / (groups.std(axis=1, ddof=1, keepdims=True) + _EPS)
    # Rounding of the mean leaves a trace where there is no difference.
    flat = groups.min(axis=1, keepdims=True) == groups.max(axis=1, keepdims=True)
    return np.where(flat, 0.0, advantages).reshape(-1)


def batch_advantages(scores: Floats) -> Floats:
    """REINFORCE++: scores normalised over the whole batch (Hu, 2025, arXiv 2501.03262).

    The mean is over episodes, not over tokens: else long episodes would set the baseline.
    """
    if scores.min() == scores.max():
        return np.zeros_like(scores)
    return (scores - scores.mean()) / (scores.std() + _EPS)


def turn_starts(tokens: Tokens) -> npt.NDArray[np.int64]:
    """Place, among the action tokens, of the first one of each reply, shape (turns,)."""
    action = np.array(tokens.action)
    first = action.astype(bool) & ~np.concatenate([[False], action[:-1].astype(bool)])
    return np.asarray((np.cumsum(action) - 1)[first], dtype=np.int64)


def gae(rewards: Floats, values: Floats, gamma: float, lam: float) -> tuple[Floats, Floats]:
    """Generalised advantage estimates (Schulman et al., 2016, arXiv 1506.02438).

    Args:
        rewards: of each step, shape (n,); the episode ends after the last one.
        values: of the states before each step, shape (n,).

    Returns:
        (advantages, returns), each of shape (n,); returns are advantages + values.
    """
    advantages = np.zeros_like(values)
    carried, after = 0.0, 0.0
    for t in range(len(values) - 1, -1, -1):
        delta = rewards[t] + gamma * after - values[t]
        carried = delta + gamma * lam * carried
        advantages[t], after = carried, values[t]
    return advantages, advantages + values


def whitened(parts: Sequence[Floats]) -> list[Floats]:
    """All parts shifted and scaled to mean 0 and variance 1 over all their entries."""
    whole = np.concatenate(list(parts))
    return [(p - whole.mean()) / np.sqrt(whole.var() + 1e-8) for p in parts]
