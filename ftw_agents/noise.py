"""How much of a score is luck: the noise meter.

A player's own dice are exploration: whatever they lead to can be imitated. Only noise that
pays the *same* replies differently makes a false winner. So each attempt's replies are
played again under other noise seeds, word for word, which every environment allows, and the
variance of the scores is split in three:

    score[i, a, r] = mean + instance[i] + player[i, a] + noise[i, a, r]

for instance i, attempt a and replay r. `noise` is what another seed does to fixed replies,
`player` what the player's dice (and its answers to the noise it saw) do to the expected
score, `instance` how much instances differ. This is a nested random-effects analysis of
variance; its estimators (Searle, Casella, McCulloch, Variance Components, 1992, ch. 3) are
unbiased whatever the distributions are, and can come out below 0 where a part is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, repeat
from math import isnan, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

import ftw_envs
from ftw_agents.collect import Collector
from ftw_agents.evaluate import Player
from ftw_agents.starts import Start
from ftw_agents.theory import (
    PAPER_FILTER,
    Risk,
    filter_name,
    filter_strength,
    kept_pull,
    risk_of,
    risk_premium,
    suggest_filter,
)
from ftw_envs.registry import make
from ftw_envs.streams import Stream
from ftw_envs.text_env import EpisodeEnv

Floats = npt.NDArray[np.float64]

NOISE_FORMAT = 1
KEEP = 0.5
"""A suggested filter keeps this share of its pull against a false winner."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval: percentile bootstrap over instances.

    The interval wants dozens of instances, and is too narrow where few of them ever score.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Parts:
    """The variance of a score, in its unit squared, and the luck in it.

    Attributes:
        noise: of the same replies under other noise seeds.
        player: of an attempt's expected score, within an instance.
        instance: of an instance's expected score.
        luck: share of noise in the whole, parts below 0 counted as 0; None where all
            scores are equal.
        luck_within: the same within an instance; None where no instance's scores differ.
    """

    noise: Estimate
    player: Estimate
    instance: Estimate
    luck: Estimate | None
    luck_within: Estimate | None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A filter that suits the measured noise.

    Attributes:
        candidates, winners: C and K.
        name: FTW-K-C.
        strength: nats.
        effective_share: of the buffer.
        risk: its class.
        premium: how far below a sure action's mean a noisy one may lie and still gain, in
            units of the score; below 0 it has to pay that much more.
        kept_pull: its pull against a false winner, as a share of that without noise.
        reason: in one sentence.
    """

    candidates: int
    winners: int
    name: str
    strength: float
    effective_share: float
    risk: Risk
    premium: float
    kept_pull: float
    reason: str


@dataclass(frozen=True, slots=True)
class NoiseReport:
    """What was measured and what follows from it.

    Attributes:
        about: who played what.
        mean_score: over all replays.
        ran_out: share of replays in which the recorded replies ended before the episode.
        parts: of the variance.
        suggestion: the filter.
    """

    about: dict[str, Any]
    mean_score: float
    ran_out: float
    parts: Parts
    suggestion: Suggestion

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return {"format": NOISE_FORMAT, "suite_version": ftw_envs.__version__, **asdict(self)}


def _variance(x: Floats) -> Floats:
    """Unbiased, along the last axis; exactly 0 where all values are equal."""
    return np.asarray(np.var(x - x[..., :1], axis=-1, ddof=1))


def _figures(within: Floats, attempts: Floats, means: Floats, a: int, r: int) -> list[float]:
    """Noise, player and instance variance, share of noise in all and within an instance.

    A share is nan where the variance that it is a share of is 0.

    Args:
        within: mean variance of an attempt's replays, by instance.
        attempts: variance of attempts' means, by instance.
        means: by instance.
        a, r: attempts at an instance, replays of an attempt.
    """
    noise, spread = float(within.mean()), float(attempts.mean())
    parts = [noise, spread - noise / r, float(_variance(means)) - spread / a]
    noise, player, instance = (max(0.0, part) for part in parts)
    wholes = (noise + player + instance, noise + player)
    return [*parts, *(noise / whole if whole else float("nan") for whole in wholes)]


def split_variance(scores: Floats, seed: int = 0, *, resamples: int = 2000) -> Parts:
    """The three parts of the variance.

    Args:
        scores: shape (instances, attempts, replays).
        seed: names the randomness of the bootstrap.
        resamples: of the bootstrap, at least 1.

    Raises:
        ValueError: an axis is shorter than 2, or a score is not finite.
    """
    if scores.ndim != 3 or min(scores.shape) < 2:
        raise ValueError(
            "scores must be (instances, attempts, replays), each at least 2, got shape "
            f"{scores.shape}"
        )
    if not np.isfinite(scores).all():
        raise ValueError("scores must be finite numbers")
    n, a, r = scores.shape
    of_attempt = scores[:, :, 0] + (scores - scores[:, :, :1]).mean(axis=2)
    within, attempts = _variance(scores).mean(axis=1), _variance(of_attempt)
    means = of_attempt[:, 0] + (of_attempt - of_attempt[:, :1]).mean(axis=1)
    found = _figures(within, attempts, means, a, r)
    stream = Stream("noise-bootstrap", seed)
    # A resample's variance is too small by (n - 1) / n: its means are drawn from n values.
    wide = means * sqrt(n / (n - 1))
    again = np.empty((resamples, len(found)))
    for i in range(resamples):
        pick = (stream.uniforms(n) * n).astype(np.int64)
        again[i] = _figures(within[pick], attempts[pick], wide[pick], a, r)
    noise, player, instance, *luck = (
        Estimate(value, *np.nanpercentile(column, [2.5, 97.5]).tolist())
        for value, column in zip(found, again.T, strict=True)
        if not isnan(value)
    )
    return Parts(noise, player, instance, *luck, *[None] * (2 - len(luck)))


def suggest(parts: Parts) -> Suggestion:
    """The filter that `suggest_filter` takes for this noise, and why.

    All noise is taken to be on the worse of two actions: the worst case. How far apart two
    actions are is the root mean square difference of two attempts' expected scores.
    """
    noise, player, instance = (
        max(0.0, part.value) for part in (parts.noise, parts.player, parts.instance)
    )
    sigma, gap, background = sqrt(noise), sqrt(2 * player), sqrt(instance)
    c, k = suggest_filter(gap, sigma, background, keep=KEEP)
    strength, share = filter_strength(c, k)
    premium = sigma * risk_premium(c, k, background=background / sigma) if sigma else 0.0
    floor = max(gap, 1e-3 * sigma)  # as in `suggest_filter`
    kept = kept_pull(c, k, floor, sigma, background) if sigma else 1.0
    name = filter_name(c, k)
    if parts.luck is None:
        reason = f"all scores are equal, so no filter can rank anything yet; {name} is the default"
    elif not sigma:
        reason = (
            "the same replies score the same under other noise, so no winner is a false one and "
            f"the strongest filter, {name}, is safe"
        )
    else:
        paper = kept_pull(*PAPER_FILTER, floor, sigma, background)
        reason = (
            f"with noise of {sigma:.3g} and {gap:.3g} between two attempts, {name} is the "
            f"strongest filter that keeps at least {KEEP:.0%} of its pull against a worse but "
            f"noisier action ({filter_name(*PAPER_FILTER)} keeps {paper:.0%})"
        )
    return Suggestion(c, k, name, strength, share, risk_of(c, k), premium, kept, reason)


def rescore(env: EpisodeEnv, start: Start, replies: Sequence[str], seed: int) -> tuple[float, bool]:
    """What the same replies score under another noise seed.

    Where they end before the episode does, nothing usable is said until its end.

    Args:
        start: whose instance is played; its seed is not used.

    Returns:
        The score, and whether the replies ended before the episode.
    """
    _, info = env.reset(seed=seed, options={"split": start.split, "index": start.index})
    for reply in chain(replies, repeat("")):
        *_, info = env.step(reply)
        if info["end"]:
            break
    return float(info["score"]), info["steps"] > len(replies)


def measure_noise(
    player: Player,
    env_id: str,
    env_kwargs: dict[str, Any],
    *,
    split: str,
    instances: int,
    attempts: int,
    replays: int,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
) -> NoiseReport:
    """Plays `attempts` attempts at each of the first `instances` instances, and replays each.

    Each attempt has a noise seed and dice of its own. It is not counted itself, only its
    `replays` replays are, for its player may have answered to the very noise that it met.

    Args:
        progress: called with the number of attempts done.

    Raises:
        ValueError: fewer than 2 instances, attempts or replays, or more instances than
            there are.
    """
    for name, value in (("attempts", attempts), ("replays", replays)):
        if value < 2:
            raise ValueError(f"{name} must be at least 2 (a variance needs two), got {value}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")
    collector = Collector(env_id, env_kwargs)
    count = collector.env.instance_count(split)
    if not 2 <= instances <= count:
        raise ValueError(
            f"instances must be from 2 to {count} (instances in {split!r}), got {instances}"
        )
    starts = [
        Start(split, i, Stream("noise", seed, i, a).word() >> 1, a)
        for i in range(instances)
        for a in range(attempts)
    ]
    env = make(env_id, **env_kwargs)  # apart from those that are being played
    scores = np.empty((len(starts), replays))
    ran_out = 0
    for n, episode in enumerate(collector.play(player.agent, starts, player_seed=seed)):
        start, replies = starts[n], [turn.reply for turn in episode.turns]
        fresh = Stream("noise-replay", seed, start.index, start.attempt)
        for r in range(replays):
            scores[n, r], short = rescore(env, start, replies, fresh.word() >> 1)
            ran_out += short
        progress(n + 1)
    parts = split_variance(scores.reshape(instances, attempts, replays), seed)
    about = {
        "agent": player.about,
        "env_id": env_id,
        "env_version": env.env_version,
        "env_kwargs": env_kwargs,
        "split": split,
        "seed": seed,
        "instances": instances,
        "attempts": attempts,
        "replays": replays,
    }
    return NoiseReport(about, float(scores.mean()), ran_out / scores.size, parts, suggest(parts))
